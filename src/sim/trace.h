// What a commit changed, for people who read a trace.
#pragma once

#include <string>

#include "sim/reality.h"

namespace moor::sim {

// " spec.nodeID: node-1 → node-2, status.state: …": leaves of spec and status, and the deletion.
std::string describe_change(const Change& change);

}  // namespace moor::sim
