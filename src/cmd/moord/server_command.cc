#include "cmd/moord/server_command.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "cmd/moord/server_files.h"
#include "cmd/moord/stop_signals.h"
#include "control/admission/admission.h"
#include "control/controllers/controllers.h"
#include "control/runtime/leader.h"
#include "control/runtime/runtime.h"
#include "doors/auth/authenticator.h"
#include "doors/bootstrap/bootstrap_door.h"
#include "doors/front/front.h"
#include "doors/front/metrics_page.h"
#include "doors/kube/kube_door.h"
#include "doors/longhorn/longhorn_door.h"
#include "http/server.h"
#include "registry/events.h"
#include "registry/gc.h"
#include "registry/local_registry.h"
#include "registry/namespaces.h"
#include "store/embedded/embedded_store.h"
#include "store/etcd/etcd_store.h"
#include "store/memory/memory_store.h"

namespace moor::cmd {
namespace {

using namespace std::chrono_literals;

struct ServerArguments {
  std::string directory;
  std::string listen = "127.0.0.1:6440";
  std::vector<std::string> also_listen;  // hosts, on the same port
  std::string store = "embedded";
  std::string token_file;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string metrics_listen;
  std::size_t max_requests =
      http::ServerLimits{}.lanes[static_cast<std::size_t>(http::Lane::read)].max_in_flight;
  std::size_t max_mutating =
      http::ServerLimits{}.lanes[static_cast<std::size_t>(http::Lane::mutating)].max_in_flight;
  bool insecure_loopback = false;
  bool no_controllers = false;
};

constexpr std::string_view kEtcd = "etcd=";
constexpr Duration kStopGrace = 5s;
// Old values kept for pages of long lists; watches go on from the cache's own ring.
constexpr std::size_t kHistoryBytes = 8u << 20;
constexpr int kLargeAllocation = 256 * 1024;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return parts;
}

Task<Result<std::unique_ptr<store::Store>>> open_store(Executor& executor, ServerArguments arguments) {
  if (arguments.store == "memory") co_return store::make_memory_store(executor);
  if (arguments.store == "embedded") {
    store::EmbeddedOptions options;
    options.journaled.history_bytes = kHistoryBytes;
    co_return store::open_embedded_store(executor, std::filesystem::path(arguments.directory) / "store",
                                         std::move(options));
  }
  store::EtcdOptions options;
  options.endpoints = split(std::string_view(arguments.store).substr(kEtcd.size()));
  co_return co_await store::open_etcd_store(executor, std::move(options));
}

// Each connection is a descriptor; the usual soft limit is 1024 for everything.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double all = 0;
  double resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The controllers of this server, which run while it leads.
struct Control {
  Control(Loop& loop, registry::LocalRegistry& registry, Random& random, bool alone)
      : events(loop, registry, random, {.component = "moord", .host = ""}),
        runtime(registry, control::make_controllers(), &events),
        election(registry, runtime, {.identity = make_uuid(random), .alone = alone}) {}

  void add_figures(doors::Metrics& metrics) const {
    using Kind = doors::Metrics::Kind;
    using Stats = control::ControllerStats;
    const std::vector<std::string_view> names = runtime.names();
    const auto add = [&](const char* name, const char* help, Kind kind, double (*read)(const Stats&)) {
      for (std::size_t i = 0; i < names.size(); ++i)
        metrics.add({name, help, kind, fmt::format("controller=\"{}\"", names[i]),
                     [this, i, read] { return read(runtime.stats(i)); }});
    };
    add("moor_controller_reconciles_total", "Looks at a key.", Kind::counter,
        [](const Stats& stats) { return static_cast<double>(stats.reconciles); });
    add("moor_controller_writes_total", "Objects written.", Kind::counter,
        [](const Stats& stats) { return static_cast<double>(stats.writes); });
    add("moor_controller_conflicts_total", "Plans that came too late.", Kind::counter,
        [](const Stats& stats) { return static_cast<double>(stats.conflicts); });
    add("moor_controller_errors_total", "Plans that failed.", Kind::counter,
        [](const Stats& stats) { return static_cast<double>(stats.errors); });
    add("moor_controller_queue_length", "Keys that wait.", Kind::gauge,
        [](const Stats& stats) { return static_cast<double>(stats.waiting); });
    add("moor_controller_busy_seconds_total", "From taking a key to its plan being durable.", Kind::counter,
        [](const Stats& stats) { return std::chrono::duration<double>(stats.busy).count(); });
    add("moor_controller_longest_seconds", "The longest of these.", Kind::gauge,
        [](const Stats& stats) { return std::chrono::duration<double>(stats.longest).count(); });
    metrics.add({"moor_leader", "Whether this server runs the controllers.", Kind::gauge, "",
                 [this] { return election.is_leader() ? 1.0 : 0.0; }});
  }

