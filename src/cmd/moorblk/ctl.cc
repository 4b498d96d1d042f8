#include <CLI/CLI.hpp>

#include "cmd/moorblk/commands.h"

namespace moor::cmd {
void add_ctl(CLI::App&, Chosen&) {}
}  // namespace moor::cmd
