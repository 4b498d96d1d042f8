// One copy of a volume's data, in a directory of one disk. Whether it is in step with the others is said by
// the Grant.
#pragma once

#include "model/kind.h"
#include "model/longhorn/instance.h"

namespace moor::model::longhorn {

struct ReplicaSpec : InstanceSpec {
  std::string engine_name = {};
  std::string migration_engine_name = {};
  std::string healthy_at = {};
  std::string failed_at = {};
  std::string last_healthy_at = {};
  std::string last_failed_at = {};
  std::string disk_id = {};
  std::string disk_path = {};
  std::string data_directory_name = {};
  std::string backing_image = {};
  bool active = false;
  std::string hard_node_affinity = {};
  bool eviction_requested = false;
  bool revision_counter_disabled = false;
  bool unmap_mark_disk_chain_removed_enabled = false;
  std::int32_t rebuild_retry_count = 0;
  std::int32_t snapshot_max_count = 0;
  std::int64_t snapshot_max_size = 0;
};
MOOR_DESCRIBED(ReplicaSpec);

struct ReplicaStatus : InstanceStatus {
  // Beyond Longhorn: what the replica itself has stored.
  std::int64_t epoch = 0;
  std::int64_t generation = 0;
  std::int64_t used_bytes = 0;
};
MOOR_DESCRIBED(ReplicaStatus);

struct Replica {
  ObjectMeta metadata = {};
  ReplicaSpec spec = {};
  ReplicaStatus status = {};
};
MOOR_DESCRIBED_KIND(Replica);

}  // namespace moor::model::longhorn