  registry::EventRecorder events;
  control::Runtime runtime;
  control::LeaderElection election;
};

// Everything that serves, in the order in which it is built; the registry's tasks run in the group around it.
struct House {
  House(Loop& loop_, store::Store& store_, registry::LocalRegistry& registry_, Random& random)
      : loop(loop_), store(store_), registry(registry_), authenticator(loop_.clock()), random_(random) {}

  void build(const ServerArguments& arguments) {
    door.emplace(doors::kube::KubeDoor::Env{loop, registry, random_, metrics},
                 doors::kube::KubeDoorOptions{.server_address = arguments.listen});
    front.emplace(authenticator, metrics, *door);
    for (const char* first : {"api", "apis", "openapi", "version"}) front->add_door(first, *door);
    if (bootstrap) front->add_door("bootstrap", *bootstrap);
    longhorn.emplace(doors::longhorn::LonghornDoor::Env{loop, registry, metrics});
    front->add_door("v1", *longhorn);
    front->add_check("store", [this] { return store.ready(); });
    front->add_check("cache", [this]() -> Result<void> {
      if (registry.cache().is_synced()) return {};
      return make_error(Errc::unavailable, "the first list from the store is not in yet");
    });
    http::ServerOptions options;
    options.render_refusal = [this](const http::Refusal& refusal) { return front->render_refusal(refusal); };
    options.limits.lanes[static_cast<std::size_t>(http::Lane::read)].max_in_flight = arguments.max_requests;
    options.limits.lanes[static_cast<std::size_t>(http::Lane::mutating)].max_in_flight =
        arguments.max_mutating;
    server.emplace(loop, *front, std::move(options));
    add_figures();
  }

  // A listener of its own for monitoring, where no credential is asked for.
  Result<void> serve_metrics(const std::string& address) {
    metrics_page.emplace(*front, metrics);
    metrics_server.emplace(loop, *metrics_page);
    http::ListenOptions listen;
    listen.address = address;
    TRY(const http::Url url, metrics_server->listen(std::move(listen)));
    log_info("serving metrics", {{"url", url.to_string()}});
    return {};
  }

  Task<Result<void>> stop() {
    Result<void> stopped;
    if (server) stopped = co_await server->stop(kStopGrace);
    if (metrics_server) {
      Result<void> also = co_await metrics_server->stop(kStopGrace);
      if (stopped) stopped = std::move(also);
    }
    co_return stopped;
  }

  void add_figures() {
    using Kind = doors::Metrics::Kind;
    for (std::size_t lane = 0; lane < http::kLanes; ++lane)
      metrics.add({"moor_requests_in_flight", "Requests under way, by lane.", Kind::gauge,
                   fmt::format("lane=\"{}\"", to_string(static_cast<http::Lane>(lane))),
                   [this, lane] { return static_cast<double>(server->stats().in_flight[lane]); }});
    for (std::size_t lane = 0; lane < http::kLanes; ++lane)
      metrics.add({"moor_requests_throttled_total", "Requests answered with 429, by lane.", Kind::counter,
                   fmt::format("lane=\"{}\"", to_string(static_cast<http::Lane>(lane))),
                   [this, lane] { return static_cast<double>(server->stats().throttled[lane]); }});
    add("moor_connections", "Open connections.", [this] { return server->stats().connections; });
    add("moor_watches", "Open watches.", [this] { return door->watches(); });
    add("moor_store_revision", "Newest revision in the cache.",
        [this] { return registry.cache().revision(); });
    add("moor_objects", "Objects in the cache.", [this] { return registry.cache().size(); });
    metrics.add({"process_resident_memory_bytes", "Resident memory.", Kind::gauge, "", resident_bytes});
  }

  template <class Read>
  void add(std::string name, std::string help, Read read) {
    metrics.add({std::move(name), std::move(help), doors::Metrics::Kind::gauge, "",
                 [read] { return static_cast<double>(read()); }});
  }

  Loop& loop;
  store::Store& store;
  registry::LocalRegistry& registry;
  doors::Metrics metrics;
  doors::Authenticator authenticator;
  std::optional<doors::kube::KubeDoor> door;
  std::optional<doors::longhorn::LonghornDoor> longhorn;
  std::optional<doors::BootstrapDoor> bootstrap;  // absent without TLS: there is nothing to certify
  std::optional<doors::Front> front;
  std::optional<http::Server> server;
  std::optional<doors::MetricsPage> metrics_page;
  std::optional<http::Server> metrics_server;

