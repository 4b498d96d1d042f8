// A node as a place for replicas: its disks, their room, their tags. The Kubernetes Node of the same name
// says whether workloads run there.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

enum class DiskType { none, filesystem, block };
MOOR_ENUM_NAMES(DiskType, "", "filesystem", "block")

struct DiskSpec {
  DiskType type = DiskType::none;
  std::string path = {};
  std::string disk_driver = {};
  bool allow_scheduling = false;
  bool eviction_requested = false;
  std::int64_t storage_reserved = 0;
  std::vector<std::string> tags = {};
};
MOOR_DESCRIBED(DiskSpec);

struct DiskStatus {
  std::vector<Condition> conditions = {};
  std::int64_t storage_available = 0;
  std::int64_t storage_scheduled = 0;
  std::int64_t storage_maximum = 0;
  std::map<std::string, std::int64_t> scheduled_replica = {};
  std::map<std::string, std::int64_t> scheduled_backing_image = {};
  std::string disk_uuid = {};
  std::string disk_name = {};
  std::string disk_path = {};
  DiskType type = DiskType::none;
  std::string disk_driver = {};
  std::string filesystem_type = {};
  std::string instance_manager_name = {};
};
MOOR_DESCRIBED(DiskStatus);

struct NodeSpec {
  std::string name = {};
  std::map<std::string, DiskSpec> disks = {};
  bool allow_scheduling = false;
  bool eviction_requested = false;
  std::vector<std::string> tags = {};
  std::int32_t instance_manager_cpu_request = 0;
};
MOOR_DESCRIBED(NodeSpec);

struct SnapshotCheckStatus {
  std::optional<Time> last_periodic_checked_at = {};
};
MOOR_DESCRIBED(SnapshotCheckStatus);

struct NodeStatus {
  std::vector<Condition> conditions = {};
  std::map<std::string, DiskStatus> disk_status = {};
  std::string region = {};
  std::string zone = {};
  SnapshotCheckStatus snapshot_check_status = {};
  bool auto_evicting = false;
  // Beyond Longhorn: which life of the node this is. A proof from one life says nothing about another (S13).
  std::int64_t incarnation = 0;
  std::string boot_id = {};
};
MOOR_DESCRIBED(NodeStatus);

struct Node {
  ObjectMeta metadata = {};
  NodeSpec spec = {};
  NodeStatus status = {};
};
MOOR_DESCRIBED_KIND(Node);

inline constexpr std::string_view kNodeReady = "Ready";
inline constexpr std::string_view kNodeSchedulable = "Schedulable";
inline constexpr std::string_view kDiskReady = "Ready";
inline constexpr std::string_view kDiskSchedulable = "Schedulable";

Causes validate_node(const Node& node);

}  // namespace moor::model::longhorn
