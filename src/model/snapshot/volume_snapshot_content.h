// The cluster's side of a snapshot: what the driver knows it by.
#pragma once

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/snapshot/error.h"
#include "model/snapshot/group.h"

namespace moor::model::snapshot {

struct VolumeSnapshotContentSource {
  std::optional<std::string> volume_handle = {};
  std::optional<std::string> snapshot_handle = {};
};
MOOR_DESCRIBED(VolumeSnapshotContentSource);

struct VolumeSnapshotContentSpec {
  ObjectReference volume_snapshot_ref = {};
  std::string deletion_policy = {};
  std::string driver = {};
  std::optional<std::string> volume_snapshot_class_name = {};
  VolumeSnapshotContentSource source = {};
  std::optional<std::string> source_volume_mode = {};
  Json extra = {};
};
MOOR_DESCRIBED(VolumeSnapshotContentSpec);

struct VolumeSnapshotContentStatus {
  std::optional<std::string> snapshot_handle = {};
  std::optional<std::int64_t> creation_time = {};  // nanoseconds since 1970
  std::optional<std::int64_t> restore_size = {};
  std::optional<bool> ready_to_use = {};
  std::optional<VolumeSnapshotError> error = {};
  std::optional<std::string> volume_group_snapshot_handle = {};
  Json extra = {};
};
MOOR_DESCRIBED(VolumeSnapshotContentStatus);

struct VolumeSnapshotContent {
  ObjectMeta metadata = {};
  VolumeSnapshotContentSpec spec = {};
  std::optional<VolumeSnapshotContentStatus> status = {};
};
MOOR_DESCRIBED_KIND(VolumeSnapshotContent);

Causes validate_volume_snapshot_content(const VolumeSnapshotContent& content);

}  // namespace moor::model::snapshot
