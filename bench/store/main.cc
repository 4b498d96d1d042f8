#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/store/sections.h"

int main(int argc, char** argv) {
  CLI::App app{"Measures the store beside bare etcd puts and the disk's own fdatasync."};
  app.footer("Example:\n  build/release/benches/store --only writes --seconds 2 --scratch /var/tmp");
  moor::bench::StoreBench bench;
  bench.scratch = "build/bench-scratch";
  std::string out = "bench/results/store";
  std::vector<std::string> only;
  bool no_etcd = false;
  app.add_option("--scratch", bench.scratch, "directory on the disk to measure")->capture_default_str();
  app.add_option("--out", out, "where results go")->capture_default_str();
  app.add_option("--seconds", bench.seconds, "per measurement")->capture_default_str();
  app.add_option("--rounds", bench.rounds, "interleaved repetitions; medians are reported")
      ->capture_default_str();
  app.add_option("--value-bytes", bench.value_bytes)->capture_default_str();
  app.add_option("--largest-open", bench.largest_open, "skip opening more objects than this")
      ->capture_default_str();
  app.add_option("--only", only, "writes, reads, open, watch")
      ->check(CLI::IsMember({"writes", "reads", "open", "watch"}));
  app.add_flag("--no-etcd", no_etcd, "leave the peer out");
  CLI11_PARSE(app, argc, argv);
  bench.with_etcd = !no_etcd;
  const auto wanted = [&](const char* name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  moor::bench::touch_memory(std::size_t{2} << 30);
  moor::bench::Report report(out, only.empty() ? "all" : fmt::format("{}", fmt::join(only, "-")),
                             "bench/store");
  if (wanted("writes")) bench_writes(bench, report);
  if (wanted("reads")) bench_reads(bench, report);
  if (wanted("open")) bench_open(bench, report);
  if (wanted("watch")) bench_watch(bench, report);
  return 0;
}
