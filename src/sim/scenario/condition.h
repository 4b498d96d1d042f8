// What a scenario asks of the world, as a function of Reality. Parsed words only (scenario.h): nothing here
// can meet a word that it does not know.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/reality.h"

namespace moor::sim {

using Condition = std::function<bool(const Reality&)>;

// {"attached", "v1", "n1"} and the like.
Condition make_condition(const std::vector<std::string>& words);

// What is there now, in a line, for a condition that did not come to pass.
std::string describe_now(const Reality& reality, const std::vector<std::string>& words);

std::string volume_name(std::string_view word);  // v1 → volume-1
std::string node_name(std::string_view word);    // n1 → node-1

}  // namespace moor::sim
