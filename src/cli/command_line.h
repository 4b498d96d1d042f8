// The tree of commands as CLI11 sees it, with what was chosen. Private to this room: app.cc runs it,
// completion.cc walks it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/context.h"
#include "cli/outcome.h"
#include "cli/printer.h"

namespace moor::cli {

struct CommandLine {
  CommandLine();
  CLI::App app;
  std::string kubeconfig;
  std::string space;
  std::string output = "table";
  // What was chosen: a command that talks to a server, or a text that needs none.
  std::function<Task<Outcome<void>>(Context&)> command;
  std::string text;
  // Or something that runs here, without a server, and answers the exit code.
  std::function<int(const Streams&)> local;
};

// The candidates for the last of `words`; `names` gives volumes, nodes or tickets for a value that has to be
// one.
using NameSource = std::function<std::vector<std::string>(std::string_view what)>;
std::vector<std::string> complete(CommandLine& line, const std::vector<std::string>& words,
                                  const NameSource& names);
// Errc::invalid for a shell that is none of bash, zsh and fish.
Result<std::string> completion_script(std::string_view shell);

}  // namespace moor::cli
