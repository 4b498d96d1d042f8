#include "model/mooring/operation.h"

#include "model/make_kind.h"

namespace moor::model::mooring {

MOOR_DESCRIBE(OperationSpec, "What is to be done.") {
  f.omit_empty();
  f.add("type", &OperationSpec::type, "What is to be done.").required().omit_empty(false).immutable();
  f.add("target", &OperationSpec::target, "Object that it is done to.").required().immutable();
  f.add("parameters", &OperationSpec::parameters, "Parameters, such as the destination node.").immutable();
  f.add("cancelRequested", &OperationSpec::cancel_requested, "Set to true to have the operation undone.");
}

MOOR_DESCRIBE(OperationStep, "One step of the operation.") {
  f.omit_empty();
  f.add("name", &OperationStep::name, "Name of the step.").required();
  f.add("state", &OperationStep::state, "How far it has come.").omit_empty(false);
  f.add("startedAt", &OperationStep::started_at, "When it began.");
  f.add("finishedAt", &OperationStep::finished_at, "When it ended.");
  f.add("attempts", &OperationStep::attempts, "How often it was tried.");
  f.add("message", &OperationStep::message, "What happened, in a sentence.");
  f.add("record", &OperationStep::record, "What the step made and what undoing it needs.");
}

MOOR_DESCRIBE(OperationStatus, "How far the operation has come.") {
  f.omit_empty();
  f.add("phase", &OperationStatus::phase, "How far it has come.").omit_empty(false);
  f.add("steps", &OperationStatus::steps, "The steps, in order.").list_map({"name"}).max_items(kMaxSteps);
  f.add("currentStep", &OperationStatus::current_step, "The step under way.");
  f.add("startedAt", &OperationStatus::started_at, "When the operation began.");
  f.add("finishedAt", &OperationStatus::finished_at, "When it ended.");
  f.add("message", &OperationStatus::message, "What happened, in a sentence.");
  f.add("blockers", &OperationStatus::blockers, "What the operation waits for.");
  f.add("conditions", &OperationStatus::conditions, "What is observed of the operation.").list_map({"type"});
}

MOOR_DESCRIBE(Operation, "Something that takes several steps and survives any crash.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Operation");
  f.add("metadata", &Operation::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Operation::spec, "What is to be done.").required();
  f.add("status", &Operation::status, "How far it has come.");
}

MOOR_KIND(Operation, .group = kGroup, .version = kVersion, .kind = "Operation", .plural = "operations",
          .singular = "operation", .short_names = {"op"}, .categories = {"mooring"}, .custom = true,
          .columns =
              {{.name = "Type", .path = ".spec.type", .description = "What is done."},
               {.name = "Target", .path = ".spec.target.name", .description = "Object it is done to."},
               {.name = "Phase", .path = ".status.phase", .description = "How far it has come."},
               {.name = "Step", .path = ".status.currentStep", .description = "Step under way."},
               {.name = "Message", .path = ".status.message", .description = "What happened.", .priority = 1},
               age_column()},
          .selectable_fields = {"spec.type", "spec.target.name", "status.phase"},
          .check_update = typed_check_update<Operation, validate_operation_update>)

Causes validate_operation_update(const Operation& before, const Operation& after) {
  Causes causes;
  if (before.spec.cancel_requested && !after.spec.cancel_requested)
    causes.push_back(forbidden("spec.cancelRequested", "a cancellation cannot be taken back"));
  if (is_final(before.status.phase) && before.status.phase != after.status.phase)
    causes.push_back(forbidden("status.phase", "an operation that has ended stays ended"));
  return causes;
}

bool is_final(OperationPhase phase) {
  return phase == OperationPhase::succeeded || phase == OperationPhase::undone ||
         phase == OperationPhase::failed;
}

}  // namespace moor::model::mooring
