// The subcommands of moorblk, one file each. To add one: a function here, its file in CMakeLists.txt, a line
// in main.cc. A command only says what it would run; main() runs the one that was chosen.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace moor::cmd {

using Chosen = std::function<int()>;  // gives the exit code

void add_ctl(CLI::App& app, Chosen& chosen);
void add_device(CLI::App& app, Chosen& chosen);
void add_engine(CLI::App& app, Chosen& chosen);
void add_memory(CLI::App& app, Chosen& chosen);
void add_replica(CLI::App& app, Chosen& chosen);

}  // namespace moor::cmd
