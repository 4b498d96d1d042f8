// A CSI driver and what it needs from Kubernetes: whether volumes must be attached before they are mounted,
// above all.
#pragma once

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/storage/group.h"

namespace moor::model::storage {

struct CSIDriverSpec {
  std::optional<bool> attach_required = {};
  std::optional<bool> pod_info_on_mount = {};
  std::vector<std::string> volume_lifecycle_modes = {};
  std::optional<bool> storage_capacity = {};
  std::optional<std::string> fs_group_policy = {};
  Json token_requests = {};
  std::optional<bool> requires_republish = {};
  std::optional<bool> se_linux_mount = {};
  Json extra = {};
};
MOOR_DESCRIBED(CSIDriverSpec);

struct CSIDriver {
  ObjectMeta metadata = {};
  CSIDriverSpec spec = {};
};
MOOR_DESCRIBED_KIND(CSIDriver);

}  // namespace moor::model::storage
