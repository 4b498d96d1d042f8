// The CSI drivers that run on a node, and how many volumes each can attach there.
#pragma once

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/storage/group.h"

namespace moor::model::storage {

struct VolumeNodeResources {
  std::optional<std::int32_t> count = {};
};
MOOR_DESCRIBED(VolumeNodeResources);

struct CSINodeDriver {
  std::string name = {};
  std::string node_id = {};
  std::vector<std::string> topology_keys = {};
  std::optional<VolumeNodeResources> allocatable = {};
};
MOOR_DESCRIBED(CSINodeDriver);

struct CSINodeSpec {
  std::vector<CSINodeDriver> drivers = {};
};
MOOR_DESCRIBED(CSINodeSpec);

struct CSINode {
  ObjectMeta metadata = {};
  CSINodeSpec spec = {};
};
MOOR_DESCRIBED_KIND(CSINode);

}  // namespace moor::model::storage
