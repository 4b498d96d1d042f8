#include "model/meta/condition.h"

#include "model/describe.h"
#include "model/meta/package.h"

namespace moor::model {

MOOR_DESCRIBE(Condition, "One thing that is observed to be so, not so, or not known.") {
  f.add("type", &Condition::type, "What is observed, in CamelCase.").required();
  f.add("status", &Condition::status, "True, False or Unknown.");
  f.add("lastProbeTime", &Condition::last_probe_time, "When it was last looked at.");
  f.add("lastTransitionTime", &Condition::last_transition_time, "When the status last changed.");
  f.add("reason", &Condition::reason, "Why, in one CamelCase word.");
  f.add("message", &Condition::message, "Why, in a sentence.");
}

MOOR_DESCRIBE(StandardCondition, "One thing that is observed to be so, not so, or not known.") {
  f.omit_empty();
  f.add("type", &StandardCondition::type, "What is observed, in CamelCase.").required();
  f.add("status", &StandardCondition::status, "True, False or Unknown.").required();
  f.add("observedGeneration", &StandardCondition::observed_generation,
        "The metadata.generation that was looked at.");
  f.add("lastTransitionTime", &StandardCondition::last_transition_time, "When the status last changed.");
  f.add("reason", &StandardCondition::reason, "Why, in one CamelCase word.");
  f.add("message", &StandardCondition::message, "Why, in a sentence.");
}

const Condition* find_condition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions)
    if (condition.type == type) return &condition;
  return nullptr;
}

bool is_condition_true(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == ConditionStatus::yes;
}

bool set_condition(std::vector<Condition>& conditions, Condition wanted, Time now) {
  for (Condition& condition : conditions) {
    if (condition.type != wanted.type) continue;
    wanted.last_transition_time =
        condition.status == wanted.status ? condition.last_transition_time : format_rfc3339(now);
    wanted.last_probe_time = condition.last_probe_time;
    if (condition == wanted) return false;
    condition = std::move(wanted);
    return true;
  }
  wanted.last_transition_time = format_rfc3339(now);
  conditions.push_back(std::move(wanted));
  return true;
}

bool set_condition(std::vector<StandardCondition>& conditions, StandardCondition wanted, Time now) {
  for (StandardCondition& condition : conditions) {
    if (condition.type != wanted.type) continue;
    wanted.last_transition_time = condition.status == wanted.status ? condition.last_transition_time : now;
    if (condition == wanted) return false;
    condition = std::move(wanted);
    return true;
  }
  wanted.last_transition_time = now;
  conditions.push_back(std::move(wanted));
  return true;
}

}  // namespace moor::model
