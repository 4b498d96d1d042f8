// What every command works with. Commands are functions over a Registry: where the server is, and whether it
// is one, is not their business. Borrowed for the command's run, on the executor's thread.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/executor.h"
#include "cli/printer.h"
#include "model/time.h"
#include "registry/registry.h"

namespace moor::cli {

struct Context {
  Executor& executor;
  registry::Registry& registry;
  Printer& printer;
  std::string space;
  std::string user;  // who is typing, for lastAttachedBy

  model::Time now() const { return model::Time(executor.clock().wall().since_epoch); }
};

}  // namespace moor::cli
