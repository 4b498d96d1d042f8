// A failing seed cut down: what happens to it from outside is left out, piece by piece, for as long as the
// same rule is still broken. What is left is told as a story (tests/scenarios/README.md) with its times.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/world.h"

namespace moor::sim {

struct Shrunk {
  Schedule schedule;
  std::string rule;        // "assertion": the process was stopped
  std::size_t before = 0;  // faults and wishes
  std::uint64_t runs = 0;
};

// Absent: the seed does not fail. Each run is a child process, so that an assertion ends only that one.
std::optional<Shrunk> shrink(const WorldOptions& options, const std::function<void(std::size_t left)>& told);
std::string scenario_of(const Shrunk& shrunk, const WorldOptions& options);

}  // namespace moor::sim
