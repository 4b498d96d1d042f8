#include "cmd/moord/agent_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/agent.h"
#include "agent/real/identity.h"
#include "agent/real/real_host.h"
#include "agent/real/spawn.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "base/units.h"
#include "cmd/moord/server_files.h"
#include "cmd/moord/stop_signals.h"
#include "registry/client/remote_registry.h"

namespace moor::cmd {
namespace {

using namespace std::chrono_literals;

struct AgentArguments {
  std::string server;
  std::string node;
  std::string directory;
  std::string token_file;
  std::string ca_file;
  std::string address = "127.0.0.1";
  std::string zone;
  std::string region;
  std::string device_directory;
  std::string moorblk;
  std::string heartbeat = "3s";
  std::string disk_interval = "30s";
  std::string log_level = "info";
  std::string log_format = "text";
};

struct Ready {
  http::Url server;
  agent::AgentOptions agent;
  agent::RealHostOptions host;
};

Result<Ready> check(const AgentArguments& arguments) {
  Ready ready;
  TRY(ready.server, http::Url::parse(arguments.server));
  std::error_code error;
  std::string directory = std::filesystem::absolute(arguments.directory, error).lexically_normal();
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  ready.agent.directory = directory;
  ready.agent.node = {arguments.node, arguments.address, arguments.zone, arguments.region,
                      directory + "/disks/default"};
  ready.agent.device_directory =
      arguments.device_directory.empty() ? directory + "/dev" : arguments.device_directory;
  TRY(ready.agent.heartbeat, parse_duration(arguments.heartbeat));
  if (ready.agent.heartbeat < 100ms) return make_error(Errc::invalid, "--heartbeat is at least 100ms");
  TRY(ready.agent.disk_interval, parse_duration(arguments.disk_interval));
  std::string program = arguments.moorblk;
  if (program.empty())
    program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "moorblk";
  ready.host = {directory, program};
  if (arguments.log_format != "text" && arguments.log_format != "json")
    return make_error(Errc::invalid, "--log-format is text or json");
  return ready;
}

// One agent per directory: two would both supervise what is in it.
Result<agent::Handle> lock_directory(const std::string& directory) {
  TRY_VOID(make_private_directory(directory));
  auto lock = agent::take_lock(directory + "/agent.lock");
  if (lock.is(Errc::already_exists))
    return make_error(Errc::already_exists, "another agent runs in " + directory);
  return lock;
}

Task<Result<agent::NodeIdentity>> get_identity(Loop& loop, agent::IdentityOptions options,
                                               CancelToken token) {
  Duration pause = 200ms;
  while (true) {
    auto identity = co_await agent::obtain_identity(loop, options, token);
    if (identity) co_return identity;
    CO_TRY_VOID(token.check());
    if (!identity.is(Errc::unavailable) && !identity.is(Errc::timed_out)) co_return identity;
    log_warn("the server does not answer yet", {{"error", identity.error()}});
    CO_TRY_VOID(co_await sleep_for(loop, pause, token));
    pause = std::min<Duration>(pause * 2, 5s);
  }
}

Task<Result<void>> run_once(Loop& loop, agent::Host& host, Ready ready, http::ClientOptions client,
                            CancelToken token, std::function<void()> on_ready) {
  registry::RemoteOptions options;
  options.most_at_once = agent::kMostRequests;
  options.client = std::move(client);
  options.user_agent = "moord-agent";
  options.request_timeout = 10s;  // an engine may be waiting for its change of members
  CO_TRY(const auto registry, registry::RemoteRegistry::make(loop, std::move(options)));
  agent::Agent agent(loop, *registry, host, ready.agent);
  co_return co_await agent.run(token, std::move(on_ready));
}

Task<Result<void>> run_all(Loop& loop, AgentArguments arguments, Ready ready, CancelToken token) {
  CO_TRY(const agent::Handle lock, lock_directory(ready.agent.directory));
  RealRandom random;
  CO_TRY(const auto host, agent::RealHost::make(loop, random, ready.host));
  bool told = false;
  const auto on_ready = [&told, node = arguments.node] {
    if (told) return;
    told = true;
    fmt::print("ready {}\n", node);
    std::fflush(stdout);
  };
  while (true) {
    http::ClientOptions client;
    client.endpoint = ready.server;
    // A certificate that is renewed starts the agent anew: the processes do not notice.
    CancelSource life(token);
    if (ready.server.scheme == http::Url::Scheme::https) {
      agent::IdentityOptions options{ready.server, arguments.node, ready.agent.directory,
                                     arguments.token_file, arguments.ca_file};
      CO_TRY(const agent::NodeIdentity identity, co_await get_identity(loop, std::move(options), token));
      client.tls = identity.tls;
      const auto left = identity.renew_at.since_epoch - loop.clock().wall().since_epoch;
      life.set_deadline(loop, loop.clock().now() + std::max<Duration>(left, 1min),
                        "renewal of the certificate");
    } else {
      log_warn("no TLS: this agent has no identity of its own");
    }
    const Result<void> done =
        co_await run_once(loop, *host, ready, std::move(client), life.token(), on_ready);
    if (token.is_cancelled()) co_return Result<void>();
    if (!done && !life.token().is_cancelled()) co_return done.error();
    log_info("starts anew", {{"reason", life.token().reason()}});
  }
}

int run_agent(const AgentArguments& arguments) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "moord agent: {}\n", error.message);
    return 1;
  };
  const auto ready = check(arguments);
  if (!ready) return fail(ready.error());
  const auto level = parse_log_level(arguments.log_level);
  if (!level) return fail(level.error());
  configure_log(*level, arguments.log_format == "json" ? LogFormat::json : LogFormat::text);
  Loop loop;
  CancelSource stop;
  const StopSignals signals(loop, [&stop](int signal) {
    stop.cancel(make_error(Errc::cancelled, fmt::format("signal {}", signal)));
  });
  const Result<void> done = block_on(loop, run_all(loop, arguments, *ready, stop.token()));
  return done || stop.token().is_cancelled() ? 0 : fail(done.error());
}

}  // namespace

