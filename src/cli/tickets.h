// moor attach | detach | tickets: the book of tickets from a person's side. A ticket of ours has the id
// moor-NODE, so that asking twice for the same node is one ticket, and asking for another node is a second
// ticket that waits its turn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/outcome.h"
#include "cli/table.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::cli {

struct Attach {
  std::string volume;
  std::string node;
  std::string ticket;   // empty: moor-NODE
  std::string expires;  // a duration; empty: never
  bool disable_frontend = false;
  bool wait = false;
  Duration timeout{};
};
Task<Outcome<void>> attach_volume(Context& context, Attach wanted);

// Without --ticket the tickets that people made (type longhorn-api) leave, all or those of one node; those of
// pods and controllers only by name.
struct Detach {
  std::string volume;
  std::string node;
  std::string ticket;
  bool wait = false;
  Duration timeout{};
};
Task<Outcome<void>> detach_volume(Context& context, Detach which);

Task<Outcome<void>> list_tickets(Context& context, std::string volume);

Table ticket_table(const Context& context, const std::vector<model::longhorn::VolumeAttachment>& attachments);
// Satisfied in its present generation.
bool is_satisfied(const model::longhorn::VolumeAttachment& attachment, const std::string& ticket);

}  // namespace moor::cli
