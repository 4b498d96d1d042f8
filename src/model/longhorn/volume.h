// A block volume: what is wanted of it, where it is to be attached, and what has become of it. spec.nodeID
// and spec.migrationNodeID are written by the attachment rules only; people ask through VolumeAttachment
// tickets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/longhorn/share_state.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"
#include "model/mooring/grant.h"

namespace moor::model::longhorn {

enum class VolumeState { none, creating, attached, detached, attaching, detaching, deleting };
MOOR_ENUM_NAMES(VolumeState, "", "creating", "attached", "detached", "attaching", "detaching", "deleting")

enum class Robustness { none, healthy, degraded, faulted, unknown };
MOOR_ENUM_NAMES(Robustness, "", "healthy", "degraded", "faulted", "unknown")

enum class Frontend { none, blockdev, iscsi, nvmf, ublk };
MOOR_ENUM_NAMES(Frontend, "", "blockdev", "iscsi", "nvmf", "ublk")

enum class AccessMode { none, rwo, rwop, rwx, rox };
MOOR_ENUM_NAMES(AccessMode, "", "rwo", "rwop", "rwx", "rox")

enum class DataLocality { none, disabled, best_effort, strict_local };
MOOR_ENUM_NAMES(DataLocality, "", "disabled", "best-effort", "strict-local")

// v1 is our own block engine; rbd puts the volume on a Ceph cluster.
enum class DataEngine { none, v1, v2, rbd };
MOOR_ENUM_NAMES(DataEngine, "", "v1", "v2", "rbd")

// "ignored" leaves the choice to the setting of the same name.
enum class Toggle { none, ignored, enabled, disabled };
MOOR_ENUM_NAMES(Toggle, "", "ignored", "enabled", "disabled")

enum class SnapshotDataIntegrity { none, ignored, disabled, enabled, fast_check };
MOOR_ENUM_NAMES(SnapshotDataIntegrity, "", "ignored", "disabled", "enabled", "fast-check")

enum class ReplicaAutoBalance { none, ignored, disabled, least_effort, best_effort };
MOOR_ENUM_NAMES(ReplicaAutoBalance, "", "ignored", "disabled", "least-effort", "best-effort")

enum class CloneMode { none, full_copy, linked_clone };
MOOR_ENUM_NAMES(CloneMode, "", "full-copy", "linked-clone")

enum class CloneState { none, initiated, copy_completed_awaiting_healthy, completed, failed };
MOOR_ENUM_NAMES(CloneState, "", "initiated", "copy-completed-awaiting-healthy", "completed", "failed")

// Where a move stands. It ends on exactly one side; the record decides after any crash.
enum class MovePhase { none, preparing, ready, activated, confirming, rolling_back, done };
MOOR_ENUM_NAMES(MovePhase, "", "preparing", "ready", "activated", "confirming", "rolling-back", "done")

struct VolumeSpec {
  std::int64_t size = 0;
  Frontend frontend = Frontend::none;
  std::string from_backup = {};
  Toggle restore_volume_recurring_job = Toggle::none;
  std::string data_source = {};
  CloneMode clone_mode = CloneMode::none;
  DataLocality data_locality = DataLocality::none;
  std::int32_t stale_replica_timeout = 0;
  std::string node_id = {};
  std::string migration_node_id = {};
  std::string image = {};
  std::string backing_image = {};
  bool standby = false;
  std::vector<std::string> disk_selector = {};
  std::vector<std::string> node_selector = {};
  bool disable_frontend = false;
  bool revision_counter_disabled = false;
  Toggle unmap_mark_snap_chain_removed = Toggle::none;
  Toggle replica_soft_anti_affinity = Toggle::none;
  Toggle replica_zone_soft_anti_affinity = Toggle::none;
  Toggle replica_disk_soft_anti_affinity = Toggle::none;
  std::string last_attached_by = {};
  AccessMode access_mode = AccessMode::none;
  bool migratable = false;
  bool encrypted = false;
  std::int32_t number_of_replicas = 0;
  ReplicaAutoBalance replica_auto_balance = ReplicaAutoBalance::none;
  SnapshotDataIntegrity snapshot_data_integrity = SnapshotDataIntegrity::none;
  std::string backup_compression_method = {};
  DataEngine data_engine = DataEngine::none;
  std::int32_t snapshot_max_count = 0;
  std::int64_t snapshot_max_size = 0;
  Toggle freeze_filesystem_for_snapshot = Toggle::none;
  Toggle offline_rebuilding = Toggle::none;
  std::string backup_target_name = {};
  std::int64_t backup_block_size = 0;
  std::int64_t replica_rebuilding_bandwidth_limit = 0;
  std::int32_t rebuild_concurrent_sync_limit = 0;
  // Kept for manifests that were written for other engines; they have no effect here.
  std::string engine_image = {};
  std::string backend_store_driver = {};
  std::int32_t ublk_queue_depth = 0;
  std::int32_t ublk_number_of_queue = 0;
};
MOOR_DESCRIBED(VolumeSpec);

struct VolumeCloneStatus {
  std::string source_volume = {};
  std::string snapshot = {};
  CloneState state = CloneState::none;
  std::int32_t attempt_count = 0;
  std::string next_allowed_attempt_at = {};
};
MOOR_DESCRIBED(VolumeCloneStatus);

struct WorkloadStatus {
  std::string pod_name = {};
  std::string pod_status = {};
  std::string workload_name = {};
  std::string workload_type = {};
  bool operator==(const WorkloadStatus&) const = default;
};
MOOR_DESCRIBED(WorkloadStatus);

struct KubernetesStatus {
  std::string pv_name = {};
  std::string pv_status = {};
  std::string space = {};
  std::string pvc_name = {};
  std::string last_pvc_ref_at = {};
  std::vector<WorkloadStatus> workloads_status = {};
  std::string last_pod_ref_at = {};
};
MOOR_DESCRIBED(KubernetesStatus);

struct MoveStatus {
  MovePhase phase = MovePhase::none;
  std::string source_node_id = {};
  std::string destination_node_id = {};
  std::string source_ticket = {};
  std::string destination_ticket = {};
  std::int64_t destination_epoch = 0;
  // Both sides as they were granted last: activation takes the source out of the Grant, and its release must
  // be proven all the same.
  std::optional<mooring::GrantHolder> source = {};
  std::optional<mooring::GrantHolder> destination = {};
  std::int64_t source_served = 0;  // epoch in which the source's clients were served last, rollbacks apart
  std::int32_t failures = 0;       // starts of the standby in a row that came to nothing
  std::optional<Time> last_failure_at = {};
  std::optional<Time> started_at = {};
  std::optional<Time> phase_since = {};
  std::string message = {};
};
MOOR_DESCRIBED(MoveStatus);

// Starts of the engine in a row that no person asked for. They back off and stop; the cause stays visible.
struct RestartStatus {
  std::int32_t count = 0;
  std::optional<Time> last_at = {};
  std::string cause = {};
  bool operator==(const RestartStatus&) const = default;
};
MOOR_DESCRIBED(RestartStatus);

struct VolumeStatus {
  std::string owner_id = {};
  VolumeState state = VolumeState::none;
  Robustness robustness = Robustness::none;
  std::string current_node_id = {};
  std::string current_image = {};
  KubernetesStatus kubernetes_status = {};
  std::vector<Condition> conditions = {};
  std::string last_backup = {};
  std::string last_backup_at = {};
  std::string current_migration_node_id = {};
  bool frontend_disabled = false;
  bool restore_required = false;
  bool restore_initiated = false;
  VolumeCloneStatus clone_status = {};
  std::string remount_requested_at = {};
  bool expansion_required = false;
  bool is_standby = false;
  std::int64_t actual_size = 0;
  std::string last_degraded_at = {};
  std::string last_auto_salvaged_at = {};
  std::string share_endpoint = {};
  ShareManagerState share_state = ShareManagerState::none;
  std::int64_t epoch = 0;  // mirrors the Grant, for people
  std::string export_id =
      {};  // of the last start that served: another one means that clients must open again
  std::optional<MoveStatus> move = {};
  RestartStatus restarts = {};
};
MOOR_DESCRIBED(VolumeStatus);

struct Volume {
  ObjectMeta metadata = {};
  VolumeSpec spec = {};
  VolumeStatus status = {};
};
MOOR_DESCRIBED_KIND(Volume);

// Condition types.
inline constexpr std::string_view kVolumeScheduled = "Scheduled";
inline constexpr std::string_view kVolumeRestore = "Restore";
inline constexpr std::string_view kVolumeTooManySnapshots = "TooManySnapshots";
// Since when the volume is being opened or closed, and what that waits for.
inline constexpr std::string_view kVolumeOpening = "Opening";
inline constexpr std::string_view kVolumeClosing = "Closing";
// While a move is under way: its phase as the reason, what it waits for as the message.
inline constexpr std::string_view kVolumeMoving = "Moving";

// The rules that need nothing but the object itself.
Causes validate_volume(const Volume& volume);
Causes validate_volume_update(const Volume& before, const Volume& after);

}  // namespace moor::model::longhorn
