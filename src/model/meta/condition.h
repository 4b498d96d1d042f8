// Two forms of a condition: Longhorn's, with times as plain strings, and the one that Kubernetes' own newer
// kinds use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/codec.h"
#include "model/enum.h"
#include "model/time.h"

namespace moor::model {

enum class ConditionStatus { none, yes, no, unknown };
MOOR_ENUM_NAMES(ConditionStatus, "", "True", "False", "Unknown")

// Longhorn's and the core kinds' form.
struct Condition {
  std::string type = {};
  ConditionStatus status = ConditionStatus::none;
  std::string last_probe_time = {};
  std::string last_transition_time = {};
  std::string reason = {};
  std::string message = {};
  bool operator==(const Condition&) const = default;
};
MOOR_DESCRIBED(Condition);

// The form of our own kinds (and of newer Kubernetes ones).
struct StandardCondition {
  std::string type = {};
  ConditionStatus status = ConditionStatus::none;
  std::int64_t observed_generation = 0;
  std::optional<Time> last_transition_time = {};
  std::string reason = {};
  std::string message = {};
  bool operator==(const StandardCondition&) const = default;
};
MOOR_DESCRIBED(StandardCondition);

const Condition* find_condition(const std::vector<Condition>& conditions, std::string_view type);
bool is_condition_true(const std::vector<Condition>& conditions, std::string_view type);

// Sets one condition in place. The transition time moves only when the status does, so that a reader sees
// since when it holds. Answers whether anything changed.
bool set_condition(std::vector<Condition>& conditions, Condition wanted, Time now);
bool set_condition(std::vector<StandardCondition>& conditions, StandardCondition wanted, Time now);

}  // namespace moor::model
