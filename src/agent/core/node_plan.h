// What an agent says about its node, and which life of the node this is. Pure.
#pragma once

#include "agent/core/replica_plan.h"
#include "model/core/node.h"
#include "model/longhorn/node.h"

namespace moor::agent {

struct NodeOptions {
  std::string name;
  std::string address;
  std::string zone;
  std::string region;
  std::string default_disk;  // a directory
};

// What is on disk about the node, so that a restored or lost API object cannot turn its lives back.
struct Lives {
  std::int64_t incarnation = 0;
  std::string boot_id;
  bool operator==(const Lives&) const = default;
};

// A new kernel boot is a new life: nothing of the old one runs any more. The same boot is the same life, also
// when the agent has forgotten it.
Lives current_life(const Lives& recorded, const Lives& told, const std::string& boot_id);
// The node is known, and this machine has never been it: another machine may be, at this moment. A machine
// that was started anew has its own record of the life before.
bool is_newcomer(const Lives& recorded, const Lives& told, const std::string& boot_id);

// A disk, looked at.
struct DiskFacts {
  std::string uuid;     // from the file on it; empty: there is none
  std::string problem;  // empty: it can be used
  std::string filesystem;
  std::int64_t available = 0;
  std::int64_t maximum = 0;
};

model::longhorn::Node first_node(const NodeOptions& options);
// Everything but the node's Ready condition and what controllers keep in the disks' status.
model::longhorn::NodeStatus node_status(const model::longhorn::Node& object, const NodeOptions& options,
                                        const Lives& life, const std::map<std::string, DiskFacts>& disks,
                                        model::Time wall);
// Labels, addresses and system information of the core Node.
void describe_core_node(model::core::Node& node, const NodeOptions& options, const std::string& boot_id,
                        const std::string& kernel);
// Why the disk of that name and uuid cannot be used; empty: it can.
std::string disk_objection(const model::longhorn::DiskStatus* known, const DiskFacts& facts);

}  // namespace moor::agent
