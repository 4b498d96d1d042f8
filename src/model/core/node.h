// A machine that runs workloads. The parts that attaching, placing and fencing read are typed.
#pragma once

#include <map>

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"
#include "model/quantity.h"

namespace moor::model::core {

struct Taint {
  std::string key = {};
  std::string value = {};
  std::string effect = {};
  std::optional<Time> time_added = {};
  bool operator==(const Taint&) const = default;
};
MOOR_DESCRIBED(Taint);

// An administrator's word that the machine is off: its volumes may be released.
inline constexpr std::string_view kTaintOutOfService = "node.kubernetes.io/out-of-service";

struct NodeSpec {
  bool unschedulable = false;
  std::vector<Taint> taints = {};
  std::string provider_id = {};
  Json extra = {};
};
MOOR_DESCRIBED(NodeSpec);

struct NodeCondition {
  std::string type = {};
  std::string status = {};
  std::optional<Time> last_heartbeat_time = {};
  std::optional<Time> last_transition_time = {};
  std::string reason = {};
  std::string message = {};
};
MOOR_DESCRIBED(NodeCondition);

struct NodeAddress {
  std::string type = {};
  std::string address = {};
  bool operator==(const NodeAddress&) const = default;
};
MOOR_DESCRIBED(NodeAddress);

struct AttachedVolume {
  std::string name = {};
  std::string device_path = {};
  bool operator==(const AttachedVolume&) const = default;
};
MOOR_DESCRIBED(AttachedVolume);

struct NodeSystemInfo {
  std::string machine_id = {};
  std::string system_uuid = {};
  std::string boot_id = {};
  std::string kernel_version = {};
  std::string os_image = {};
  std::string container_runtime_version = {};
  std::string kubelet_version = {};
  std::string kube_proxy_version = {};
  std::string operating_system = {};
  std::string architecture = {};
  Json extra = {};
};
MOOR_DESCRIBED(NodeSystemInfo);

struct NodeStatus {
  std::map<std::string, Quantity> capacity = {};
  std::map<std::string, Quantity> allocatable = {};
  std::string phase = {};
  std::vector<NodeCondition> conditions = {};
  std::vector<NodeAddress> addresses = {};
  NodeSystemInfo node_info = {};
  std::vector<std::string> volumes_in_use = {};
  std::vector<AttachedVolume> volumes_attached = {};
  Json extra = {};
};
MOOR_DESCRIBED(NodeStatus);

struct Node {
  ObjectMeta metadata = {};
  NodeSpec spec = {};
  NodeStatus status = {};

  bool is_ready() const;
  bool has_taint(std::string_view key) const;
};
MOOR_DESCRIBED_KIND(Node);

}  // namespace moor::model::core
