// Waiting for a volume, by watching: its Volume, VolumeAttachment and Engine objects are followed, each
// change of state is told on stderr as it happens, and the verdict is asked after each until it has one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/context.h"
#include "cli/objects.h"

namespace moor::cli {

// What is there now; absent objects are empty.
struct VolumeSight {
  std::optional<model::longhorn::Volume> volume;
  std::optional<model::longhorn::VolumeAttachment> attachment;
  std::optional<model::longhorn::Engine> engine;
};

using Verdict = std::function<std::optional<Outcome<void>>(const VolumeSight&)>;

struct FollowOptions {
  std::string volume;
  Duration timeout;
  std::string what;    // "v1 to be attached to node-1": for the message when time is up
  std::string ticket;  // its blockers are told too; may be empty
  Verdict verdict;
  bool quiet = false;  // tell nothing
};

Task<Outcome<void>> follow_volume(Context& context, FollowOptions options);

// "attached to node-1, healthy", "attaching to node-2", "detached".
std::string state_sentence(const model::longhorn::Volume& volume);
// "AttachedElsewhere: …" of each blocker, joined.
std::string blocker_text(const model::longhorn::Blocker& blocker);

}  // namespace moor::cli
