// The moor command line: what can be typed, what it means, and how answers leave. Everything from outside
// (streams, environment, the way to a server) comes in through Surroundings, so that tests run whole command
// lines against a registry in memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "cli/kubeconfig.h"
#include "cli/printer.h"
#include "registry/registry.h"

namespace moor::cli {

struct Surroundings {
  Executor& executor;
  Streams streams;
  Environment environment;
  std::function<Result<std::unique_ptr<registry::Registry>>(const ClusterAccess&)> connect;
};

// Runs one command line (without the program's name); answers the exit code.
int run(const std::vector<std::string>& arguments, Surroundings& around);

}  // namespace moor::cli
