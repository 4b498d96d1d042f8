#include "cmd/moord/dev_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "base/completion.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "cli/dev_cluster.h"
#include "cmd/moord/child.h"
#include "cmd/moord/dev_network.h"
#include "cmd/moord/dev_place.h"
#include "cmd/moord/dev_ready.h"
#include "cmd/moord/server_files.h"
#include "cmd/moord/stop_signals.h"
#include "http/url.h"

namespace moor::cmd {
namespace {

struct DevArguments {
  std::string directory;
  std::string listen = "127.0.0.1:6440";
  std::string log_level = "info";
  int nodes = 0;  // 0: as many as there were, else 3
  bool netns = false;
  bool down = false;
  bool force = false;
};

constexpr int kDefaultNodes = 3;
constexpr int kMaxNodes = 1000;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string default_directory() {
  if (const auto data = environment("XDG_DATA_HOME"); data && !data->empty()) return *data + "/mooring";
  return environment("HOME").value_or("/root") + "/.local/share/mooring";
}

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

void say(const std::string& text) {
  fmt::print(stderr, "{}\n", text);
}

// The cluster while it runs. The server is stopped after the agents, so that their last words are heard.
class Cluster {
 public:
  Cluster(Loop& loop, DevPlace place, DevArguments arguments, int nodes)
      : loop_(loop),
        place_(std::move(place)),
        arguments_(std::move(arguments)),
        nodes_(nodes),
        listen_(arguments_.listen),
        ready_(loop) {}

  Task<Result<void>> run(CancelToken token) {
    if (arguments_.netns) {
      CO_TRY(DevNetwork network, DevNetwork::make(place_, nodes_));
      network_ = std::move(network);
    }
    TaskGroup servers(loop_);  // not under the token: it outlives the agents
    servers.spawn(run_server(servers.token()));
    Result<void> done = co_await run_with_server(token);
    servers.cancel();
    Result<void> stopped = co_await servers.join();
    co_return done ? stopped : done;
  }

 private:
  Task<Result<void>> run_with_server(CancelToken token) {
    {
      const Completion<Result<std::string>> ready = ready_;
      const CancelCallback on_cancel(token,
                                     [ready, token] { ready.set(Result<std::string>(token.reason())); });
      CO_TRY(url_, co_await ready);
    }
    say(fmt::format("server {}", url_));
    CO_TRY_VOID(co_await ensure_dev_settings(loop_, place_.directory() / "kubeconfig"));
    TaskGroup agents(loop_, token);
    for (int number = 1; number <= nodes_; ++number) agents.spawn(run_agent(number, agents.token()));
    Result<void> ready = co_await announce(agents.token());
    if (!ready && !agents.token().is_cancelled()) agents.cancel(ready.error());
    Result<void> joined = co_await agents.join();
    if (token.is_cancelled()) co_return Result<void>();  // as asked
    co_return ready ? joined : ready;
  }

  Task<Result<void>> announce(CancelToken token) {
    NodesWanted wanted;
    wanted.kubeconfig = place_.directory() / "kubeconfig";
    for (int number = 1; number <= nodes_; ++number) wanted.names.insert(DevPlace::node_name(number));
    wanted.on_ready = [](const std::string& name) { say(name + " ready"); };
    CO_TRY_VOID(co_await wait_for_nodes(loop_, std::move(wanted), token));
    CO_TRY(const auto note, cli::dev_cluster_note(environment));
    CO_TRY_VOID(cli::write_dev_cluster(note, place_.directory()));
    fmt::print("ready {}\n", url_);
    std::fflush(stdout);
    co_return Result<void>();
  }

  Task<Result<void>> run_server(CancelToken token) {
    ChildSpec spec;
    spec.name = "server";
    spec.log = place_.log_of("server");
    spec.arguments = [this] {
      std::vector<std::string> words = {own_program(), "server", "--dir",       place_.directory(),
                                        "--listen",    listen_,  "--log-level", arguments_.log_level};
      if (network_) words.insert(words.end(), {"--also-listen", network_->host_address()});
      return words;
    };
    spec.on_line = [this](const std::string& line) { heard(line); };
    Supervision how;
    how.may_fail_first = false;
    Result<void> done = co_await supervise(loop_, std::move(spec), how, token);
    if (!done) ready_.set(Result<std::string>(done.error()));
    co_return done;
  }

  void heard(const std::string& line) {
    constexpr std::string_view kReady = "ready ";
    if (!line.starts_with(kReady)) return;
    const std::string url = line.substr(kReady.size());
    // A port that was chosen by chance is kept: agents and kubeconfigs know it.
    if (const auto parsed = http::Url::parse(url)) listen_ = parsed->authority();
    ready_.set(Result<std::string>(url));
  }

  Task<Result<void>> run_agent(int number, CancelToken token) {
    CO_TRY_VOID(make_private_directory(place_.node_directory(number)));
    ChildSpec spec;
    spec.name = DevPlace::node_name(number);
    spec.log = place_.log_of(spec.name);
    if (network_) spec.network = network_->namespace_of(number);
    spec.arguments = [this, number] { return agent_arguments(number); };
    Supervision how;
    co_return co_await supervise(loop_, std::move(spec), how, token);
  }

