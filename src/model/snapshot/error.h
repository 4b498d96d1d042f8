// What went wrong while a snapshot was made; shared by the kinds of the group.
#pragma once

#include <optional>
#include <string>

#include "model/codec.h"
#include "model/time.h"

namespace moor::model::snapshot {

struct VolumeSnapshotError {
  std::optional<Time> time = {};
  std::optional<std::string> message = {};
};
MOOR_DESCRIBED(VolumeSnapshotError);

}  // namespace moor::model::snapshot
