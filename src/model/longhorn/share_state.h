// The state of an NFS share, which both the ShareManager and its Volume report.
#pragma once

#include "model/enum.h"

namespace moor::model::longhorn {

enum class ShareManagerState { none, unknown, starting, running, stopping, stopped, error };
MOOR_ENUM_NAMES(ShareManagerState, "", "unknown", "starting", "running", "stopping", "stopped", "error")

}  // namespace moor::model::longhorn
