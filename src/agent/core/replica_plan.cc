#include "agent/core/replica_plan.h"

#include <algorithm>

#include "base/plant.h"
#include "registry/node_scope.h"

namespace moor::agent {

using model::longhorn::InstanceState;
using State = ProcessFacts::State;

Duration replica_pause(int failures) {
  constexpr Duration kShortest = std::chrono::milliseconds(100);
  constexpr Duration kLongest = std::chrono::seconds(30);
  if (failures <= 0) return Duration::zero();
  return std::min(kLongest, kShortest * (1 << std::min(failures - 1, 16)));
}

namespace {

InstanceState state_of(const ReplicaFacts& facts, bool wanted) {
  if (facts.process.is_running()) {
    // Wanted again or not, one that was told to stop will not serve any more.
    if (!wanted || facts.stop_asked) return InstanceState::stopping;
    return facts.port != 0 ? InstanceState::running : InstanceState::starting;
  }
  if (!wanted) return InstanceState::stopped;
  return facts.problem.empty() && facts.failures == 0 ? InstanceState::starting : InstanceState::error;
}

model::longhorn::ReplicaStatus status_of(const model::longhorn::Replica& object, const Self& self,
                                         const ReplicaFacts& facts, bool wanted, Moment moment) {
  model::longhorn::ReplicaStatus status = object.status;
  status.owner_id = self.node;
  status.instance_manager_name = self.node;
  status.current_state = state_of(facts, wanted);
  const bool running = status.current_state == InstanceState::running;
  status.started = facts.process.is_running();
  status.ip = running ? self.address : "";
  status.storage_ip = status.ip;
  status.port = running ? facts.port : 0;
  if (facts.epoch != 0) status.epoch = facts.epoch;
  if (facts.generation != 0) status.generation = facts.generation;
  if (facts.used_bytes != 0) status.used_bytes = facts.used_bytes;
  const std::string why = !facts.problem.empty() ? facts.problem : facts.process.cause;
  if (status.current_state == InstanceState::error)
    set_condition(status.conditions,
                  {std::string(kFailedCondition), model::ConditionStatus::yes, "", "", "CannotRun", why},
                  moment.wall);
  else if (running && find_condition(status.conditions, kFailedCondition) != nullptr)
    set_condition(status.conditions,
                  {std::string(kFailedCondition), model::ConditionStatus::no, "", "", "Running", ""},
                  moment.wall);
  return status;
}

}  // namespace

ReplicaPlan plan_replica(const model::longhorn::Replica* object, const Self& self, const ReplicaFacts& facts,
                         Moment moment) {
  ReplicaPlan plan;
  const bool deleted = object != nullptr && object->metadata.is_being_deleted();
  const bool wanted = object != nullptr && !deleted && object->spec.node_id == self.node &&
                      object->spec.desire_state == InstanceState::running;
  // A new agent knows nothing better than what the one before it said.
  if (object != nullptr)
    plan.status = facts.unheard ? object->status : status_of(*object, self, facts, wanted, moment);
  if (wanted) {
    if (facts.process.is_running()) return plan;
    if (moment.now < facts.retry_at) {
      plan.again = facts.retry_at;
      return plan;
    }
    plan.step = MOOR_PLANT("agent-replica-not-restarted") && facts.failures > 0 ? ReplicaStep::nothing
                                                                                : ReplicaStep::start;
    return plan;
  }
  if (facts.process.is_running()) {
    plan.step = facts.stop_asked ? ReplicaStep::nothing : ReplicaStep::stop;
    return plan;
  }
  if (object == nullptr) {
    plan.step = ReplicaStep::forget;
    return plan;
  }
  if (!deleted || !object->metadata.has_finalizer(registry::kNodeFinalizer)) return plan;
  if (moment.now < facts.retry_at) {
    plan.again = facts.retry_at;
    return plan;
  }
  plan.step =
      facts.directory_gone || MOOR_PLANT("agent-lets-go-early") ? ReplicaStep::let_go : ReplicaStep::clear;
  return plan;
}

}  // namespace moor::agent
