// The NFS share of an rwx volume: where it runs and in what state.
#pragma once

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/longhorn/share_state.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

struct ShareManagerSpec {
  std::string image = {};
};
MOOR_DESCRIBED(ShareManagerSpec);

struct ShareManagerStatus {
  std::string owner_id = {};
  ShareManagerState state = ShareManagerState::none;
  std::string current_image = {};
  std::string endpoint = {};
};
MOOR_DESCRIBED(ShareManagerStatus);

struct ShareManager {
  ObjectMeta metadata = {};
  ShareManagerSpec spec = {};
  ShareManagerStatus status = {};
};
MOOR_DESCRIBED_KIND(ShareManager);

}  // namespace moor::model::longhorn
