#include "model/core/persistent_volume.h"

#include <fmt/format.h>

#include "model/core/cells.h"
#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(CsiPersistentVolumeSource, "A volume of a CSI driver.") {
  f.omit_empty();
  f.add("driver", &CsiPersistentVolumeSource::driver, "Name of the driver.").required();
  f.add("volumeHandle", &CsiPersistentVolumeSource::volume_handle, "Name the driver knows the volume by.")
      .required();
  f.add("readOnly", &CsiPersistentVolumeSource::read_only, "Whether it is published read-only.");
  f.add("fsType", &CsiPersistentVolumeSource::fs_type, "File system.");
  f.add("volumeAttributes", &CsiPersistentVolumeSource::volume_attributes, "Parameters for the driver.");
  f.preserve(&CsiPersistentVolumeSource::extra);
}

MOOR_DESCRIBE(PersistentVolumeSpec, "What the volume is.") {
  f.omit_empty();
  f.add("capacity", &PersistentVolumeSpec::capacity, "How much it holds.");
  f.add("csi", &PersistentVolumeSpec::csi, "A volume of a CSI driver.");
  f.add("accessModes", &PersistentVolumeSpec::access_modes, "How it can be mounted.");
  f.add("claimRef", &PersistentVolumeSpec::claim_ref, "Claim that it is bound to, or reserved for.");
  f.add("persistentVolumeReclaimPolicy", &PersistentVolumeSpec::reclaim_policy,
        "What happens to it when the claim is gone.")
      .default_to("Retain")
      .one_of({"Retain", "Delete", "Recycle"});
  f.add("storageClassName", &PersistentVolumeSpec::storage_class_name, "Storage class it belongs to.");
  f.add("mountOptions", &PersistentVolumeSpec::mount_options, "Options for mounting it.");
  f.add("volumeMode", &PersistentVolumeSpec::volume_mode, "Filesystem or Block.")
      .default_to("Filesystem")
      .one_of({"Filesystem", "Block"});
  f.add("nodeAffinity", &PersistentVolumeSpec::node_affinity, "Nodes it can be used on.");
  f.add("volumeAttributesClassName", &PersistentVolumeSpec::volume_attributes_class_name,
        "Class of changeable attributes.");
  f.preserve(&PersistentVolumeSpec::extra);
}

MOOR_DESCRIBE(PersistentVolumeStatus, "What is known of the volume.") {
  f.omit_empty();
  f.add("phase", &PersistentVolumeStatus::phase, "Pending, Available, Bound, Released or Failed.");
  f.add("message", &PersistentVolumeStatus::message, "Why, in a sentence.");
  f.add("reason", &PersistentVolumeStatus::reason, "Why, in one word.");
  f.add("lastPhaseTransitionTime", &PersistentVolumeStatus::last_phase_transition_time,
        "When the phase last changed.");
  f.preserve(&PersistentVolumeStatus::extra);
}

MOOR_DESCRIBE(PersistentVolume, "A piece of storage in the cluster.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "PersistentVolume");
  f.add("metadata", &PersistentVolume::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &PersistentVolume::spec, "What the volume is.").required();
  f.add("status", &PersistentVolume::status, "What is known of the volume.");
}

namespace {

Json volume_modes_cell(const Json& object, Time) {
  return short_access_modes(object.find_path({"spec", "accessModes"}));
}

Json volume_status_cell(const Json& object, Time) {
  if (object.find_path({"metadata", "deletionTimestamp"}) != nullptr) return "Terminating";
  const Json* phase = object.find_path({"status", "phase"});
  return phase == nullptr ? Json("") : *phase;
}

Json claim_cell(const Json& object, Time) {
  const Json* claim = object.find_path({"spec", "claimRef"});
  if (claim == nullptr || !claim->is_object()) return "";
  return fmt::format("{}/{}", claim->get_string("namespace").value_or(""),
                     claim->get_string("name").value_or(""));
}

}  // namespace

MOOR_KIND(
    PersistentVolume, .version = kVersion, .kind = "PersistentVolume", .plural = "persistentvolumes",
    .singular = "persistentvolume", .short_names = {"pv"}, .namespaced = false,
    .columns = {{.name = "Capacity", .path = ".spec.capacity.storage", .description = "How much it holds."},
                {.name = "Access Modes", .description = "How it can be mounted.", .cell = volume_modes_cell},
                {.name = "Reclaim Policy",
                 .path = ".spec.persistentVolumeReclaimPolicy",
                 .description = "What happens when the claim is gone."},
                {.name = "Status", .description = "Whether it is bound.", .cell = volume_status_cell},
                {.name = "Claim", .description = "Claim it is bound to.", .cell = claim_cell},
                {.name = "StorageClass", .path = ".spec.storageClassName", .description = "Storage class."},
                {.name = "Reason", .path = ".status.reason", .description = "Why it is in this state."},
                age_column(),
                {.name = "VolumeMode",
                 .path = ".spec.volumeMode",
                 .description = "Filesystem or Block.",
                 .priority = 1}},
    .strategic_patch = true, .check = typed_check<PersistentVolume, validate_persistent_volume>,
    .check_update = typed_check_update<PersistentVolume, validate_persistent_volume_update>)

Causes validate_persistent_volume(const PersistentVolume& volume) {
  Causes causes;
  if (volume.spec.access_modes.empty()) causes.push_back(required("spec.accessModes"));
  if (volume.spec.capacity.empty()) causes.push_back(required("spec.capacity"));
  static const std::vector<std::string_view> kModes = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany",
                                                       "ReadWriteOncePod"};
  for (const std::string& mode : volume.spec.access_modes)
    if (std::find(kModes.begin(), kModes.end(), mode) == kModes.end())
      causes.push_back(not_supported("spec.accessModes", mode, kModes));
  return causes;
}

Causes validate_persistent_volume_update(const PersistentVolume& before, const PersistentVolume& after) {
  Causes causes;
  const auto handle = [](const PersistentVolume& volume) {
    return volume.spec.csi ? fmt::format("{}/{}", volume.spec.csi->driver, volume.spec.csi->volume_handle)
                           : "";
  };
  if (handle(before) != handle(after))
    causes.push_back(forbidden("spec.persistentvolumesource", "the source of a volume cannot change"));
  if (!before.spec.volume_mode.empty() && before.spec.volume_mode != after.spec.volume_mode)
    causes.push_back(immutable("spec.volumeMode", after.spec.volume_mode));
  return causes;
}

}  // namespace moor::model::core
