// What 250 snapshots cost: CPU of a read, and opening. Two volumes of 10 GiB get the same writes, half of
// them in a small hot range that is then read and half scattered over the whole; one volume has a snapshot
// after each round of writes, the other a single one at the end. So every block read lies in a summed,
// immutable layer on both.
#include <fmt/format.h>
#include <poll.h>

#include <random>

#include "base/assert.h"
#include "bench/block/scatter.h"
#include "bench/block/sections.h"

namespace moor::bench {
namespace {

constexpr std::uint64_t kVolume = 10ull << 30;
constexpr std::uint64_t kHot = 64u << 20;
constexpr int kWrites = 200;  // of each kind per snapshot

std::string control_of(const Place& place, const std::string& name) {
  return place.sockets + "/" + name + ".ctl";
}

void take_snapshot(const Place& place, const std::string& engine, int number) {
  run_or_die(
      {place.moorblk, "ctl", control_of(place, engine), "snapshot", "create", fmt::format("s{:03}", number)});
}

void wait_until_summed(const Place& place, const std::string& replica) {
  const RealClock clock;
  const TimePoint limit = clock.now() + std::chrono::seconds(120);
  while (clock.now() < limit) {
    const std::string list =
        run_or_die({place.moorblk, "ctl", control_of(place, replica), "snapshot", "list"});
    if (list.find("\"summed\": false") == std::string::npos &&
        list.find("\"summed\":false") == std::string::npos)
      return;
    poll(nullptr, 0, 50);
  }
  MOOR_UNREACHABLE("the layers of {} are not summed in time", replica);
}

// Writes and snapshots through an engine over one replica, as a user would make them.
void build(const Place& place, const std::string& name, int rounds, bool each) {
  Process replica = serve_replica(place, name);
  Process engine = serve_engine(place, name + "-engine", {name});
  fill_target(nbd_uri(place, name + "-engine"), kHot);
  {
    Scatter scatter(nbd_uri(place, name + "-engine"));
    std::mt19937_64 random(42);
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::uint64_t> offsets;
      for (int i = 0; i < kWrites; ++i) {
        offsets.push_back(random() % (kHot / 4096) * 4096);
        offsets.push_back(random() % (kVolume / 4096) * 4096);
      }
      scatter.write(offsets, static_cast<std::uint8_t>(round + 1));
      if (each) take_snapshot(place, name + "-engine", round);
    }
  }
  if (!each) take_snapshot(place, name + "-engine", 0);
  wait_until_summed(place, name);
  engine.end();
  replica.end();
}

double open_seconds(const Place& place, const std::string& name) {
  const RealClock clock;
  const TimePoint start = clock.now();
  Process process = serve_replica(place, name);  // its socket appears when it is open
  const double taken = seconds(clock.now() - start);
  process.end();
  return taken;
}

}  // namespace

void bench_snapshots(const BlockBench& bench, Report& report, Goals& goals) {
  const Place place{bench.ram, bench.sockets, kVolume, bench.moorblk};
  const RealClock clock;
  const TimePoint start = clock.now();
  build(place, "one", bench.snapshots, false);
  const TimePoint middle = clock.now();
  build(place, "many", bench.snapshots, true);
  report.raw(Json::object({{"row", "snapshots-build"},
                           {"snapshots", bench.snapshots},
                           {"one_s", seconds(middle - start)},
                           {"many_s", seconds(clock.now() - middle)}}));
  std::vector<double> opens;
  for (int round = 0; round < bench.rounds; ++round) {
    opens.push_back(open_seconds(place, "many"));
    report.raw(Json::object({{"row", "snapshots-open"}, {"round", round}, {"open_s", opens.back()}}));
  }
  Contender one{"1 snapshot", nbd_uri(place, "one"), {}, {"replica"}};
  one.processes.push_back(serve_replica(place, "one"));
  Contender many{fmt::format("{} snapshots", bench.snapshots), nbd_uri(place, "many"), {}, {"replica"}};
  many.processes.push_back(serve_replica(place, "many"));
  BlockBench hot = bench;
  hot.size = kHot;
  const Load load{"snapshots-4k-random-read-qd32", "randread", 4096, 32, false};
  const Samples samples = interleave({&one, &many}, load, hot, report);
  report.text(fmt::format("Opening 10 GiB with {} snapshots and scattered writes: {:.3f} s (median).",
                          bench.snapshots, median(opens)));
  goals.add(fmt::format("read CPU, {} ÷ {}", many.name, one.name), cpu_ratio(samples, many.name, one.name),
            Goals::at_most(1.2));
  goals.add(fmt::format("open 10 GiB with {}, seconds", many.name), median(opens), Goals::at_most(1));
}

}  // namespace moor::bench
