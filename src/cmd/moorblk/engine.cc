// moorblk engine: serves one volume from its replicas.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "block/core/engine_control.h"
#include "block/engine/host.h"
#include "block/io/address.h"
#include "block/io/control_server.h"
#include "block/io/loop.h"
#include "cmd/moorblk/commands.h"
#include "cmd/moorblk/token_file.h"

namespace moor::cmd {

namespace {

struct EngineOptions {
  std::string volume = "volume";
  std::uint64_t epoch = 0;
  std::string engine_id;
  std::vector<std::string> replicas;
  std::string listen;
  std::string peer_listen;
  bool standby = false;
  std::string source;
  bool hold = false;
  std::uint64_t last_served = 0;
  std::string control;
  std::string confirm = "control";
  std::string token_file;
  std::uint64_t generation = 0;
  std::string export_id;
  bool unproven = false;
  bool accept_missing = false;
  std::string start_wait = "30s";
  std::string peer_timeout = "20s";
};

Result<block::engine::Config> make_config(const EngineOptions& options) {
  block::engine::Config config;
  config.volume = options.volume;
  // By hand nobody counts epochs; time does, as long as one starts engines less often than a thousand times a
  // second.
  config.epoch =
      options.epoch != 0
          ? options.epoch
          : static_cast<std::uint64_t>(RealClock().wall().since_epoch / std::chrono::milliseconds(1));
  config.engine = options.engine_id.empty() ? fmt::format("engine-{}", ::getpid()) : options.engine_id;
  config.generation = options.generation;
  config.export_id = options.export_id;
  config.fresh_export_id = fmt::format("{}-{}", options.volume, config.epoch);
  config.accept_missing = options.accept_missing;
  config.by_hand = options.confirm == "auto";
  config.hold_when_superseded = options.hold;
  config.last_served = options.last_served;
  config.standby = options.standby;
  config.source = options.source;
  if (options.standby != !options.source.empty()) {
    return make_error(Errc::invalid, "--standby and --source go together");
  }
  if (options.confirm == "auto" || options.unproven) {
    config.in_sync = block::engine::InSync::highest_generation;
  }
  if (!options.token_file.empty()) {
    TRY(config.token, read_token(options.token_file));
  }
  TRY(config.start_wait, parse_duration(options.start_wait));
  TRY(config.peer_timeout, parse_duration(options.peer_timeout));
  std::map<std::string, int> names;
  for (const std::string& text : options.replicas) {
    TRY(auto member, block::engine::parse_member(text));
    if (++names[member.name] > 1) return make_error(Errc::invalid, "two replicas are called " + member.name);
    config.members.push_back(std::move(member));
  }
  if (config.members.size() > block::engine::kMaxMembers) {
    return make_error(Errc::invalid, fmt::format("at most {} replicas", block::engine::kMaxMembers));
  }
  // The NBD front stops reading at half of it and brings at most one connection's worth after that, so no
  // client's request has to fail.
  config.max_operations = 8 * 1024;
  return config;
}

int exit_code(const block::engine::Exit& exit) {
  switch (exit.reason) {
    case block::engine::ExitReason::drained:
    case block::engine::ExitReason::forced: return 0;
    case block::engine::ExitReason::superseded: return 3;
    case block::engine::ExitReason::faulted: return 4;
    case block::engine::ExitReason::refused: return 5;
  }
  return 1;
}

Result<int> serve(const EngineOptions& options) {
  TRY(auto config, make_config(options));
  TRY(const auto listen, block::io::parse_address(options.listen));
  TRY(const auto loop, block::io::Loop::create());
  block::BufferPool pool;
  const Json about = Json::object({{"program", "engine"},
                                   {"pid", ::getpid()},
                                   {"volume", config.volume},
                                   {"epoch", config.epoch},
                                   {"engine", config.engine}});
  block::io::ControlServer control(*loop, pool, about);
  block::EngineHostOptions host_options;
  host_options.config = std::move(config);
  host_options.listen = listen;
  if (!options.peer_listen.empty()) {
    TRY(host_options.peer_listen, block::io::parse_address(options.peer_listen));
  }
  host_options.confirm_itself = options.confirm == "auto";
  host_options.on_serving = [](const std::string& bound) {
    fmt::print("ready {}\n", bound);
    std::fflush(stdout);
  };
  TRY(const auto host, block::EngineHost::create(*loop, pool, std::move(host_options)));
  if (!options.control.empty()) {
    host->add_control(control);
    TRY(const auto path, block::io::parse_address("unix:" + options.control));
    TRY_VOID(control.listen(path));
  }
  TRY_VOID(host->listen_for_peers());
  TRY_VOID(loop->on_signals({SIGTERM, SIGINT}, [&](int) { host->ask_to_end(); }));
  host->start();
  TRY_VOID(loop->run());
  if (listen.is_unix()) std::remove(options.listen.substr(5).c_str());
  if (!options.control.empty()) std::remove(options.control.c_str());
  return host->exit() ? exit_code(*host->exit()) : 1;
}

constexpr const char* kFooter =
    "Exit codes: 0 drained or forced, 3 superseded, 4 the last RW replica is lost, 5 a standby that was "
    "refused, 1 anything else.\n"
    "Example, three replicas by hand:\n"
    "  for i in 1 2 3; do moorblk replica create r$i --size 1Gi; done\n"
    "  for i in 1 2 3; do moorblk replica serve r$i --listen unix:r$i.sock --control r$i.ctl & done\n"
    "  moorblk engine --volume v1 --replica unix:r1.sock unix:r2.sock unix:r3.sock --listen unix:v1.sock "
    "\\\n"
    "    --control v1.ctl --confirm auto\n"
    "  nbdinfo \"nbd+unix:///v1?socket=v1.sock\"\n"
    "A move by hand, from this engine (started with --peer-listen tcp:127.0.0.1:7001) to a second one:\n"
    "  moorblk ctl v1.ctl hold on\n"
    "  moorblk engine --volume v1 --replica unix:r1.sock unix:r2.sock unix:r3.sock --listen unix:w1.sock "
    "\\\n"
    "    --control w1.ctl --confirm auto --standby --source tcp:127.0.0.1:7001\n"
    "  nbdinfo \"nbd+unix:///v1?socket=w1.sock\"     # reads go through the first engine\n"
    "  moorblk ctl w1.ctl activate                  # or just write there\n"
    "  moorblk ctl v1.ctl shutdown                  # confirm: the first engine's clients get errors\n"
    "  moorblk ctl v1.ctl epoch take $(date +%s%3N) # or roll back: its clients go on, if nothing was "
    "written";

void add_move_options(CLI::App& command, EngineOptions& options) {
  command.add_option(
      "--peer-listen", options.peer_listen,
      "where the standby of a move connects: tcp:HOST:PORT or unix:PATH; port 0: any, see status");
  command.add_flag("--standby", options.standby,
                   "destination of a move: reads through --source until it is activated");
  command.add_option("--source", options.source, "the active engine's --peer-listen address");
  command.add_flag("--hold", options.hold, "keep clients and their requests when superseded (see ctl hold)");
  command.add_option(
      "--last-served", options.last_served,
      "the epoch that the clients were last served in: later writes of others end their sessions");
}

}  // namespace

void add_engine(CLI::App& app, Chosen& chosen) {
  auto shared = std::make_shared<EngineOptions>();  // outlives this call in the callback
  EngineOptions& options = *shared;
  auto* command = app.add_subcommand("engine", "Serve a volume from its replicas, over NBD");
  command->add_option("--volume", options.volume, "the volume's name, also the export's")
      ->capture_default_str();
  command->add_option("--epoch", options.epoch, "of the Grant; by default the time in milliseconds");
  command->add_option("--engine-id", options.engine_id, "who this is; by default engine-PID");
  command
      ->add_option("--replica", options.replicas,
                   "unix:PATH or tcp:HOST:PORT, then ,name=N ,mode=rw|wo|err ,local ,absent; one or more")
      ->required();
  command->add_option("--listen", options.listen, "where clients connect: unix:PATH or tcp:HOST:PORT")
      ->required();
  command->add_option("--control", options.control, "path of the control socket");
  command
      ->add_option(
          "--confirm", options.confirm,
          "control: changes of members wait for the controller. auto: by hand, without one; in sync are "
          "the replicas with the highest generation, and all that are named must answer")
      ->check(CLI::IsMember({"control", "auto"}))
      ->capture_default_str();
  command->add_option("--token-file", options.token_file, "the volume's secret");
  command->add_option("--generation", options.generation, "of the Grant (with --confirm control)");
  command->add_option("--export-id", options.export_id, "of the Grant (with --confirm control)");
  command->add_flag("--unproven", options.unproven, "the Grant comes from a restored store");
  add_move_options(*command, options);
  command->add_flag("--accept-missing", options.accept_missing,
                    "start without replicas that do not answer: you say that they hold nothing newer");
  command->add_option("--start-wait", options.start_wait, "how long to wait for replicas")
      ->capture_default_str();
  command->add_option("--peer-timeout", options.peer_timeout, "a replica silent for so long is lost")
      ->capture_default_str();
  command->footer(kFooter);
  command->callback([shared, &chosen] {
    chosen = [shared] {
      const auto done = serve(*shared);
      if (done) return *done;
      fmt::print(stderr, "moorblk engine: {}\n", done.error().message);
      return 1;
    };
  });
}

}  // namespace moor::cmd
