#include "model/snapshot/volume_snapshot_class.h"

#include "model/make_kind.h"

namespace moor::model::snapshot {

MOOR_DESCRIBE(VolumeSnapshotClass, "A class of snapshots.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "VolumeSnapshotClass");
  f.add("metadata", &VolumeSnapshotClass::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("driver", &VolumeSnapshotClass::driver, "Driver that takes the snapshots.").required().immutable();
  f.add("parameters", &VolumeSnapshotClass::parameters, "Parameters for the driver.").immutable();
  f.add("deletionPolicy", &VolumeSnapshotClass::deletion_policy,
        "Whether a snapshot itself goes with its object.")
      .required()
      .one_of({"Delete", "Retain"})
      .immutable();
  f.preserve(&VolumeSnapshotClass::extra);
}

MOOR_KIND(VolumeSnapshotClass, .group = kGroup, .version = kVersion, .kind = "VolumeSnapshotClass",
          .plural = "volumesnapshotclasses", .singular = "volumesnapshotclass",
          .short_names = {"vsclass", "vsclasses"}, .namespaced = false, .has_status = false, .custom = true,
          .columns = {
              {.name = "Driver", .path = ".driver", .description = "Driver that takes the snapshots."},
              {.name = "DeletionPolicy",
               .path = ".deletionPolicy",
               .description = "Whether a snapshot goes with its object."},
              age_column()})

}  // namespace moor::model::snapshot
