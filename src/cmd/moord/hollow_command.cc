#include "cmd/moord/hollow_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/agent.h"
#include "agent/hollow/hollow_host.h"
#include "agent/real/identity.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "cli/kubeconfig.h"
#include "cmd/moord/server_files.h"
#include "cmd/moord/stop_signals.h"
#include "registry/client/remote_registry.h"

namespace moor::cmd {
namespace {

using namespace std::chrono_literals;

struct HollowArguments {
  std::string kubeconfig;
  std::string directory;
  std::string token_file;
  std::string prefix = "node-";
  std::string log_level = "warn";
  int nodes = 10;
};

constexpr int kMaxHollowNodes = 10'000;
constexpr Duration kHeartbeat = 10s;  // thousands of leases every three seconds would measure nothing else

// What all nodes share; each has its own client, identity and host.
struct Shared {
  http::ClientOptions client;
  std::filesystem::path directory;
  std::string token_file;
  int ready = 0;
  int wanted = 0;
};

Task<Result<http::ClientOptions>> client_of(Loop& loop, const Shared* shared, std::string node,
                                            CancelToken token) {
  http::ClientOptions client;
  client.endpoint = shared->client.endpoint;
  if (client.endpoint.scheme != http::Url::Scheme::https) co_return shared->client;
  const std::filesystem::path directory = shared->directory / node;
  CO_TRY_VOID(make_private_directory(directory));
  agent::IdentityOptions options{client.endpoint, node, directory, shared->token_file, ""};
  CO_TRY(agent::NodeIdentity identity, co_await agent::obtain_identity(loop, std::move(options), token));
  client.tls = std::move(identity.tls);
  co_return client;
}

Task<Result<void>> run_node(Loop& loop, Shared* shared, std::string node, CancelToken token) {
  CO_TRY(http::ClientOptions client, co_await client_of(loop, shared, node, token));
  registry::RemoteOptions options;
  options.most_at_once = agent::kMostRequests;
  options.client = std::move(client);
  options.user_agent = "moord-hollow";
  CO_TRY(const auto registry, registry::RemoteRegistry::make(loop, std::move(options)));
  agent::HollowHost host(loop, node, "hollow-boot");
  agent::AgentOptions settings;
  settings.node = {node, "127.0.0.1", "", "", "/hollow/" + node + "/disk"};
  settings.directory = "/hollow/" + node;
  settings.device_directory = "/hollow/" + node + "/dev";
  settings.heartbeat = kHeartbeat;
  agent::Agent agent(loop, *registry, host, settings);
  std::function<void()> on_ready = [shared] {
    if (++shared->ready != shared->wanted) return;
    fmt::print("ready {} nodes\n", shared->wanted);
    std::fflush(stdout);
  };
  co_return co_await agent.run(token, std::move(on_ready));
}

Task<Result<void>> run_all(Loop& loop, Shared* shared, HollowArguments arguments, CancelToken token) {
  TaskGroup group(loop, token);
  for (int number = 1; number <= arguments.nodes; ++number)
    group.spawn(run_node(loop, shared, arguments.prefix + std::to_string(number), group.token()));
  co_return co_await group.join();
}

Result<Shared> prepare(const HollowArguments& arguments) {
  if (arguments.nodes < 1 || arguments.nodes > kMaxHollowNodes)
    return make_error(Errc::invalid, fmt::format("--nodes is 1 to {}", kMaxHollowNodes));
  TRY(const cli::ClusterAccess access, cli::load_kubeconfig(arguments.kubeconfig));
  Shared shared;
  shared.client = access.client;
  shared.wanted = arguments.nodes;
  const std::filesystem::path beside = std::filesystem::path(arguments.kubeconfig).parent_path();
  shared.directory =
      arguments.directory.empty() ? beside / "hollow" : std::filesystem::path(arguments.directory);
  shared.token_file =
      arguments.token_file.empty() ? (beside / "bootstrap.token").string() : arguments.token_file;
  TRY_VOID(make_private_directory(shared.directory));
  return shared;
}

int run_hollow(const HollowArguments& arguments) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "moord hollow: {}\n", error.message);
    return 1;
  };
  const auto level = parse_log_level(arguments.log_level);
  if (!level) return fail(level.error());
  configure_log(*level, LogFormat::text);
  auto shared = prepare(arguments);
  if (!shared) return fail(shared.error());
  Loop loop;
  CancelSource stop;
  const StopSignals signals(loop, [&stop](int signal) {
    stop.cancel(make_error(Errc::cancelled, fmt::format("signal {}", signal)));
  });
  const Result<void> done = block_on(loop, run_all(loop, &*shared, arguments, stop.token()));
  return done || stop.token().is_cancelled() ? 0 : fail(done.error());
}

}  // namespace

void add_hollow_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* hollow = app.add_subcommand("hollow", "Many nodes whose block processes are only imagined");
  const auto arguments =
      std::make_shared<HollowArguments>();  // shared by the options and the run after parsing
  hollow->footer(
      "Examples:\n"
      "  moord server --dir D &\n"
      "  moord hollow --kubeconfig D/kubeconfig --nodes 100\n"
      "Each node is a whole agent: its own certificate (through D/bootstrap.token), connections, watches,\n"
      "heartbeats and status writes. Replicas, engines and devices run at once and keep nothing: for\n"
      "measuring and trying out a control plane, never for data. Prints `ready N nodes`.\n");
  hollow->add_option("--kubeconfig", arguments->kubeconfig, "The server's kubeconfig")->required();
  hollow->add_option("--nodes", arguments->nodes, "How many")->capture_default_str();
  hollow->add_option("--prefix", arguments->prefix, "Nodes are called PREFIX1 to PREFIXn")
      ->capture_default_str();
  hollow->add_option("--dir", arguments->directory,
                     "For certificates (default: hollow/ beside the kubeconfig)");
  hollow->add_option("--token-file", arguments->token_file,
                     "Bootstrap token (default: bootstrap.token beside the kubeconfig)");
  hollow->add_option("--log-level", arguments->log_level, "debug, info, warn, error")->capture_default_str();
  hollow->callback([=, &run] { run = [=] { return run_hollow(*arguments); }; });
}

}  // namespace moor::cmd
