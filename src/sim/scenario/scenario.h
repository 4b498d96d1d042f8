// A scenario as text: what an operator would do and see, one statement a line (tests/scenarios/README.md is
// its manual). Parsing checks every word, so that a typing mistake is an error with its line and never a
// statement that does nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace moor::sim {

// "until attached v1 n1 within 15s" is verb until, words {attached, v1, n1}, options {within: 15s}.
struct Statement {
  int line = 0;
  std::string text;
  std::string verb;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
  std::optional<Duration> at =
      std::nullopt;  // "at 1500ms crash agent n1": at that time, whatever else is told
  bool operator==(const Statement&) const = default;
};

struct Scenario {
  std::string file;
  std::string title;
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  std::uint32_t servers = 1;
  bool shared_store = false;  // also with one server
  bool moods = false;         // workloads are not all steady
  std::uint32_t volumes = 0;  // that it names: v1 … vN
  std::vector<Statement> statements;
};

// The error names file and line, what is wrong and what would be right.
Result<Scenario> parse_scenario(std::string_view text, std::string file);

// v3 → 3; n2 → 2; s1 → 1: from words that the parser has checked.
std::uint32_t number_of(std::string_view name);
// "15s", also "-600s" for steps of a clock.
Result<Duration> parse_signed_duration(std::string_view text);

}  // namespace moor::sim
