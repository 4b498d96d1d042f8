// A class of snapshots: which driver takes them, with which parameters.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/snapshot/group.h"

namespace moor::model::snapshot {

struct VolumeSnapshotClass {
  ObjectMeta metadata = {};
  std::string driver = {};
  std::map<std::string, std::string> parameters = {};
  std::string deletion_policy = {};
  Json extra = {};
};
MOOR_DESCRIBED_KIND(VolumeSnapshotClass);

}  // namespace moor::model::snapshot
