// `moord store export|import|check|compact`: work on an embedded store while no server has it open.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace moor::cmd {

// Adds the subcommands. `run` is set when one of them was chosen; it answers the exit code: 0 done, 1 failed
// or damaged.
void add_store_command(CLI::App& app, std::function<int()>& run);

}  // namespace moor::cmd
