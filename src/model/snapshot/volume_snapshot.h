// A user's request for a snapshot of a claim.
#pragma once

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/quantity.h"
#include "model/snapshot/error.h"
#include "model/snapshot/group.h"

namespace moor::model::snapshot {

struct VolumeSnapshotSource {
  std::optional<std::string> persistent_volume_claim_name = {};
  std::optional<std::string> volume_snapshot_content_name = {};
};
MOOR_DESCRIBED(VolumeSnapshotSource);

struct VolumeSnapshotSpec {
  VolumeSnapshotSource source = {};
  std::optional<std::string> volume_snapshot_class_name = {};
  Json extra = {};
};
MOOR_DESCRIBED(VolumeSnapshotSpec);

struct VolumeSnapshotStatus {
  std::optional<std::string> bound_volume_snapshot_content_name = {};
  std::optional<Time> creation_time = {};
  std::optional<bool> ready_to_use = {};
  std::optional<Quantity> restore_size = {};
  std::optional<VolumeSnapshotError> error = {};
  std::optional<std::string> volume_group_snapshot_name = {};
  Json extra = {};
};
MOOR_DESCRIBED(VolumeSnapshotStatus);

struct VolumeSnapshot {
  ObjectMeta metadata = {};
  VolumeSnapshotSpec spec = {};
  std::optional<VolumeSnapshotStatus> status = {};
};
MOOR_DESCRIBED_KIND(VolumeSnapshot);

Causes validate_volume_snapshot(const VolumeSnapshot& snapshot);

}  // namespace moor::model::snapshot