void add_agent_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* agent = app.add_subcommand("agent", "Keep the volumes of one node");
  const auto arguments =
      std::make_shared<AgentArguments>();  // shared by the options and the run after parsing
  agent->footer(
      "Examples:\n"
      "  moord agent --server https://10.0.0.1:6440 --node node-1 --dir /var/lib/mooring \\\n"
      "    --address 10.0.0.11 --device-dir /dev/mooring --token-file bootstrap.token\n"
      "The token file is bootstrap.token from the server's directory; it also says which CA the server must\n"
      "have. It is needed until there is a certificate in D/pki. Prints `ready NODE` when the node is known\n"
      "and everything that runs has been adopted. Stopping the agent stops no engine, replica or device.\n");
  agent->add_option("--server", arguments->server, "URL of the server")->required();
  agent->add_option("--node", arguments->node, "name of this node")->required();
  agent->add_option("--dir", arguments->directory, "directory for state, logs and the default disk")
      ->required();
  agent->add_option("--token-file", arguments->token_file, "bootstrap token, for the first certificate");
  agent->add_option("--ca-file", arguments->ca_file,
                    "CA of the server, instead of the token file's fingerprint");
  agent->add_option("--address", arguments->address, "address at which other nodes reach replicas here")
      ->capture_default_str();
  agent->add_option("--device-dir", arguments->device_directory,
                    "where volumes appear as devices (default D/dev; /dev/mooring on a real node)");
  agent->add_option("--zone", arguments->zone, "zone of this node");
  agent->add_option("--region", arguments->region, "region of this node");
  agent
      ->add_option("--heartbeat", arguments->heartbeat,
                   "how often the lease is renewed; it lasts four times that")
      ->capture_default_str();
  agent->add_option("--disk-interval", arguments->disk_interval, "how often the disks are looked at")
      ->capture_default_str();
  agent->add_option("--moorblk", arguments->moorblk, "the program (default: beside this one)");
  agent->add_option("--log-level", arguments->log_level, "debug, info, warn, error")->capture_default_str();
  agent->add_option("--log-format", arguments->log_format, "text or json")->capture_default_str();
  agent->callback([=, &run] { run = [=] { return run_agent(*arguments); }; });
}

}  // namespace moor::cmd
