// moor sim: runs simulated clusters (src/sim) on this machine; needs no server.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command_line.h"

namespace moor::cli {

void add_sim(CLI::App& app, CommandLine& line);

}  // namespace moor::cli
