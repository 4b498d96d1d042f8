// `moord hollow`: many nodes in one process, whole agents but for the block processes, which are imagined.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace moor::cmd {

// Adds the subcommand. `run` is set when it was chosen; it answers the exit code: 0 stopped when asked to,
// 1 failed.
void add_hollow_command(CLI::App& app, std::function<int()>& run);

}  // namespace moor::cmd
