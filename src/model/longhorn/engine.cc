#include "model/longhorn/engine.h"

#include "model/longhorn/describe_instance.h"
#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(EngineBackupStatus, "How far a backup has come.") {
  f.add("progress", &EngineBackupStatus::progress, "Percent done.");
  f.add("backupURL", &EngineBackupStatus::backup_url, "Where the backup is stored.").omit_empty();
  f.add("error", &EngineBackupStatus::error, "What went wrong.").omit_empty();
  f.add("snapshotName", &EngineBackupStatus::snapshot_name, "Snapshot that is backed up.");
  f.add("state", &EngineBackupStatus::state, "State of the backup.");
  f.add("replicaAddress", &EngineBackupStatus::replica_address, "Replica that the backup reads from.");
}

MOOR_DESCRIBE(RestoreStatus, "How far a restore has come on one replica.") {
  f.add("isRestoring", &RestoreStatus::is_restoring, "Whether a restore is under way.");
  f.add("lastRestored", &RestoreStatus::last_restored, "Backup that was restored last.");
  f.add("currentRestoringBackup", &RestoreStatus::current_restoring_backup, "Backup that is being restored.");
  f.add("progress", &RestoreStatus::progress, "Percent done.").omit_empty();
  f.add("error", &RestoreStatus::error, "What went wrong.").omit_empty();
  f.add("filename", &RestoreStatus::filename, "File that is written.").omit_empty();
  f.add("state", &RestoreStatus::state, "State of the restore.");
  f.add("backupURL", &RestoreStatus::backup_url, "Where the backup is stored.");
}

MOOR_DESCRIBE(PurgeStatus, "How far the removal of snapshots has come on one replica.") {
  f.add("error", &PurgeStatus::error, "What went wrong.");
  f.add("isPurging", &PurgeStatus::is_purging, "Whether a purge is under way.");
  f.add("progress", &PurgeStatus::progress, "Percent done.");
  f.add("state", &PurgeStatus::state, "State of the purge.");
}

MOOR_DESCRIBE(RebuildStatus, "How far the rebuild of one replica has come.") {
  f.add("error", &RebuildStatus::error, "What went wrong.");
  f.add("isRebuilding", &RebuildStatus::is_rebuilding, "Whether a rebuild is under way.");
  f.add("progress", &RebuildStatus::progress, "Percent done.");
  f.add("state", &RebuildStatus::state, "State of the rebuild.");
  f.add("fromReplicaAddress", &RebuildStatus::from_replica_address,
        "Replica that is copied from (old form).");
  f.add("fromReplicaAddressList", &RebuildStatus::from_replica_address_list,
        "Replicas that are copied from.");
  f.add("appliedRebuildingMBps", &RebuildStatus::applied_rebuilding_mbps, "Rate limit in MB/s; 0: none.");
}

MOOR_DESCRIBE(SnapshotCloneStatus, "How far the copying of a clone has come.") {
  f.add("isCloning", &SnapshotCloneStatus::is_cloning, "Whether a copy is under way.");
  f.add("error", &SnapshotCloneStatus::error, "What went wrong.");
  f.add("progress", &SnapshotCloneStatus::progress, "Percent done.");
  f.add("state", &SnapshotCloneStatus::state, "State of the copy.");
  f.add("fromReplicaAddress", &SnapshotCloneStatus::from_replica_address, "Replica that is copied from.");
  f.add("snapshotName", &SnapshotCloneStatus::snapshot_name, "Snapshot that is copied.");
}

MOOR_DESCRIBE(SnapshotInfo, "One snapshot in the chain, as the engine sees it.") {
  f.add("name", &SnapshotInfo::name, "Name of the snapshot.");
  f.add("parent", &SnapshotInfo::parent, "Snapshot before this one; empty for the first.");
  f.add("children", &SnapshotInfo::children,
        "Snapshots after this one; volume-head is what is being written.");
  f.add("removed", &SnapshotInfo::removed, "Whether it is marked to be merged away.");
  f.add("usercreated", &SnapshotInfo::user_created, "Whether someone asked for it, rather than a rebuild.");
  f.add("created", &SnapshotInfo::created, "When it was taken.");
  f.add("size", &SnapshotInfo::size, "Bytes that only this snapshot holds.");
  f.add("labels", &SnapshotInfo::labels, "Labels given when it was taken.");
}

MOOR_DESCRIBE(EngineSpec, "What is wanted of the engine.") {
  add_instance_spec(f);
  f.add("frontend", &EngineSpec::frontend, "How the volume appears on the node.");
  f.add("replicaAddressMap", &EngineSpec::replica_address_map,
        "Replicas and where they are reached, by name.")
      .omit_empty(false);
  f.add("upgradedReplicaAddressMap", &EngineSpec::upgraded_replica_address_map,
        "Replicas of a newer version, by name.");
  f.add("backupVolume", &EngineSpec::backup_volume, "Volume in the backup store that is restored.");
  f.add("requestedBackupRestore", &EngineSpec::requested_backup_restore, "Backup that is to be restored.");
  f.add("requestedDataSource", &EngineSpec::requested_data_source, "Where a clone is to be copied from.");
  f.add("disableFrontend", &EngineSpec::disable_frontend, "Run without any device, for maintenance.");
  f.add("revisionCounterDisabled", &EngineSpec::revision_counter_disabled,
        "Accepted for old manifests; has no effect.");
  f.add("unmapMarkSnapChainRemovedEnabled", &EngineSpec::unmap_mark_snap_chain_removed_enabled,
        "Whether trimming also frees blocks held by the latest snapshots.");
  f.add("active", &EngineSpec::active,
        "Whether this is the engine in use; the destination of a move is not, yet.");
  f.add("snapshotMaxCount", &EngineSpec::snapshot_max_count, "Most snapshots the volume may have.");
  f.add("snapshotMaxSize", &EngineSpec::snapshot_max_size,
        "Most bytes of all snapshots together, written as a string.")
      .as_string();
  f.add("peerListen", &EngineSpec::peer_listen, "Whether a standby may come to this engine.");
  f.add("standbySource", &EngineSpec::standby_source, "Where a standby finds the engine that it follows.");
  f.add("readyEpoch", &EngineSpec::ready_epoch, "Epoch of the standby that may be made active.");
  f.add("activateRequested", &EngineSpec::activate_requested,
        "Whether somebody asks the standby to take over.");
  f.add("holdEpoch", &EngineSpec::hold_epoch,
        "Standby epoch whose activation must not cost this engine its clients.");
  f.add("epoch", &EngineSpec::epoch, "Latest epoch that was granted to this engine.");
  f.add("lastServed", &EngineSpec::last_served,
        "A write above this epoch makes the clients of this engine open again.");
}

