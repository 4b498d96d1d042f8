// The engine of a volume on one node: takes reads and writes and keeps the replicas in step. Which engine may
// write is said by the Grant, not here; this object wants a process and reports what it sees.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/instance.h"

namespace moor::model::longhorn {

enum class ReplicaMode { none, rw, wo, err };
MOOR_ENUM_NAMES(ReplicaMode, "", "RW", "WO", "ERR")

struct EngineBackupStatus {
  std::int32_t progress = 0;
  std::string backup_url = {};
  std::string error = {};
  std::string snapshot_name = {};
  std::string state = {};
  std::string replica_address = {};
};
MOOR_DESCRIBED(EngineBackupStatus);

struct RestoreStatus {
  bool is_restoring = false;
  std::string last_restored = {};
  std::string current_restoring_backup = {};
  std::int32_t progress = 0;
  std::string error = {};
  std::string filename = {};
  std::string state = {};
  std::string backup_url = {};
};
MOOR_DESCRIBED(RestoreStatus);

struct PurgeStatus {
  std::string error = {};
  bool is_purging = false;
  std::int32_t progress = 0;
  std::string state = {};
};
MOOR_DESCRIBED(PurgeStatus);

struct RebuildStatus {
  std::string error = {};
  bool is_rebuilding = false;
  std::int32_t progress = 0;
  std::string state = {};
  std::string from_replica_address = {};
  std::vector<std::string> from_replica_address_list = {};
  std::int64_t applied_rebuilding_mbps = 0;
};
MOOR_DESCRIBED(RebuildStatus);

struct SnapshotCloneStatus {
  bool is_cloning = false;
  std::string error = {};
  std::int32_t progress = 0;
  std::string state = {};
  std::string from_replica_address = {};
  std::string snapshot_name = {};
};
MOOR_DESCRIBED(SnapshotCloneStatus);

struct SnapshotInfo {
  std::string name = {};
  std::string parent = {};
  std::map<std::string, bool> children = {};
  bool removed = false;
  bool user_created = false;
  std::string created = {};
  std::string size = {};
  std::map<std::string, std::string> labels = {};
};
MOOR_DESCRIBED(SnapshotInfo);

struct EngineSpec : InstanceSpec {
  Frontend frontend = Frontend::none;
  std::map<std::string, std::string> replica_address_map = {};
  std::map<std::string, std::string> upgraded_replica_address_map = {};
  std::string backup_volume = {};
  std::string requested_backup_restore = {};
  std::string requested_data_source = {};
  bool disable_frontend = false;
  bool revision_counter_disabled = false;
  bool unmap_mark_snap_chain_removed_enabled = false;
  bool active = false;
  std::int32_t snapshot_max_count = 0;
  std::int64_t snapshot_max_size = 0;
  // Beyond Longhorn: moves (docs/decisions/0300).
  bool peer_listen = false;         // a standby may come to this engine
  std::string standby_source = {};  // where a standby finds the engine that it follows
  std::int64_t ready_epoch = 0;     // the standby epoch that may be made active
  bool activate_requested = false;  // somebody asks the standby to take over
  std::int64_t hold_epoch = 0;      // keep clients when this standby epoch becomes active; 0: no hold
  std::int64_t epoch = 0;           // the latest epoch that was granted to this engine, used or not
  std::int64_t last_served = 0;     // a write above this epoch makes this engine's clients open again
};
MOOR_DESCRIBED(EngineSpec);

struct EngineStatus : InstanceStatus {
  std::int64_t current_size = 0;
  std::map<std::string, std::string> current_replica_address_map = {};
  std::map<std::string, ReplicaMode> replica_mode_map = {};
  std::map<std::string, std::string> replica_transition_time_map = {};
  std::string endpoint = {};
  std::string last_restored_backup = {};
  std::map<std::string, EngineBackupStatus> backup_status = {};
  std::map<std::string, RestoreStatus> restore_status = {};
  std::map<std::string, PurgeStatus> purge_status = {};
  std::map<std::string, RebuildStatus> rebuild_status = {};
  std::map<std::string, SnapshotCloneStatus> clone_status = {};
  std::map<std::string, SnapshotInfo> snapshots = {};
  std::string snapshots_error = {};
  bool is_expanding = false;
  std::string last_expansion_error = {};
  std::string last_expansion_failed_at = {};
  bool unmap_mark_snap_chain_removed_enabled = false;
  std::int32_t snapshot_max_count = 0;
  std::int64_t snapshot_max_size = 0;
  // Beyond Longhorn: which process this is, so that nothing it said is taken for the word of another (S3,
  // S43).
  std::int64_t epoch = 0;
  bool standby = false;
  std::int64_t holding = 0;  // standby epoch for which clients are kept; 0: none
  std::string export_id = {};
  std::string nbd_uri = {};  // where programs of the node reach it without the device
  std::optional<Time> snapshots_reported_at = {};
};
MOOR_DESCRIBED(EngineStatus);

struct Engine {
  ObjectMeta metadata = {};
  EngineSpec spec = {};
  EngineStatus status = {};
};
MOOR_DESCRIBED_KIND(Engine);

}  // namespace moor::model::longhorn
