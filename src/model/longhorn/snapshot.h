// A snapshot of a volume, asked for by a person or program, or made known by the engine that has it.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

struct SnapshotSpec {
  std::string volume = {};
  bool create_snapshot = false;
  std::map<std::string, std::string> labels = {};
};
MOOR_DESCRIBED(SnapshotSpec);

struct SnapshotStatus {
  std::string parent = {};
  std::map<std::string, bool> children = {};
  bool mark_removed = false;
  bool user_created = false;
  std::string creation_time = {};
  std::int64_t size = 0;
  std::map<std::string, std::string> labels = {};
  std::string owner_id = {};
  std::string error = {};
  std::int64_t restore_size = 0;
  bool ready_to_use = false;
  std::string checksum = {};
};
MOOR_DESCRIBED(SnapshotStatus);

struct Snapshot {
  ObjectMeta metadata = {};
  SnapshotSpec spec = {};
  SnapshotStatus status = {};
};
MOOR_DESCRIBED_KIND(Snapshot);

// spec and the label `longhornvolume` stay as they were made; other labels may change.
Causes validate_snapshot_update(const Snapshot& before, const Snapshot& after);
// The entries of spec.labels that are valid as metadata.labels, so that `kubectl delete -l` finds the
// snapshot.
std::map<std::string, std::string> selectable_labels(const SnapshotSpec& spec);

}  // namespace moor::model::longhorn