 private:
  Random& random_;
};

Task<Result<void>> until_cancelled(Executor& executor, CancelToken token) {
  const Completion<bool> done(executor);
  const CancelCallback callback(token, [done] { done.set(true); });
  (void)co_await done;
  co_return Result<void>();
}

Result<http::Url> start_listening(House& house, const ServerArguments& arguments,
                                  const http::HostPort& host) {
  const std::filesystem::path directory(arguments.directory);
  RealRandom random;
  TRY_VOID(make_private_directory(directory));
  http::ListenOptions listen;
  listen.address = arguments.listen;
  std::optional<ServerFiles> files;
  std::string token;
  if (arguments.insecure_loopback) {
    house.authenticator.trust_plain_loopback();
    TRY(token, prepare_admin_token(directory, random));
  } else {
    TRY(files, prepare_server_files({directory, host.host, arguments.also_listen}, random,
                                    house.loop.clock().wall()));
    token = files->admin_token;
    http::TlsServerOptions tls;
    tls.certificate_pem = files->server.certificate_pem;
    tls.key_pem = files->server.key_pem;
    tls.client_ca_pem = files->authority_pem;
    // A bad certificate gets a 401 that says why instead of a broken handshake.
    tls.client_certificates = http::ClientCertificates::flagged;
    TRY(listen.tls, http::TlsContext::server(tls));
    house.authenticator.add_token(
        {files->bootstrap_token, "system:bootstrap", {std::string(doors::kBootstrapGroup)}});
    house.bootstrap.emplace(doors::BootstrapDoor::Env{house.registry, house.loop.clock()}, files->authority);
  }
  house.authenticator.add_token({token, "admin", {std::string(doors::kAdminGroup)}});
  house.authenticator.use_token_file(arguments.token_file.empty() ? (directory / "tokens.csv").string()
                                                                  : arguments.token_file);
  house.build(arguments);
  if (!arguments.metrics_listen.empty()) TRY_VOID(house.serve_metrics(arguments.metrics_listen));
  TRY(http::Url url, house.server->listen(listen));
  for (const std::string& more : arguments.also_listen) {
    http::Url beside = url;
    beside.host = more;
    listen.address = beside.authority();
    TRY_VOID(house.server->listen(listen));
  }
  TRY_VOID(write_kubeconfig(directory, url, files ? &*files : nullptr));
  return url;
}

Task<Result<void>> serve(House& house, Control* control, TaskGroup& group, ServerArguments arguments,
                         http::HostPort host) {
  const CancelToken token = group.token();
  CO_TRY_VOID(co_await house.registry.catch_up());
  CO_TRY_VOID(co_await registry::ensure_namespaces(house.registry));
  if (control != nullptr) {
    group.spawn(control->events.run(token));
    group.spawn(control->election.run(token));
  }
  auto url = start_listening(house, arguments, host);
  if (url) {
    fmt::print("ready {}\n", url->to_string());
    std::fflush(stdout);
    defer_log(true);
    log_info("serving", {{"url", url->to_string()}, {"store", arguments.store}});
    (void)co_await until_cancelled(house.loop, token);
    log_info("stopping", {{"reason", token.reason()}});
  }
  Result<void> stopped = co_await house.stop();
  if (!url) co_return url.error();
  co_return stopped;
}

// Nothing can be served without this task.
Task<Result<void>> or_stop(Task<Result<void>> task, TaskGroup& group) {
  Result<void> ended = co_await std::move(task);
  if (!ended) group.cancel(ended.error());
  co_return ended;
}

Task<Result<void>> run_all(Loop& loop, ServerArguments arguments, http::HostPort host, CancelToken token) {
  CO_TRY_VOID(make_private_directory(arguments.directory));
  CO_TRY(const std::unique_ptr<store::Store> store, co_await open_store(loop, arguments));
  RealRandom random;
  registry::LocalRegistry registry(loop, *store, random);
  registry::GarbageCollector collector(registry);
  registry::NamespaceKeeper namespaces(registry);
  control::ControlAdmission admission(loop.clock(), random);
  registry.add_admission(admission);
  House house(loop, *store, registry, random);
  std::optional<Control> control;
  if (!arguments.no_controllers) {
    control.emplace(loop, registry, random, !arguments.store.starts_with(kEtcd));
    control->add_figures(house.metrics);
  }
  // What serves stops first, while the registry still answers: a leader gives its lease back.
  TaskGroup base(loop);
  TaskGroup group(loop, token);
  base.spawn(or_stop(registry.run(base.token()), group));
  base.spawn(or_stop(collector.run(base.token()), group));
  base.spawn(or_stop(namespaces.run(base.token()), group));
  base.spawn(or_stop(registry::expire_events(registry, {}, base.token()), group));
  Control* const controllers = control ? &*control : nullptr;
  const Result<void> served =
      co_await serve(house, controllers, group, std::move(arguments), std::move(host));
  group.cancel();
  const Result<void> stopped = co_await group.join();
  base.cancel();
  const Result<void> joined = co_await base.join();
  if (!served) co_return served;
  co_return stopped ? joined : stopped;
}

Result<http::HostPort> check(const ServerArguments& arguments) {
  TRY(http::HostPort host, http::parse_host_port(arguments.listen));
  const bool loopback = host.host == "localhost" || host.host == "::1" || host.host.starts_with("127.");
  if (arguments.insecure_loopback && !loopback)
    return make_error(Errc::invalid,
                      "--insecure-loopback is only for addresses of this machine, not " + arguments.listen);
  if (arguments.insecure_loopback && !arguments.also_listen.empty())
    return make_error(Errc::invalid, "--insecure-loopback and --also-listen exclude each other");
  const bool etcd = arguments.store.starts_with(kEtcd) && arguments.store.size() > kEtcd.size();
  if (arguments.store != "embedded" && arguments.store != "memory" && !etcd)
    return make_error(Errc::invalid, "--store is embedded, memory or etcd=URL,URL,…");
  if (!arguments.metrics_listen.empty()) TRY_VOID(http::parse_host_port(arguments.metrics_listen));
  if (arguments.log_format != "text" && arguments.log_format != "json")
    return make_error(Errc::invalid, "--log-format is text or json");
  return host;
}

int run_server(const ServerArguments& arguments) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "moord server: {}\n", error.message);
    return 1;
  };
  const auto host = check(arguments);
  if (!host) return fail(host.error());
  const auto level = parse_log_level(arguments.log_level);
  if (!level) return fail(level.error());
  configure_log(*level, arguments.log_format == "json" ? LogFormat::json : LogFormat::text);
  raise_file_limit();
  // A list's text goes back to the system when it is sent. Left to itself the allocator takes such sizes from
  // its heap after the first of them, where they leave holes that stay.
  mallopt(M_MMAP_THRESHOLD, kLargeAllocation);
  Loop loop;
  CancelSource stop;
  const StopSignals signals(loop, [&stop](int signal) {
    stop.cancel(make_error(Errc::cancelled, fmt::format("signal {}", signal)));
  });
  const Result<void> done = block_on(loop, run_all(loop, arguments, *host, stop.token()));
  return done ? 0 : fail(done.error());
}

}  // namespace

