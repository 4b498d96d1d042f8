#include "model/snapshot/volume_snapshot_content.h"

#include "model/make_kind.h"

namespace moor::model::snapshot {

MOOR_DESCRIBE(VolumeSnapshotContentSource, "What the content stands for: exactly one of these.") {
  f.omit_empty();
  f.add("volumeHandle", &VolumeSnapshotContentSource::volume_handle, "Volume to take a snapshot of.");
  f.add("snapshotHandle", &VolumeSnapshotContentSource::snapshot_handle, "Snapshot that exists already.");
}

MOOR_DESCRIBE(VolumeSnapshotContentSpec, "What the content is asked to be.") {
  f.omit_empty();
  f.add("volumeSnapshotRef", &VolumeSnapshotContentSpec::volume_snapshot_ref,
        "Snapshot object it is bound to.")
      .required();
  f.add("deletionPolicy", &VolumeSnapshotContentSpec::deletion_policy,
        "Whether the snapshot itself goes with this object.")
      .required()
      .one_of({"Delete", "Retain"});
  f.add("driver", &VolumeSnapshotContentSpec::driver, "Driver that has the snapshot.").required().immutable();
  f.add("volumeSnapshotClassName", &VolumeSnapshotContentSpec::volume_snapshot_class_name, "Snapshot class.");
  f.add("source", &VolumeSnapshotContentSpec::source, "What the content stands for.").required().immutable();
  f.add("sourceVolumeMode", &VolumeSnapshotContentSpec::source_volume_mode, "Filesystem or Block.")
      .immutable();
  f.preserve(&VolumeSnapshotContentSpec::extra);
}

MOOR_DESCRIBE(VolumeSnapshotContentStatus, "What is known of the content.") {
  f.omit_empty();
  f.add("snapshotHandle", &VolumeSnapshotContentStatus::snapshot_handle,
        "Name the driver knows the snapshot by.");
  f.add("creationTime", &VolumeSnapshotContentStatus::creation_time,
        "When it was taken, in nanoseconds since 1970.");
  f.add("restoreSize", &VolumeSnapshotContentStatus::restore_size,
        "Bytes a volume needs to hold the content.")
      .at_least(0);
  f.add("readyToUse", &VolumeSnapshotContentStatus::ready_to_use, "Whether a volume can be made from it.");
  f.add("error", &VolumeSnapshotContentStatus::error, "What went wrong.");
  f.add("volumeGroupSnapshotHandle", &VolumeSnapshotContentStatus::volume_group_snapshot_handle,
        "Group snapshot it is part of.");
  f.preserve(&VolumeSnapshotContentStatus::extra);
}

MOOR_DESCRIBE(VolumeSnapshotContent, "A snapshot as the driver knows it.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "VolumeSnapshotContent");
  f.add("metadata", &VolumeSnapshotContent::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &VolumeSnapshotContent::spec, "What the content is asked to be.").required();
  f.add("status", &VolumeSnapshotContent::status, "What is known of the content.");
}

MOOR_KIND(VolumeSnapshotContent, .group = kGroup, .version = kVersion, .kind = "VolumeSnapshotContent",
          .plural = "volumesnapshotcontents", .singular = "volumesnapshotcontent",
          .short_names = {"vsc", "vscs"}, .namespaced = false, .custom = true,
          .columns = {{.name = "ReadyToUse",
                       .type = "boolean",
                       .path = ".status.readyToUse",
                       .description = "Whether a volume can be made from it."},
                      {.name = "RestoreSize",
                       .type = "integer",
                       .path = ".status.restoreSize",
                       .description = "Bytes a volume needs."},
                      {.name = "DeletionPolicy",
                       .path = ".spec.deletionPolicy",
                       .description = "Whether the snapshot goes with it."},
                      {.name = "Driver", .path = ".spec.driver", .description = "Driver that has it."},
                      {.name = "VolumeSnapshotClass",
                       .path = ".spec.volumeSnapshotClassName",
                       .description = "Snapshot class."},
                      {.name = "VolumeSnapshot",
                       .path = ".spec.volumeSnapshotRef.name",
                       .description = "Snapshot object it is bound to."},
                      {.name = "VolumeSnapshotNamespace",
                       .path = ".spec.volumeSnapshotRef.namespace",
                       .description = "Namespace of that object."},
                      age_column()},
          .check = typed_check<VolumeSnapshotContent, validate_volume_snapshot_content>)

Causes validate_volume_snapshot_content(const VolumeSnapshotContent& content) {
  const VolumeSnapshotContentSource& source = content.spec.source;
  if (source.volume_handle.has_value() == source.snapshot_handle.has_value())
    return {
        invalid("spec.source", encode(source), "exactly one of volumeHandle and snapshotHandle must be set")};
  return {};
}

}  // namespace moor::model::snapshot
