// `moord dev`: a whole cluster on one machine, in one directory: the server and one agent per node, each a
// process of its own.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace moor::cmd {

// Adds the subcommand. `run` is set when it was chosen; it answers the exit code: 0 stopped when asked to,
// 1 failed, 2 wrong usage.
void add_dev_command(CLI::App& app, std::function<int()>& run);

}  // namespace moor::cmd
