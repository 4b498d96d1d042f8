// The loads of the goal table, and the memory that the processes hold after them.
#include <fmt/format.h>

#include "bench/block/sections.h"

namespace moor::bench {
namespace {

constexpr const char* kEngine = "engine, 3 replicas";
constexpr const char* kSingle = "single replica";
constexpr const char* kQuorum = "QEMU quorum";
constexpr const char* kRaw = "raw fio";
constexpr double kMebi = 1u << 20;

void judge(const Load& load, const Samples& samples, Goals& goals) {
  const auto against = [&](const char* one, const char* other, double least) {
    goals.add(fmt::format("{}: {} ÷ {}, IOPS", load.name, one, other), iops_ratio(samples, one, other),
              Goals::at_least(least));
  };
  const auto cpu = [&](const char* other, double most) {
    goals.add(fmt::format("{}: {} ÷ {}, CPU per op", load.name, kEngine, other),
              cpu_ratio(samples, kEngine, other), Goals::at_most(most));
  };
  if (load.name == "4k-random-write-qd32") {
    against(kEngine, kQuorum, 4);
    against(kEngine, kSingle, 0.33);
    against(kEngine, kRaw, 0.30);
    cpu(kQuorum, 0.25);
    cpu(kSingle, 5);
  } else if (load.name == "4k-random-read-qd32") {
    against(kEngine, kQuorum, 4);
    against(kEngine, kSingle, 0.9);
    against(kSingle, kRaw, 0.65);
    cpu(kQuorum, 0.35);
    cpu(kSingle, 2.6);
  } else {
    const std::map<std::string, double> least{{"128k-sequential-write", 2},
                                              {"128k-sequential-read", 2.2},
                                              {"4k-random-write-qd1", 1.5},
                                              {"4k-random-read-qd1", 1.2}};
    against(kEngine, kQuorum, least.at(load.name));
  }
}

void report_memory(const std::vector<Contender>& contenders, const BlockBench& bench, Report& report,
                   Goals& goals) {
  report.heading("memory after the loads");
  std::vector<std::vector<std::string>> rows;
  const double replica_goal = 8 + 32 * static_cast<double>(bench.size) / (100.0 * (1u << 30));
  for (const Contender& contender : contenders) {
    for (std::size_t i = 0; i < contender.processes.size(); ++i) {
      const MemoryUse use = contender.processes[i].memory();
      const std::string& role = contender.roles[i];
      const double resident = static_cast<double>(use.resident) / kMebi;
      report.raw(Json::object({{"row", "memory"},
                               {"who", contender.name},
                               {"role", role},
                               {"rss", use.resident},
                               {"pss", use.proportional},
                               {"anonymous", use.anonymous}}));
      rows.push_back({contender.name, role, fmt::format("{:.1f}", resident),
                      fmt::format("{:.1f}", static_cast<double>(use.proportional) / kMebi),
                      fmt::format("{:.1f}", static_cast<double>(use.anonymous) / kMebi)});
      const std::string note =
          fmt::format("{:.1f} of it its own", static_cast<double>(use.anonymous) / kMebi);
      if (role == "engine") goals.add("engine, RSS in MiB", resident, Goals::at_most(8), note);
      if (role == "replica" && i == 0)
        goals.add("replica, RSS in MiB", resident, Goals::at_most(replica_goal), note);
    }
  }
  report.table({"who", "process", "RSS MiB", "PSS MiB", "anonymous MiB"}, rows);
}

}  // namespace

const std::vector<Load>& goal_loads() {
  static const std::vector<Load> loads{{"4k-random-write-qd32", "randwrite", 4096, 32, false},
                                       {"4k-random-read-qd32", "randread", 4096, 32, false},
                                       {"128k-sequential-write", "write", 128u << 10, 8, false},
                                       {"128k-sequential-read", "read", 128u << 10, 8, false},
                                       {"4k-random-write-qd1", "randwrite", 4096, 1, false},
                                       {"4k-random-read-qd1", "randread", 4096, 1, false}};
  return loads;
}

void bench_loads(const BlockBench& bench, const std::string& only, Report& report, Goals& goals) {
  const Place place{bench.ram, bench.sockets, bench.size, bench.moorblk};
  std::vector<Contender> contenders;
  contenders.push_back(start_engine(place));
  contenders.push_back(start_quorum(place, QuorumKind::plain));
  contenders.push_back(start_single(place));
  contenders.push_back(start_quorum(place, QuorumKind::tuned));
  contenders.push_back(start_qemu_nbd(place));
  contenders.push_back(start_nbdkit(place));
  contenders.push_back(plain_file(place));
  std::vector<const Contender*> all;
  for (const Contender& contender : contenders) {
    fill_target(contender.target, bench.size);
    all.push_back(&contender);
  }
  for (const Load& load : goal_loads()) {
    if (!only.empty() && only != load.name && only != "memory") continue;
    judge(load, interleave(all, load, bench, report), goals);
  }
  report_memory(contenders, bench, report, goals);
}

void bench_flush(const BlockBench& bench, Report& report, Goals& goals) {
  Place place{bench.disk, bench.sockets, 64u << 20, bench.moorblk};
  BlockBench smaller = bench;
  smaller.size = place.size;
  std::vector<Contender> contenders;
  contenders.push_back(start_engine(place));
  contenders.push_back(start_quorum(place, QuorumKind::plain));
  contenders.push_back(start_single(place));
  contenders.push_back(start_qemu_nbd(place));
  contenders.push_back(plain_file(place));
  std::vector<const Contender*> all;
  for (const Contender& contender : contenders) {
    fill_target(contender.target, place.size);
    all.push_back(&contender);
  }
  const Load load{"4k-write-flush-qd1-on-disk", "randwrite", 4096, 1, true};
  const Samples samples = interleave(all, load, smaller, report);
  goals.add(fmt::format("{}: {} ÷ {}, IOPS", load.name, kEngine, kQuorum),
            iops_ratio(samples, kEngine, kQuorum), Goals::at_least(1.5));
}

}  // namespace moor::bench
