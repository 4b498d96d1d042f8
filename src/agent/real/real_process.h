// A process on the loop: its end is an event.
#pragma once

#include <memory>

#include "agent/host.h"
#include "agent/real/spawn.h"
#include "base/loop.h"

namespace moor::agent {

// Takes the pidfd.
Result<std::unique_ptr<Process>> watch_process(Loop& loop, Spawned spawned);

}  // namespace moor::agent
