// Runs a scenario in a world of its own: wishes and faults as its statements say, `always` at every step,
// `until` with its limit, and at the end healing, quiet, and everything that a seed's run asks of the world.
// The same scenario gives the same hash every time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/scenario/scenario.h"
#include "sim/world.h"

namespace moor::sim {

struct ScenarioOptions {
  std::optional<std::uint64_t> seed = std::nullopt;  // instead of its own: the same story, other delays
  std::function<void(World&)> prepare = {};          // before its first step
  std::optional<Duration> io_pause = std::nullopt;   // between two requests of one client, on average
  bool keep_trace = false;
  std::function<void(const std::string& line)> on_trace = {};
};

struct ScenarioOutcome {
  Outcome outcome;
  // "FILE:7: until attached v1 n2 within 15s: …", or the rule that was broken and the statement under way.
  std::optional<std::string> failure;
};

ScenarioOutcome run_scenario(const Scenario& scenario, const ScenarioOptions& options = {});

}  // namespace moor::sim
