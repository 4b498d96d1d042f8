// What a replica tells over the control protocol (docs/control-protocol.md), as JSON. Pure.
#pragma once

#include "base/json.h"
#include "block/core/replica.h"

namespace moor::block {

Json replica_status(const Replica& replica);
Json replica_snapshots(const Replica& replica);

}  // namespace moor::block
