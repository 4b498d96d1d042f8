// moor migrate: a volume that is in use goes to another node. Written as tickets, like everything else: a
// second ticket begins the move, taking one of the two away ends it.
#pragma once

#include <string>

#include "cli/context.h"
#include "cli/outcome.h"
#include "model/longhorn/volume.h"

namespace moor::cli {

struct Migrate {
  std::string volume;
  std::string to;
  bool activate = false;
  bool confirm = false;
  bool roll_back = false;
  bool wait = false;
  Duration timeout{};
};
Task<Outcome<void>> migrate_volume(Context& context, Migrate wanted);

// "node-1 to node-2, ready since 5s"; "" when there is none.
std::string move_sentence(const Context& context, const model::longhorn::Volume& volume);

}  // namespace moor::cli
