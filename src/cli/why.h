// moor why: what a volume or a ticket waits for, since when, and who can clear it. Nothing here decides or
// guesses: tickets' reasons are the blockers that the rules wrote, the rest are conditions that controllers
// and agents wrote.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/outcome.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"

namespace moor::cli {

struct WhyFacts {
  model::longhorn::Volume volume;
  std::optional<model::longhorn::VolumeAttachment> attachment = {};
  std::optional<model::mooring::Grant> grant = {};
  std::vector<model::longhorn::Engine> engines = {};
  std::vector<model::longhorn::Replica> replicas = {};
  std::vector<model::longhorn::Node> nodes = {};
};

struct Reason {
  std::string about;   // "ticket moor-node-2 (longhorn-api, node-2)", "volume v1", "replica v1-r-2"
  std::string ticket;  // the ticket's id; empty for the others
  std::string type;    // AttachedElsewhere, Scheduled, …
  std::string message;
  std::string holder = {};
  std::string holder_type = {};
  std::string node = {};
  std::optional<model::Time> since = {};
  std::string cleared_by = {};
};

// Waiting tickets first, then the volume, its engine, its replicas. Empty: nothing waits.
std::vector<Reason> reasons_for(const WhyFacts& facts);
std::string to_sentence(const Reason& reason, model::Time now);

Task<Outcome<void>> why_volume(Context& context, std::string name);
struct WhyTicket {
  std::string ticket;
  std::string volume;  // empty: whichever volumes have a ticket of that id
};
Task<Outcome<void>> why_ticket(Context& context, WhyTicket which);

}  // namespace moor::cli
