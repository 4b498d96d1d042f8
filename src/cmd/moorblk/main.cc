// moorblk: the data plane's programs in one lean binary.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/log.h"
#include "cmd/moorblk/commands.h"

namespace {

constexpr char kExamples[] = R"(
Examples:
  moorblk replica create r1 --size 1Gi && moorblk replica serve r1 --listen unix:r1.sock --control r1.ctl
  moorblk engine --volume v1 --replica unix:r1.sock unix:r2.sock --listen unix:v1.sock --control v1.ctl --confirm auto
  moorblk memory --listen unix:/run/ram.sock --size 1Gi
  nbdinfo "nbd+unix:///?socket=/run/ram.sock"
  moorblk ctl /run/ram.ctl status
)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Mooring's block engine: replicas, engines and devices over NBD.", "moorblk");
  app.footer(kExamples);
  app.require_subcommand(1);
  std::string level = "info";
  bool json = false;
  app.add_option("--log-level", level, "debug, info, warn, error or off")->capture_default_str();
  app.add_flag("--log-json", json, "one JSON object per log line");

  moor::cmd::Chosen chosen;
  moor::cmd::add_ctl(app, chosen);
  moor::cmd::add_device(app, chosen);
  moor::cmd::add_engine(app, chosen);
  moor::cmd::add_memory(app, chosen);
  moor::cmd::add_replica(app, chosen);
  CLI11_PARSE(app, argc, argv);

  const auto parsed = moor::parse_log_level(level);
  if (!parsed) {
    fmt::print(stderr, "moorblk: {}\n", parsed.error().message);
    return 2;
  }
  moor::configure_log(*parsed, json ? moor::LogFormat::json : moor::LogFormat::text);
  return chosen();
}
