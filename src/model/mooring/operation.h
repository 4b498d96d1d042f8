// A durable saga: everything that takes several steps across hosts. Each step says how far it is and what
// undoing it needs, so that the next leader can go on or roll back after a crash at any point.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/volume_attachment.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"
#include "model/mooring/group.h"

namespace moor::model::mooring {

enum class OperationType {
  attach,
  detach,
  live_migrate,
  migrate,
  resize,
  confirm_resize,
  revert_resize,
  evacuate,
  shelve,
  unshelve,
  swap_volume,
  drain,
};
MOOR_ENUM_NAMES(OperationType, "Attach", "Detach", "LiveMigrate", "Migrate", "Resize", "ConfirmResize",
                "RevertResize", "Evacuate", "Shelve", "Unshelve", "SwapVolume", "Drain")

enum class OperationPhase { pending, running, undoing, succeeded, undone, failed };
MOOR_ENUM_NAMES(OperationPhase, "Pending", "Running", "Undoing", "Succeeded", "Undone", "Failed")

enum class StepState { waiting, running, done, undoing, undone, failed };
MOOR_ENUM_NAMES(StepState, "Waiting", "Running", "Done", "Undoing", "Undone", "Failed")

struct OperationSpec {
  OperationType type = OperationType::attach;
  ObjectReference target = {};
  std::map<std::string, std::string> parameters = {};
  bool cancel_requested = false;
};
MOOR_DESCRIBED(OperationSpec);

struct OperationStep {
  std::string name = {};
  StepState state = StepState::waiting;
  std::optional<MicroTime> started_at = {};
  std::optional<MicroTime> finished_at = {};
  std::int32_t attempts = 0;
  std::string message = {};
  // What the step made and what undoing it needs: attachment ids, nodes, epochs. Written before the effect.
  std::map<std::string, std::string> record = {};
};
MOOR_DESCRIBED(OperationStep);

inline constexpr std::size_t kMaxSteps = 64;

struct OperationStatus {
  OperationPhase phase = OperationPhase::pending;
  std::vector<OperationStep> steps = {};
  std::string current_step = {};
  std::optional<MicroTime> started_at = {};
  std::optional<MicroTime> finished_at = {};
  std::string message = {};
  std::vector<longhorn::Blocker> blockers = {};
  std::vector<StandardCondition> conditions = {};
};
MOOR_DESCRIBED(OperationStatus);

struct Operation {
  ObjectMeta metadata = {};
  OperationSpec spec = {};
  OperationStatus status = {};
};
MOOR_DESCRIBED_KIND(Operation);

// What an operation is stays; it can only be asked to cancel, and that cannot be taken back.
Causes validate_operation_update(const Operation& before, const Operation& after);
bool is_final(OperationPhase phase);

}  // namespace moor::model::mooring
