#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "bench/api/sections.h"

namespace moor::bench {

Goal at_most(std::string what, double limit, double measured, std::string_view unit) {
  return {std::move(what), fmt::format("≤ {:g} {}", limit, unit), fmt::format("{:.2f} {}", measured, unit),
          measured <= limit};
}

Goal at_least(std::string what, double limit, double measured, std::string_view unit) {
  return {std::move(what), fmt::format("≥ {:g} {}", limit, unit), fmt::format("{:.2f} {}", measured, unit),
          measured >= limit};
}

namespace {
void report_goals(const ApiBench& bench, Report& report) {
  report.heading("Goals");
  std::vector<std::vector<std::string>> table;
  for (const Goal& goal : bench.goals)
    table.push_back({goal.what, goal.wanted, goal.measured, goal.holds ? "yes" : "no"});
  report.table({"goal", "wanted", "measured", "holds"}, table);
}
}  // namespace

}  // namespace moor::bench

int main(int argc, char** argv) {
  using namespace moor::bench;
  CLI::App app{"Measures a real `moord server` over TLS, beside bare etcd puts."};
  app.footer("Example:\n  build/release/benches/api --only memory lists");
  ApiBench bench;
  bench.scratch = "build/bench-scratch";
  // benches/api and bin/moord of the same build.
  bench.moord = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/moord";
  std::string out = "bench/results/api";
  std::vector<std::string> only;
  bool quick = false;
  bool no_etcd = false;
  app.add_option("--moord", bench.moord, "the program to measure")->capture_default_str();
  app.add_option("--scratch", bench.scratch, "directory on the disk to measure")->capture_default_str();
  app.add_option("--out", out, "where results go")->capture_default_str();
  app.add_option("--seconds", bench.seconds, "per measurement")->capture_default_str();
  app.add_option("--rounds", bench.rounds, "interleaved repetitions; medians are reported")
      ->capture_default_str();
  app.add_option("--connections", bench.connections, "how many at once, for operations")
      ->capture_default_str();
  app.add_option("--only", only, "operations, lists, watch, memory")
      ->check(CLI::IsMember({"operations", "lists", "watch", "memory"}));
  app.add_flag("--quick", quick, "one short round, lists up to 10,000");
  app.add_flag("--no-etcd", no_etcd, "leave the peer out");
  CLI11_PARSE(app, argc, argv);
  bench.with_etcd = !no_etcd;
  if (quick) {
    bench.rounds = 1;
    bench.seconds = 0.5;
    bench.largest_list = 10'000;
  }
  const auto wanted = [&](const char* name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  std::string name = only.empty() ? "all" : fmt::format("{}", fmt::join(only, "-"));
  if (quick) name += "-quick";
  Report report(out, name, "bench/api");
  report.text(
      "A `moord server` on its embedded store; clients with certificates over kept TLS connections, in one "
      "thread of another process on the same machine. Objects are Snapshots of longhorn.io with request "
      "bodies of 1 KiB (what the etcd puts carry); stored, with uid, timestamps and managed fields, they are "
      "larger. CPU is user and system time of the server's process.");
  if (wanted("operations")) bench_operations(bench, report);
  if (wanted("lists")) bench_lists(bench, report);
  if (wanted("watch")) bench_watch(bench, report);
  if (wanted("memory")) bench_memory(bench, report);
  report_goals(bench, report);
  return 0;
}
