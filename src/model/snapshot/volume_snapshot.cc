#include "model/snapshot/volume_snapshot.h"

#include "model/make_kind.h"

namespace moor::model::snapshot {

MOOR_DESCRIBE(VolumeSnapshotError, "What went wrong.") {
  f.omit_empty();
  f.add("time", &VolumeSnapshotError::time, "When.");
  f.add("message", &VolumeSnapshotError::message, "What, in a sentence.");
}

MOOR_DESCRIBE(VolumeSnapshotSource, "Where the snapshot comes from: exactly one of these.") {
  f.omit_empty();
  f.add("persistentVolumeClaimName", &VolumeSnapshotSource::persistent_volume_claim_name,
        "Claim to take a new snapshot of.");
  f.add("volumeSnapshotContentName", &VolumeSnapshotSource::volume_snapshot_content_name,
        "Content that stands for a snapshot that exists already.");
}

MOOR_DESCRIBE(VolumeSnapshotSpec, "What the snapshot is asked to be.") {
  f.omit_empty();
  f.add("source", &VolumeSnapshotSpec::source, "Where the snapshot comes from.").required().immutable();
  f.add("volumeSnapshotClassName", &VolumeSnapshotSpec::volume_snapshot_class_name,
        "Snapshot class; absent takes the default one.");
  f.preserve(&VolumeSnapshotSpec::extra);
}

MOOR_DESCRIBE(VolumeSnapshotStatus, "What is known of the snapshot.") {
  f.omit_empty();
  f.add("boundVolumeSnapshotContentName", &VolumeSnapshotStatus::bound_volume_snapshot_content_name,
        "Content that it is bound to.");
  f.add("creationTime", &VolumeSnapshotStatus::creation_time, "When the snapshot was taken.");
  f.add("readyToUse", &VolumeSnapshotStatus::ready_to_use, "Whether a claim can be made from it.");
  f.add("restoreSize", &VolumeSnapshotStatus::restore_size, "Smallest claim that can hold the content.");
  f.add("error", &VolumeSnapshotStatus::error, "What went wrong.");
  f.add("volumeGroupSnapshotName", &VolumeSnapshotStatus::volume_group_snapshot_name,
        "Group snapshot it is part of.");
  f.preserve(&VolumeSnapshotStatus::extra);
}

MOOR_DESCRIBE(VolumeSnapshot, "A user's request for a snapshot of a claim.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "VolumeSnapshot");
  f.add("metadata", &VolumeSnapshot::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &VolumeSnapshot::spec, "What the snapshot is asked to be.").required();
  f.add("status", &VolumeSnapshot::status, "What is known of the snapshot.");
}

MOOR_KIND(VolumeSnapshot, .group = kGroup, .version = kVersion, .kind = "VolumeSnapshot",
          .plural = "volumesnapshots", .singular = "volumesnapshot", .short_names = {"vs"}, .custom = true,
          .columns = {{.name = "ReadyToUse",
                       .type = "boolean",
                       .path = ".status.readyToUse",
                       .description = "Whether a claim can be made from it."},
                      {.name = "SourcePVC",
                       .path = ".spec.source.persistentVolumeClaimName",
                       .description = "Claim it was taken of."},
                      {.name = "SourceSnapshotContent",
                       .path = ".spec.source.volumeSnapshotContentName",
                       .description = "Content it stands for."},
                      {.name = "RestoreSize",
                       .path = ".status.restoreSize",
                       .description = "Smallest claim that can hold it."},
                      {.name = "SnapshotClass",
                       .path = ".spec.volumeSnapshotClassName",
                       .description = "Snapshot class."},
                      {.name = "SnapshotContent",
                       .path = ".status.boundVolumeSnapshotContentName",
                       .description = "Content it is bound to."},
                      {.name = "CreationTime",
                       .type = "date",
                       .path = ".status.creationTime",
                       .description = "When it was taken."},
                      age_column()},
          .check = typed_check<VolumeSnapshot, validate_volume_snapshot>)

Causes validate_volume_snapshot(const VolumeSnapshot& snapshot) {
  const VolumeSnapshotSource& source = snapshot.spec.source;
  if (source.persistent_volume_claim_name.has_value() == source.volume_snapshot_content_name.has_value())
    return {invalid("spec.source", encode(source),
                    "exactly one of persistentVolumeClaimName and volumeSnapshotContentName must be set")};
  return {};
}

}  // namespace moor::model::snapshot
