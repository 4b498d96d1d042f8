// Crash-point sweep: one run of a seed or a scenario goes through its durable writes and external calls, and
// at each (or at every so many) it splits: a child process has a crash there and goes on to the end, the run
// itself goes on without one. What dies is the process whose point it is, just before or just after it, or an
// engine that lives then; and, in pairs, something else again a few points later, in the recovery. Children
// are processes, so that an assertion ends that run only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace moor::sim {

// Makes a world, gives it to `prepare` before its first step, and runs it to its end; what went wrong, if
// anything.
using Play = std::function<std::string(const std::function<void(World&)>& prepare)>;

struct SweepOptions {
  Play play;
  std::uint64_t seed = 1;    // chooses what dies second, and where the stride begins
  std::uint64_t first = 0;   // point
  std::uint64_t stride = 1;  // every so many points
  std::uint64_t most = 0;    // points at most; 0: all
  bool pairs = false;        // every crash once more with a second one
  std::uint32_t jobs = 1;
};

struct SweepRun {
  std::uint64_t point = 0;
  CrashWhen when = CrashWhen::before;
  std::string victim;       // "engine volume-1 on node-2"; empty: the process whose point it is
  std::uint64_t again = 0;  // the second crash comes so many points later; 0: none
  CrashSite site;
  std::string failure;  // empty: all rules held
};

struct SweepResult {
  std::uint64_t points = 0;  // in the window
  std::uint64_t runs = 0;
  std::vector<SweepRun> failed;
  std::string baseline;  // failure without any crash of ours
};

// `told` hears of every run as it ends.
SweepResult sweep(const SweepOptions& options, const std::function<void(const SweepRun&)>& told);
std::string describe(const SweepRun& run);
// In a child of a sweep, after its crash: what happens from here on is what somebody wants to see.
bool is_swept_child();

}  // namespace moor::sim
