#include "attach/move_steps.h"

#include "attach/moves.h"

namespace moor::attach {

using model::longhorn::VolumeState;
using A = MoveAction;
using P = MovePhase;

namespace {

MoveStep begin_if_asked(const Volume& volume, const MoveProgress& progress, MoveStep step) {
  const auto& spec = volume.spec;
  const auto& status = volume.status;
  const bool asked = !spec.migration_node_id.empty() && spec.migration_node_id != spec.node_id;
  const bool here = status.state == VolumeState::attached && status.current_node_id == spec.node_id;
  if (!asked || !here || !progress.source_serves) return step;
  step.action = A::begin;
  step.phase = P::preparing;
  return step;
}

// S24: confirming is durable before anything else, and nothing leads back.
MoveStep confirm(const Volume& volume, const MoveProgress& progress, MoveStep step) {
  step.phase = P::confirming;
  step.keep = MoveSide::destination;
  step.current_migration_node_id = volume.spec.node_id;
  if (!progress.destination_active) {
    step.action = A::swap;
    return step;
  }
  if (!progress.destination_serves) return step;
  step.action = A::stop_loser;
  if (!progress.loser_gone) return step;
  step.action = A::finish;
  step.current_node_id = volume.spec.node_id;
  step.current_migration_node_id.clear();
  return step;
}

MoveStep roll_back(const Volume& volume, const MoveProgress& progress, MoveStep step) {
  const bool begun = volume.status.move->phase == P::rolling_back;
  step.phase = P::rolling_back;
  step.current_migration_node_id.clear();
  // Above every epoch so far, also when the standby never became active: it must not do so late.
  if (!begun || !progress.source_active) {
    step.action = A::take_back;
    return step;
  }
  step.action = A::stop_loser;
  if (progress.source_serves && progress.loser_gone) step.action = A::finish;
  return step;
}

MoveStep go_on(const Volume& volume, const MoveProgress& progress, MoveStep step) {
  const std::string& destination = volume.status.move->destination_node_id;
  if (progress.destination_active) {
    step.phase = P::activated;
    step.keep = MoveSide::destination;
    step.current_migration_node_id = destination;
    return step;
  }
  if (!progress.source_active) {
    // Nobody has it: a person released whoever had. It goes on where its clients are.
    const bool there = volume.status.move->phase == P::activated;
    step.action = there ? A::swap : A::take_back;
    step.phase = there ? P::activated : P::preparing;
    step.keep = there ? MoveSide::destination : MoveSide::source;
    step.current_migration_node_id = there ? destination : "";
    return step;
  }
  if (!progress.standby_granted || progress.standby_ended) step.action = A::grant_standby;
  if (step.action == A::grant_standby || !progress.standby_ready) return not_ready(std::move(step));
  step.phase = P::ready;
  step.current_migration_node_id = destination;
  return step;
}

}  // namespace

MoveStep not_ready(MoveStep step) {
  step.phase = P::preparing;
  step.current_migration_node_id.clear();
  return step;
}

MoveStep next_move_step(const Volume& volume, const MoveProgress& progress) {
  const auto& spec = volume.spec;
  const auto& status = volume.status;
  MoveStep step{.current_node_id = status.current_node_id,
                .current_migration_node_id = status.current_migration_node_id};
  if (volume.metadata.is_being_deleted()) return step;
  if (!is_moving(volume)) return begin_if_asked(volume, progress, step);
  const auto& record = *status.move;
  step.phase = record.phase;
  if (status.state != VolumeState::attached || spec.node_id.empty() || status.current_node_id.empty())
    return step;
  if (spec.node_id != record.source_node_id && spec.node_id != record.destination_node_id) return step;
  step.handled = true;
  step.action = A::wait;
  if (spec.node_id == record.destination_node_id) return confirm(volume, progress, step);
  step.current_node_id = record.source_node_id;  // until the move ends it is where it came from
  // What was rolled back stays so, even if the same destination is asked for again meanwhile.
  if (spec.migration_node_id != record.destination_node_id || record.phase == P::rolling_back)
    return roll_back(volume, progress, step);
  return go_on(volume, progress, step);
}

bool record_may_go(const Volume& volume, bool both_tickets_there) {
  if (!is_moving(volume)) return false;
  const VolumeState state = volume.status.state;
  // A volume that opens again has been decided about.
  if (state == VolumeState::attaching || state == VolumeState::creating) return true;
  return state == VolumeState::detached && (!both_tickets_there || !volume.spec.node_id.empty());
}

}  // namespace moor::attach