void add_server_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* server = app.add_subcommand("server", "Serve the API");
  const auto arguments =
      std::make_shared<ServerArguments>();  // shared by the options and the run after parsing
  server->footer(
      "Examples:\n"
      "  moord server --dir D\n"
      "  kubectl --kubeconfig D/kubeconfig get volumes.longhorn.io\n"
      "  moord server --dir D --listen 0.0.0.0:6440 --store etcd=http://10.0.0.1:2379,http://10.0.0.2:2379\n"
      "The first start makes a CA, certificates, D/kubeconfig, D/admin.token and\n"
      "D/bootstrap.token (with which moord agent gets its certificate). More tokens, one per line "
      "as\n"
      "token,user,uid,\"group,…\", go into D/tokens.csv; the groups system:masters, mooring:view and\n"
      "system:nodes (user system:node:NAME) are the roles admin, view and node.\n");
  server->add_option("--dir", arguments->directory, "Directory for state, certificates and kubeconfig")
      ->required();
  server->add_option("--listen", arguments->listen, "Address and port; port 0 takes a free one")
      ->capture_default_str();
  server->add_option("--also-listen", arguments->also_listen, "More addresses, on the same port");
  server->add_option("--store", arguments->store, "embedded, memory or etcd=URL,URL,…")
      ->capture_default_str();
  server->add_option("--token-file", arguments->token_file, "Bearer tokens (default D/tokens.csv)");
  server->add_flag("--insecure-loopback", arguments->insecure_loopback,
                   "Plain HTTP; everybody on this machine is administrator");
  server->add_option("--metrics-listen", arguments->metrics_listen,
                     "Address and port for /metrics and health, plain and open to all who reach it");
  server->add_option("--max-requests-inflight", arguments->max_requests, "Reads at once; more get 429")
      ->capture_default_str();
  server
      ->add_option("--max-mutating-requests-inflight", arguments->max_mutating,
                   "Writes at once; more get 429 (heartbeats and watches do not count)")
      ->capture_default_str();
  server->add_flag("--no-controllers", arguments->no_controllers,
                   "Serve the API only; the controllers run elsewhere");
  server->add_option("--log-level", arguments->log_level, "debug, info, warn, error")->capture_default_str();
  server->add_option("--log-format", arguments->log_format, "text or json")->capture_default_str();
  server->callback([=, &run] { run = [=] { return run_server(*arguments); }; });
}

}  // namespace moor::cmd
