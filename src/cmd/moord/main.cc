// moord: the daemon of Mooring. Wiring only: each subcommand is a file of its own.
#include <CLI/CLI.hpp>
#include <functional>

#include "cmd/moord/agent_command.h"
#include "cmd/moord/dev_command.h"
#include "cmd/moord/hollow_command.h"
#include "cmd/moord/server_command.h"
#include "cmd/moord/store_command.h"

int main(int count, char** arguments) {
  CLI::App app("Mooring keeps block volumes fastened to the right node.", "moord");
  app.require_subcommand(1);
  std::function<int()> run;
  moor::cmd::add_dev_command(app, run);
  moor::cmd::add_server_command(app, run);
  moor::cmd::add_agent_command(app, run);
  moor::cmd::add_hollow_command(app, run);
  moor::cmd::add_store_command(app, run);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run();
}
