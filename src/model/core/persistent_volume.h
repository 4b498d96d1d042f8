// A PersistentVolume: the cluster's side of a piece of storage that a claim can be bound to.
#pragma once

#include <map>

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/quantity.h"

namespace moor::model::core {

struct CsiPersistentVolumeSource {
  std::string driver = {};
  std::string volume_handle = {};
  bool read_only = false;
  std::string fs_type = {};
  std::map<std::string, std::string> volume_attributes = {};
  Json extra = {};
};
MOOR_DESCRIBED(CsiPersistentVolumeSource);

struct PersistentVolumeSpec {
  std::map<std::string, Quantity> capacity = {};
  std::optional<CsiPersistentVolumeSource> csi = {};
  std::vector<std::string> access_modes = {};
  std::optional<ObjectReference> claim_ref = {};
  std::string reclaim_policy = {};
  std::string storage_class_name = {};
  std::vector<std::string> mount_options = {};
  std::string volume_mode = {};
  Json node_affinity = {};
  std::string volume_attributes_class_name = {};
  Json extra = {};
};
MOOR_DESCRIBED(PersistentVolumeSpec);

struct PersistentVolumeStatus {
  std::string phase = {};  // Pending, Available, Bound, Released, Failed
  std::string message = {};
  std::string reason = {};
  std::optional<Time> last_phase_transition_time = {};
  Json extra = {};
};
MOOR_DESCRIBED(PersistentVolumeStatus);

struct PersistentVolume {
  ObjectMeta metadata = {};
  PersistentVolumeSpec spec = {};
  PersistentVolumeStatus status = {};
};
MOOR_DESCRIBED_KIND(PersistentVolume);

Causes validate_persistent_volume(const PersistentVolume& volume);
// The source of a volume stays what it is; only our own kind of source, CSI, is compared.
Causes validate_persistent_volume_update(const PersistentVolume& before, const PersistentVolume& after);

}  // namespace moor::model::core