MOOR_DESCRIBE(EngineStatus, "What is known of the engine.") {
  add_instance_status(f);
  f.add("currentSize", &EngineStatus::current_size, "Capacity that the engine serves, written as a string.")
      .as_string();
  f.add("currentReplicaAddressMap", &EngineStatus::current_replica_address_map,
        "Replicas in use and where they are.")
      .atomic()
      .omit_empty(false);
  f.add("replicaModeMap", &EngineStatus::replica_mode_map,
        "Mode of each replica: RW in step, WO being rebuilt, ERR failed.")
      .atomic()
      .omit_empty(false);
  f.add("replicaTransitionTimeMap", &EngineStatus::replica_transition_time_map,
        "When each replica's mode last changed.")
      .atomic()
      .omit_empty(false);
  f.add("endpoint", &EngineStatus::endpoint, "Device or address where the volume is used.").omit_empty(false);
  f.add("lastRestoredBackup", &EngineStatus::last_restored_backup, "Backup that was restored last.");
  f.add("backupStatus", &EngineStatus::backup_status, "Backups under way, by name.");
  f.add("restoreStatus", &EngineStatus::restore_status, "Restore on each replica.");
  f.add("purgeStatus", &EngineStatus::purge_status, "Removal of snapshots on each replica.");
  f.add("rebuildStatus", &EngineStatus::rebuild_status, "Rebuild of each replica.");
  f.add("cloneStatus", &EngineStatus::clone_status, "Copying of a clone on each replica.");
  f.add("snapshots", &EngineStatus::snapshots,
        "The chain of snapshots, by name, with volume-head at its end.")
      .atomic()
      .omit_empty(false);
  f.add("snapshotsError", &EngineStatus::snapshots_error, "Why the chain could not be read.");
  f.add("isExpanding", &EngineStatus::is_expanding, "Whether the volume is growing.");
  f.add("lastExpansionError", &EngineStatus::last_expansion_error, "Why the last expansion failed.");
  f.add("lastExpansionFailedAt", &EngineStatus::last_expansion_failed_at, "When the last expansion failed.");
  f.add("unmapMarkSnapChainRemovedEnabled", &EngineStatus::unmap_mark_snap_chain_removed_enabled,
        "Whether trimming also frees blocks held by the latest snapshots.");
  f.add("snapshotMaxCount", &EngineStatus::snapshot_max_count, "Most snapshots the engine allows.");
  f.add("snapshotMaxSize", &EngineStatus::snapshot_max_size,
        "Most bytes of snapshots the engine allows, as a string.")
      .as_string();
  f.add("epoch", &EngineStatus::epoch, "Epoch of the running process; each start takes a new one.")
      .omit_empty(false);
  f.add("standby", &EngineStatus::standby, "Whether the process waits to take over and does not write.");
  f.add("holding", &EngineStatus::holding,
        "Standby epoch for which clients are kept when it becomes active.");
  f.add("exportID", &EngineStatus::export_id,
        "Identity of the export; clients of another one must open again.")
      .omit_empty(false);
  f.add("nbdURI", &EngineStatus::nbd_uri, "NBD export of the process, for programs of its node.")
      .omit_empty(false);
  f.add("snapshotsReportedAt", &EngineStatus::snapshots_reported_at,
        "When this process last reported its chain; absent since it started: it has not.");
}

MOOR_DESCRIBE(Engine, "The process that serves a volume on a node.") {
  f.type_meta(kApiVersion, "Engine");
  f.add("metadata", &Engine::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Engine::spec, "What is wanted of the engine.");
  f.add("status", &Engine::status, "What is known of the engine.");
}

MOOR_KIND(
    Engine, .group = kGroup, .version = kVersion, .kind = "Engine", .plural = "engines", .singular = "engine",
    .short_names = {"lhe"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "Data Engine", .path = ".spec.dataEngine", .description = "What keeps the data."},
                {.name = "State", .path = ".status.currentState", .description = "State of the process."},
                {.name = "Node", .path = ".spec.nodeID", .description = "Node it runs on."},
                {.name = "InstanceManager",
                 .path = ".status.instanceManagerName",
                 .description = "Agent that runs the process."},
                {.name = "Image", .path = ".status.currentImage", .description = "Version of the program."},
                age_column()},
    .selectable_fields = {"spec.nodeID", "spec.volumeName"})

}  // namespace moor::model::longhorn
