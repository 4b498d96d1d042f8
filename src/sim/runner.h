// Many seeds on several cores. Each runs in a child process, so that an assertion of the product ends one
// seed and is told like any other violation, with the command that replays it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace moor::sim {

struct RunOptions {
  WorldOptions world;  // what all seeds share
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  bool own_shape = true;  // each seed chooses its number of nodes, volumes and servers
  std::uint32_t jobs = 1;
  bool stop_at_first = false;
  std::string command = "moor sim";  // how a seed is run again
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  bool failed = false;
  std::string failure;  // rule, step, message and the command
  WorldCounts counts;
};

struct RunResult {
  std::uint64_t seeds = 0;
  std::uint64_t failures = 0;
  std::uint64_t hash = 0;  // of all hashes, in the order of seeds
  WorldCounts counts;
  std::vector<SeedResult> failed;
};

// The world that this seed runs in.
WorldOptions options_of(const RunOptions& options, std::uint64_t seed);
// `told` hears of every seed as it ends.
RunResult run_seeds(const RunOptions& options, const std::function<void(const SeedResult&)>& told);
// One line: seeds, events, cluster-hours, crashes, cuts, messages lost, acknowledged writes checked, hash.
std::string summary(const RunResult& result);
std::string describe(const Violation& violation, const WorldOptions& options, const std::string& command);

// A page with the run's trace: one row per machine, one mark per line.
std::string timeline_page(const Outcome& outcome);

}  // namespace moor::sim
