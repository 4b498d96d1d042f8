#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>

#include "bench/block/ram_disk.h"
#include "bench/block/sections.h"
#include "bench/common/content.h"

namespace {

constexpr std::uint64_t kRamDisk = 9ull << 30;  // sparse: what is written costs memory

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const auto& load : moor::bench::goal_loads()) names.push_back(load.name);
  names.insert(names.end(), {"memory", "flush", "snapshots", "device"});
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures the block engine beside QEMU's quorum, qemu-nbd, nbdkit and the bare disk. As root."};
  app.footer(
      "Example:\n  build/release/benches/block --only 4k-random-write-qd32\n"
      "The programs it needs: tools/packages bench");
  moor::bench::BlockBench bench;
  std::string out = "bench/results/block";
  std::string disk = "build/bench-scratch";
  std::string only;
  bool quick = false;
  bench.moorblk = MOORBLK_PROGRAM;
  app.add_option("--scratch", disk, "directory on the disk to measure flushes on")->capture_default_str();
  app.add_option("--out", out, "where results go")->capture_default_str();
  app.add_option("--seconds", bench.seconds, "per measurement")->capture_default_str();
  app.add_option("--rounds", bench.rounds, "interleaved repetitions; medians are reported")
      ->capture_default_str();
  app.add_option("--snapshots", bench.snapshots)->capture_default_str()->check(CLI::Range(1, 250));
  app.add_option("--moorblk", bench.moorblk, "the program to measure")->capture_default_str();
  app.add_option("--only", only, fmt::format("one row: {}", fmt::join(row_names(), ", ")))
      ->check(CLI::IsMember(row_names()));
  app.add_flag("--quick", quick, "one short round: to see that it runs, not to compare");
  CLI11_PARSE(app, argc, argv);
  if (quick) {
    bench.rounds = 1;
    bench.seconds = 0.5;
  }
  moor::bench::enter_own_mounts();
  // Sockets have short names, and /tmp is one everywhere.
  const moor::bench::Scratch sockets(std::filesystem::temp_directory_path());
  const moor::bench::Scratch on_disk(std::filesystem::absolute(disk));
  const moor::bench::RamDisk ram(sockets.path() + "/ram", kRamDisk);
  bench.sockets = sockets.path();
  bench.ram = ram.path();
  bench.disk = on_disk.path();

  const std::string name = only.empty() ? (quick ? "quick" : "all") : only;
  moor::bench::Report report(out, name, "bench/block");
  moor::bench::Goals goals;
  const std::set<std::string> apart{"flush", "snapshots", "device"};
  const auto wanted = [&](const char* section) { return only.empty() || only == section; };
  if (!apart.contains(only)) bench_loads(bench, only, report, goals);
  if (wanted("flush")) bench_flush(bench, report, goals);
  if (wanted("snapshots")) bench_snapshots(bench, report, goals);
  if (wanted("device")) bench_device(bench, report, goals);
  goals.write(report);
  return 0;
}
