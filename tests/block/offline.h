// What lies in the directory of a replica that nobody serves, read by the replica's own code without a
// server: the volume, or the volume as of a snapshot. Changes nothing there (a snapshot is looked at in a
// copy).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/replica_model.h"

namespace moor::block::e2e {

// One number per 512 bytes (replica_model.h).
Result<std::vector<Tag>> read_offline(const std::string& directory);
// `scratch`: where the copy is made; removed again.
Result<std::vector<Tag>> read_snapshot_offline(const std::string& directory, const std::string& snapshot,
                                               const std::string& scratch);
// Names of the snapshots that are there and not marked removed, oldest first.
Result<std::vector<std::string>> snapshots_offline(const std::string& directory);

}  // namespace moor::block::e2e
