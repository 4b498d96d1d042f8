// How long a ticket takes to become a usable device, and back, and what that costs the server.
//
//   build/release/benches/attach [--only real-1,real-100,hollow-1,hollow-1000] [--rounds 30]
//
// The control part is what the same path takes with hollow agents: everything but the block processes.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "bench/attach/cluster.h"
#include "bench/attach/run.h"
#include "bench/common/report.h"
#include "cli/kubeconfig.h"
#include "registry/client/remote_registry.h"

namespace {

using namespace moor;
using namespace moor::bench;

struct Case {
  std::string name;
  bool hollow = false;
  int volumes = 1;
  int nodes = 3;
  int rounds = 1;
};

struct Arguments {
  std::string program;
  std::string directory = "/var/tmp";
  std::string results = "bench/results/attach";
  std::vector<std::string> only = {"real-1", "hollow-1", "real-100", "hollow-1000"};
  int rounds = 30;
};

std::string milliseconds(Duration duration) {
  return fmt::format("{:.1f}", seconds(duration) * 1000);
}

struct Figures {
  Latencies durable_write;
  Latencies satisfied;
  Latencies usable;
  Latencies detached;
  std::vector<double> attaches_per_second;
  std::vector<double> detaches_per_second;
  // CPU per volume, in milliseconds.
  std::vector<double> server_attach;
  std::vector<double> server_detach;
  std::vector<double> agents_attach;
  std::vector<double> client_attach;  // this program
};

struct Cpu {
  Duration server{};
  Duration agents{};
  Duration client{};
};

Result<Cpu> cpu_now(const Cluster& cluster) {
  Cpu now;
  TRY(now.server, cluster.server_cpu());
  TRY(now.agents, cluster.agents_cpu());
  now.client = cpu_time();
  return now;
}

Task<Result<void>> measure(RunEnv env, const Cluster* cluster, Case which, Report* report, Figures* figures) {
  CO_TRY_VOID(co_await wait_for_ready_nodes(env, which.nodes));
  std::vector<std::string> names;
  for (int i = 1; i <= which.volumes; ++i) names.push_back(fmt::format("bench-{}", i));
  CO_TRY_VOID(co_await make_volumes(env, names, "67108864", 3));
  CO_TRY(const std::vector<Duration> writes, co_await write_one_by_one(env, 100));
  figures->durable_write.add_all(writes);
  RunOptions options{names, which.nodes, !which.hollow};
  for (int round = 0; round < which.rounds; ++round) {
    Times times;
    CO_TRY(const Cpu before, cpu_now(*cluster));
    CO_TRY_VOID(co_await attach_all(env, options, &times));
    CO_TRY(const Cpu between, cpu_now(*cluster));
    CO_TRY_VOID(co_await detach_all(env, options, &times));
    CO_TRY(const Cpu after, cpu_now(*cluster));
    const auto each = [&](Duration all) { return seconds(all) * 1000 / which.volumes; };
    figures->server_attach.push_back(each(between.server - before.server));
    figures->server_detach.push_back(each(after.server - between.server));
    figures->agents_attach.push_back(each(between.agents - before.agents));
    figures->client_attach.push_back(each(between.client - before.client));
    // The first round also makes what only the first attach of a volume makes.
    report->raw(Json::object({{"case", which.name},
                              {"round", round},
                              {"server_attach_cpu_ms", figures->server_attach.back()},
                              {"server_detach_cpu_ms", figures->server_detach.back()},
                              {"agents_attach_cpu_ms", figures->agents_attach.back()}}));
    figures->satisfied.add_all(times.satisfied);
    figures->usable.add_all(times.usable);
    figures->detached.add_all(times.detached);
    figures->attaches_per_second.push_back(which.volumes / seconds(times.attach_span));
    figures->detaches_per_second.push_back(which.volumes / seconds(times.detach_span));
    for (std::size_t i = 0; i < times.usable.size(); ++i)
      report->raw(Json::object({{"case", which.name},
                                {"round", round},
                                {"satisfied_ms", seconds(times.satisfied[i]) * 1000},
                                {"usable_ms", seconds(times.usable[i]) * 1000},
                                {"detached_ms", seconds(times.detached[i]) * 1000}}));
  }
  co_return Result<void>();
}

Result<std::vector<std::string>> run_case(const Arguments& arguments, const Case& which, Report& report) {
  TRY(const auto cluster,
      Cluster::start({arguments.program, arguments.directory, which.hollow, which.nodes}));
  Loop loop;
  Pool pool(loop, 16);
  TRY(const cli::ClusterAccess access, cli::load_kubeconfig(cluster->kubeconfig()));
  registry::RemoteOptions options;
  options.client = access.client;
  options.user_agent = "bench-attach";
  options.client.max_idle_connections = 128;  // no handshakes in what is measured
  TRY(const auto remote, registry::RemoteRegistry::make(loop, std::move(options)));
  Figures figures;
  TRY_VOID(block_on(loop, measure({loop, *remote, pool}, cluster.get(), which, &report, &figures)));
  return std::vector<std::string>{which.name,
                                  std::to_string(which.rounds),
                                  milliseconds(figures.durable_write.quantile(0.5)),
                                  milliseconds(figures.satisfied.quantile(0.5)),
                                  milliseconds(figures.usable.quantile(0.5)),
                                  milliseconds(figures.usable.quantile(0.99)),
                                  milliseconds(figures.detached.quantile(0.5)),
                                  milliseconds(figures.detached.quantile(0.99)),
                                  fmt::format("{:.0f}", median(figures.attaches_per_second)),
                                  fmt::format("{:.0f}", median(figures.detaches_per_second)),
                                  fmt::format("{:.2f}", median(figures.server_attach)),
                                  fmt::format("{:.2f}", median(figures.server_detach)),
                                  fmt::format("{:.2f}", median(figures.agents_attach)),
                                  fmt::format("{:.2f}", median(figures.client_attach))};
}

// "hollow-1000": N volumes, on ten nodes when there are many.
std::optional<Case> read_case(const std::string& name, int rounds) {
  const bool hollow = name.starts_with("hollow-");
  if (!hollow && !name.starts_with("real-")) return std::nullopt;
  const int volumes = std::atoi(name.c_str() + name.find('-') + 1);
  if (volumes < 1) return std::nullopt;
  return Case{name, hollow, volumes, hollow && volumes > 100 ? 10 : 3,
              volumes == 1 ? rounds : std::max(1, rounds / 10)};
}

int run(const Arguments& arguments) {
  std::filesystem::create_directories(arguments.results);
  Report report(arguments.results, "attach", "Attach and detach");
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : arguments.only) {
    const auto which = read_case(name, arguments.rounds);
    if (!which) {
      fmt::print(stderr, "bench attach: '{}' is no case: real-N or hollow-N\n", name);
      return 2;
    }
    auto row = run_case(arguments, *which, report);
    if (!row) {
      fmt::print(stderr, "bench attach: {}: {}\n", name, row.error().message);
      return 1;
    }
    rows.push_back(std::move(*row));
  }
  report.table(
      {"case", "rounds", "durable write p50 ms", "satisfied p50 ms", "usable p50 ms", "usable p99 ms",
       "detached p50 ms", "detached p99 ms", "attaches/s", "detaches/s", "server CPU ms per attach",
       "server CPU ms per detach", "hollow agents' CPU ms per attach", "client CPU ms per attach"},
      rows);
  report.text(
      "real-N: N volumes of 64 MiB with three replicas on three nodes of one machine, real processes, all "
      "asked for "
      "at once; usable: a block was read from the device. hollow-N: the same with imagined block processes; "
      "its "
      "p50 with one volume is the control part of an attach. durable write: one PATCH through the API on the "
      "same "
      "disk at the same time; the control part is a chain of such writes. Every write is durable (embedded "
      "store on "
      "disk).");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  std::signal(SIGPIPE, SIG_IGN);
  configure_log(LogLevel::error, LogFormat::text);
  Arguments arguments;
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  arguments.program = (self.parent_path().parent_path() / "bin" / "moord").string();
  CLI::App app("Ticket to usable device, and back.");
  app.add_option("--moord", arguments.program, "The program under test")->capture_default_str();
  app.add_option("--dir", arguments.directory, "Where clusters live while measured: a real disk")
      ->capture_default_str();
  app.add_option("--results", arguments.results, "Where the table and the raw samples go")
      ->capture_default_str();
  app.add_option("--only", arguments.only, "Cases: real-N or hollow-N, N volumes")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rounds", arguments.rounds, "Rounds with one volume; a tenth of it with many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, count, words);
  return run(arguments);
}
