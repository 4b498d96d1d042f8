#include "model/core/persistent_volume_claim.h"

#include "model/core/cells.h"
#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(ClaimResources, "How much storage is asked for.") {
  f.omit_empty();
  f.add("requests", &ClaimResources::requests, "At least this much; the key is storage.");
  f.add("limits", &ClaimResources::limits, "At most this much.");
}

MOOR_DESCRIBE(PersistentVolumeClaimSpec, "What is asked for.") {
  f.omit_empty();
  f.add("accessModes", &PersistentVolumeClaimSpec::access_modes, "How the volume shall be mounted.");
  f.add("selector", &PersistentVolumeClaimSpec::selector, "Labels that the volume must have.");
  f.add("resources", &PersistentVolumeClaimSpec::resources, "How much is asked for.");
  f.add("volumeName", &PersistentVolumeClaimSpec::volume_name, "Volume that the claim is bound to.");
  f.add("storageClassName", &PersistentVolumeClaimSpec::storage_class_name,
        "Storage class; absent takes the default one, empty none.");
  f.add("volumeMode", &PersistentVolumeClaimSpec::volume_mode, "Filesystem or Block.")
      .default_to("Filesystem")
      .one_of({"Filesystem", "Block"});
  f.add("dataSource", &PersistentVolumeClaimSpec::data_source,
        "Snapshot or claim that the first content comes from.");
  f.add("dataSourceRef", &PersistentVolumeClaimSpec::data_source_ref, "The same, for any kind of object.");
  f.add("volumeAttributesClassName", &PersistentVolumeClaimSpec::volume_attributes_class_name,
        "Class of changeable attributes.");
  f.preserve(&PersistentVolumeClaimSpec::extra);
}

MOOR_DESCRIBE(ClaimCondition, "One thing observed of the claim.") {
  f.omit_empty();
  f.add("type", &ClaimCondition::type, "What is observed.").required();
  f.add("status", &ClaimCondition::status, "True, False or Unknown.").required();
  f.add("lastProbeTime", &ClaimCondition::last_probe_time, "When it was last looked at.");
  f.add("lastTransitionTime", &ClaimCondition::last_transition_time, "When the status last changed.");
  f.add("reason", &ClaimCondition::reason, "Why, in one word.");
  f.add("message", &ClaimCondition::message, "Why, in a sentence.");
}

MOOR_DESCRIBE(PersistentVolumeClaimStatus, "What is known of the claim.") {
  f.omit_empty();
  f.add("phase", &PersistentVolumeClaimStatus::phase, "Pending, Bound or Lost.");
  f.add("accessModes", &PersistentVolumeClaimStatus::access_modes, "How the bound volume can be mounted.");
  f.add("capacity", &PersistentVolumeClaimStatus::capacity, "How much the bound volume holds.");
  f.add("conditions", &PersistentVolumeClaimStatus::conditions, "What is observed of the claim.")
      .list_map({"type"});
  f.add("allocatedResources", &PersistentVolumeClaimStatus::allocated_resources,
        "What a resize is growing towards.");
  f.add("allocatedResourceStatuses", &PersistentVolumeClaimStatus::allocated_resource_statuses,
        "How far a resize has come.");
  f.preserve(&PersistentVolumeClaimStatus::extra);
}

MOOR_DESCRIBE(PersistentVolumeClaim, "A request for storage.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "PersistentVolumeClaim");
  f.add("metadata", &PersistentVolumeClaim::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &PersistentVolumeClaim::spec, "What is asked for.").required();
  f.add("status", &PersistentVolumeClaim::status, "What is known of the claim.");
}

namespace {

Json claim_modes_cell(const Json& object, Time) {
  return short_access_modes(object.find_path({"status", "accessModes"}));
}

Json claim_status_cell(const Json& object, Time) {
  if (object.find_path({"metadata", "deletionTimestamp"}) != nullptr) return "Terminating";
  const Json* phase = object.find_path({"status", "phase"});
  return phase == nullptr ? Json("") : *phase;
}

std::optional<std::int64_t> storage_of(const std::map<std::string, Quantity>& resources) {
  const auto found = resources.find("storage");
  return found == resources.end() ? std::nullopt : found->second.value();
}

}  // namespace

MOOR_KIND(
    PersistentVolumeClaim, .version = kVersion, .kind = "PersistentVolumeClaim",
    .plural = "persistentvolumeclaims", .singular = "persistentvolumeclaim", .short_names = {"pvc"},
    .columns = {{.name = "Status", .description = "Whether it is bound.", .cell = claim_status_cell},
                {.name = "Volume", .path = ".spec.volumeName", .description = "Volume it is bound to."},
                {.name = "Capacity",
                 .path = ".status.capacity.storage",
                 .description = "How much the volume holds."},
                {.name = "Access Modes",
                 .description = "How the volume can be mounted.",
                 .cell = claim_modes_cell},
                {.name = "StorageClass", .path = ".spec.storageClassName", .description = "Storage class."},
                age_column(),
                {.name = "VolumeMode",
                 .path = ".spec.volumeMode",
                 .description = "Filesystem or Block.",
                 .priority = 1}},
    .strategic_patch = true, .check = typed_check<PersistentVolumeClaim, validate_claim>,
    .check_update = typed_check_update<PersistentVolumeClaim, validate_claim_update>)

Causes validate_claim(const PersistentVolumeClaim& claim) {
  Causes causes;
  if (claim.spec.access_modes.empty()) causes.push_back(required("spec.accessModes"));
  const auto storage = claim.spec.resources.requests.find("storage");
  if (storage == claim.spec.resources.requests.end())
    causes.push_back(required("spec.resources[storage]"));
  else if (storage->second.value().value_or(0) <= 0)
    causes.push_back(invalid("spec.resources[storage]", storage->second.text, "must be greater than zero"));
  return causes;
}

Causes validate_claim_update(const PersistentVolumeClaim& before, const PersistentVolumeClaim& after) {
  Causes causes;
  if (!before.spec.volume_name.empty() && before.spec.volume_name != after.spec.volume_name)
    causes.push_back(forbidden("spec.volumeName", "a bound claim stays with its volume"));
  if (before.spec.access_modes != after.spec.access_modes)
    causes.push_back(forbidden("spec.accessModes", "the access modes of a claim cannot change"));
  if (!before.spec.volume_mode.empty() && before.spec.volume_mode != after.spec.volume_mode)
    causes.push_back(immutable("spec.volumeMode", after.spec.volume_mode));
  const auto was = storage_of(before.spec.resources.requests);
  const auto is = storage_of(after.spec.resources.requests);
  const auto holds = storage_of(before.status.capacity);
  // Asking for less again is allowed while an expansion is still under way, never below what is already
  // there.
  if (was && is && *is < *was && !(holds && *is > *holds))
    causes.push_back(forbidden("spec.resources.requests.storage", "a claim can only grow"));
  return causes;
}

}  // namespace moor::model::core
