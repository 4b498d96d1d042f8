// Crash-point sweep: one seed is run once to number its durable writes and external calls, and then again for
// each of them with a crash just before it and one just after it, and once more with a second crash a few
// points later, in the middle of the recovery. Each run is a child process, so that an assertion ends that
// run only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace moor::sim {

struct SweepOptions {
  WorldOptions world;
  std::uint64_t first = 0;   // point
  std::uint64_t stride = 1;  // every so many points
  std::uint64_t most = 0;    // points at most; 0: all
  std::uint64_t again = 3;   // the second crash comes so many points after the first; 0: none
};

struct SweepRun {
  std::uint64_t point = 0;
  CrashWhen when = CrashWhen::before;
  bool twice = false;
  CrashSite site;
  std::string failure;  // empty: all rules held
};

struct SweepResult {
  std::uint64_t points = 0;  // that the seed has
  std::uint64_t runs = 0;
  std::vector<SweepRun> failed;
  std::string baseline;  // failure without any crash of ours: then nothing was swept
};

// `told` hears of every run as it ends.
SweepResult sweep(const SweepOptions& options, const std::function<void(const SweepRun&)>& told);
std::string describe(const SweepRun& run);

}  // namespace moor::sim