  std::vector<std::string> agent_arguments(int number) const {
    std::string server = url_;
    if (network_)
      if (auto parsed = http::Url::parse(url_)) {
        parsed->host = network_->host_address();
        server = parsed->to_string();
      }
    return {own_program(),  "agent",
            "--server",     server,
            "--node",       DevPlace::node_name(number),
            "--dir",        place_.node_directory(number),
            "--address",    network_ ? network_->node_address(number) : "127.0.0.1",
            "--token-file", place_.directory() / "bootstrap.token",
            "--log-level",  arguments_.log_level};
  }

  Loop& loop_;
  DevPlace place_;
  DevArguments arguments_;
  int nodes_;
  std::string listen_;
  std::string url_;
  std::optional<DevNetwork> network_;
  Completion<Result<std::string>> ready_;
};

int fail(const Error& error) {
  fmt::print(stderr, "moord dev: {}\n", error.message);
  return error.code == Errc::invalid ? 2 : 1;
}

// SIGTERM to the `moord dev` that runs there, and its end.
void stop_running(const DevPlace& place) {
  const auto pid = DevLock::holder(place);
  if (!pid) return;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  if (handle < 0) return;
  say(fmt::format("stopping moord dev (pid {})", *pid));
  syscall(SYS_pidfd_send_signal, handle, SIGTERM, nullptr, 0);
  constexpr int kLongestMs = 60'000;
  pollfd wait{handle, POLLIN, 0};
  (void)poll(&wait, 1, kLongestMs);  // whether it is gone is said by its lock
  close(handle);
}

Result<void> go_down(const DevPlace& place, bool force) {
  stop_running(place);
  TRY(const DevLock lock, DevLock::take(place));
  const std::size_t running = find_block_processes(place.directory()).size();
  if (running > 0) say(fmt::format("stopping {} block processes", running));
  TRY_VOID(stop_block_processes(place.directory(), force));
  TRY_VOID(DevNetwork::remove(place));
  if (const auto note = cli::dev_cluster_note(environment)) cli::forget_dev_cluster(*note, place.directory());
  say(fmt::format("down; volumes and tickets stay in {0}: moord dev --dir {0}", place.directory().string()));
  return {};
}

int run_dev(const DevArguments& arguments) {
  const auto level = parse_log_level(arguments.log_level);
  if (!level) return fail(level.error());
  configure_log(*level, LogFormat::text);
  if (const auto host = http::parse_host_port(arguments.listen); !host) return fail(host.error());
  if (arguments.nodes < 0 || arguments.nodes > kMaxNodes)
    return fail(make_error(Errc::invalid, fmt::format("--nodes is 1 to {}", kMaxNodes)));
  const auto place = DevPlace::open(arguments.directory);
  if (!place) return fail(place.error());
  if (arguments.down) {
    const auto down = go_down(*place, arguments.force);
    return down ? 0 : fail(down.error());
  }
  const auto lock = DevLock::take(*place);
  if (!lock) return fail(lock.error());
  const int known = place->known_nodes() > 0 ? place->known_nodes() : kDefaultNodes;
  Loop loop;
  CancelSource stop;
  const StopSignals signals(loop, [&stop](int signal) {
    say("stopping; volumes stay attached, moord dev --down ends everything");
    stop.cancel(make_error(Errc::cancelled, fmt::format("signal {}", signal)));
  });
  Cluster cluster(loop, *place, arguments, arguments.nodes > 0 ? arguments.nodes : known);
  const Result<void> done = block_on(loop, cluster.run(stop.token()));
  return done || stop.token().is_cancelled() ? 0 : fail(done.error());
}

}  // namespace

void add_dev_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* dev = app.add_subcommand("dev", "A whole cluster on this machine: the server and some agents");
  const auto arguments = std::make_shared<DevArguments>();  // shared by the options and the run after parsing
  arguments->directory = default_directory();
  dev->footer(
      "Examples:\n"
      "  moord dev --dir D                three nodes, node-1 to node-3; prints `ready https://…`\n"
      "  moor nodes                       (in another shell: moor finds the cluster that was started last)\n"
      "  moord dev --dir D --netns        each node in its own network namespace (root)\n"
      "  moord dev --dir D --down         ends everything, block processes too; data and tickets stay\n"
      "Ctrl-C stops the server and the agents. Block processes go on, so that a mounted volume does not "
      "notice;\n"
      "the next start with the same directory adopts them. Logs are in D/logs.\n");
  dev->add_option("--dir", arguments->directory, "Directory for everything")->capture_default_str();
  dev->add_option("--nodes", arguments->nodes, "How many nodes (default: as many as before, else 3)");
  dev->add_option("--listen", arguments->listen, "The server's address; port 0 takes a free one")
      ->capture_default_str();
  dev->add_flag("--netns", arguments->netns, "A network namespace per node");
  dev->add_flag("--down", arguments->down,
                "Stop what runs in the directory, block processes and devices too");
  dev->add_flag("--force", arguments->force, "With --down: also devices that are in use");
  dev->add_option("--log-level", arguments->log_level, "debug, info, warn, error")->capture_default_str();
  dev->callback([=, &run] { run = [=] { return run_dev(*arguments); }; });
}

}  // namespace moor::cmd
