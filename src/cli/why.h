// moor why: what a volume or a ticket waits for, since when, and who can clear it. Nothing here decides or
// guesses: what is said about tickets and members comes from attach/explain.h, the rest are conditions that
// controllers and agents wrote.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attach/explain.h"
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
  std::string kind;    // waiting, satisfied, volume, condition
  std::string ticket;  // empty: it is not about one
  std::string type;    // the blocker's or the condition's
  std::string text;    // one line
  std::optional<model::longhorn::Blocker> blocker = {};
};

// Waiting tickets first, then what is well, then the volume, its engine, its replicas and their nodes.
std::vector<Reason> reasons_for(const WhyFacts& facts, model::Time now);

Task<Outcome<void>> why_volume(Context& context, std::string name);
struct WhyTicket {
  std::string ticket;
  std::string volume;  // empty: whichever volumes have a ticket of that id
};
Task<Outcome<void>> why_ticket(Context& context, WhyTicket which);

}  // namespace moor::cli
