#include "model/longhorn/volume.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(VolumeSpec,
              "What is wanted of the volume. nodeID and migrationNodeID are set by the attachment rules: ask "
              "for an attachment with a ticket in the VolumeAttachment of the same name.") {
  f.add("size", &VolumeSpec::size, "Capacity in bytes, written as a string. It can only grow.")
      .as_string()
      .at_least(0);
  f.add("frontend", &VolumeSpec::frontend,
        "How the volume appears on the node it is attached to; blockdev is a block device.")
      .default_to("blockdev");
  f.add("fromBackup", &VolumeSpec::from_backup, "URL of the backup that the volume is restored from.");
  f.add("restoreVolumeRecurringJob", &VolumeSpec::restore_volume_recurring_job,
        "Whether the backup's recurring jobs are restored with it.")
      .default_to("ignored");
  f.add("dataSource", &VolumeSpec::data_source,
        "Where the first content comes from: vol://VOLUME, snap://VOLUME/SNAPSHOT, or empty.");
  f.add("cloneMode", &VolumeSpec::clone_mode,
        "How a clone gets its content: full-copy, or linked-clone, which shares the blocks of its source.");
  f.add("dataLocality", &VolumeSpec::data_locality,
        "Whether a replica is kept on the node that uses the volume.")
      .default_to("disabled");
  f.add("staleReplicaTimeout", &VolumeSpec::stale_replica_timeout,
        "Minutes after which a failed replica is removed for good.")
      .default_to(2880)
      .at_least(0);
  f.add("nodeID", &VolumeSpec::node_id,
        "Node the volume is to be attached to; empty: nowhere. Set by the attachment rules.");
  f.add("migrationNodeID", &VolumeSpec::migration_node_id,
        "Node the volume is moving to. Set by the attachment rules.");
  f.add("image", &VolumeSpec::image, "Version of the engine that serves the volume.");
  f.add("backingImage", &VolumeSpec::backing_image,
        "Name of the image that lies under the volume's own blocks.")
      .immutable();
  f.add("Standby", &VolumeSpec::standby,
        "Whether the volume follows the backups of another cluster and cannot be written yet.");
  f.add("diskSelector", &VolumeSpec::disk_selector, "Tags that a disk must have to hold a replica.");
  f.add("nodeSelector", &VolumeSpec::node_selector, "Tags that a node must have to hold a replica.");
  f.add("disableFrontend", &VolumeSpec::disable_frontend,
        "Attach the volume without any device, for maintenance. Set by the attachment rules.");
  f.add("revisionCounterDisabled", &VolumeSpec::revision_counter_disabled,
        "Accepted for old manifests; replicas always record the Grant's generation instead.");
  f.add("unmapMarkSnapChainRemoved", &VolumeSpec::unmap_mark_snap_chain_removed,
        "Whether trimming the volume also frees blocks held by the latest snapshots.")
      .default_to("ignored");
  f.add("replicaSoftAntiAffinity", &VolumeSpec::replica_soft_anti_affinity,
        "Whether two replicas may share a node.")
      .default_to("ignored");
  f.add("replicaZoneSoftAntiAffinity", &VolumeSpec::replica_zone_soft_anti_affinity,
        "Whether two replicas may share a zone.")
      .default_to("ignored");
  f.add("replicaDiskSoftAntiAffinity", &VolumeSpec::replica_disk_soft_anti_affinity,
        "Whether two replicas may share a disk.")
      .default_to("ignored");
  f.add("lastAttachedBy", &VolumeSpec::last_attached_by, "Who asked for the present or last attachment.");
  f.add("accessMode", &VolumeSpec::access_mode,
        "Who may use the volume at once: rwo one node, rwop one pod, rwx many (by NFS, or one writer that "
        "can move when migratable), rox many readers.")
      .default_to("rwo");
  f.add("migratable", &VolumeSpec::migratable,
        "Whether the volume can move between nodes while in use. Needs access mode rwx; used as a block "
        "device.");
  f.add("encrypted", &VolumeSpec::encrypted, "Whether the content is encrypted.").immutable();
  f.add("numberOfReplicas", &VolumeSpec::number_of_replicas, "How many copies are kept.")
      .default_to(3)
      .at_least(0)
      .at_most(20);
  f.add("replicaAutoBalance", &VolumeSpec::replica_auto_balance,
        "How eagerly replicas are spread again when nodes come and go.")
      .default_to("ignored");
  f.add("snapshotDataIntegrity", &VolumeSpec::snapshot_data_integrity,
        "Whether snapshots are checksummed and compared between replicas.")
      .default_to("ignored");
  f.add("backupCompressionMethod", &VolumeSpec::backup_compression_method,
        "How backups of this volume are compressed.")
      .one_of({"", "none", "lz4", "gzip", "zstd"});
  f.add("dataEngine", &VolumeSpec::data_engine,
        "What keeps the data: v1 is the replicated block engine, rbd a Ceph cluster.")
      .default_to("v1")
      .immutable();
  f.add("snapshotMaxCount", &VolumeSpec::snapshot_max_count,
        "Most snapshots the volume may have: 2 to 250; 0 takes the setting.")
      .at_least(0)
      .at_most(250);
  f.add("snapshotMaxSize", &VolumeSpec::snapshot_max_size,
        "Most bytes all snapshots together may use, written as a string; 0: no limit, else at least twice "
        "the size.")
      .as_string()
      .at_least(0);
  f.add("freezeFilesystemForSnapshot", &VolumeSpec::freeze_filesystem_for_snapshot,
        "Whether the file system is frozen while a snapshot is taken.")
      .default_to("ignored");
  f.add("offlineRebuilding", &VolumeSpec::offline_rebuilding,
        "Whether missing replicas are rebuilt while the volume is detached.")
      .default_to("ignored");
  f.add("backupTargetName", &VolumeSpec::backup_target_name,
        "Backup target that backups of this volume go to.")
      .default_to("default");
  f.add("backupBlockSize", &VolumeSpec::backup_block_size,
        "Size of the blocks of backups in bytes, written as a string; 0 takes the usual 2 MiB.")
      .as_string()
      .at_least(0)
      .omit_empty();
  f.add("replicaRebuildingBandwidthLimit", &VolumeSpec::replica_rebuilding_bandwidth_limit,
        "Most MB/s that a rebuild may use; 0 takes the setting.")
      .at_least(0)
      .omit_empty();
  f.add("rebuildConcurrentSyncLimit", &VolumeSpec::rebuild_concurrent_sync_limit,
        "How many layers a rebuild copies at once; 0 takes the setting.")
      .at_least(0)
      .at_most(5)
      .omit_empty();
  f.add("engineImage", &VolumeSpec::engine_image, "Old name of image; accepted and not used.").omit_empty();
  f.add("backendStoreDriver", &VolumeSpec::backend_store_driver,
        "Old name of dataEngine; accepted and not used.")
      .omit_empty();
  f.add("ublkQueueDepth", &VolumeSpec::ublk_queue_depth, "Accepted and not used.").omit_empty();
  f.add("ublkNumberOfQueue", &VolumeSpec::ublk_number_of_queue, "Accepted and not used.").omit_empty();
}

MOOR_DESCRIBE(VolumeCloneStatus, "How far a clone has come.") {
  f.add("sourceVolume", &VolumeCloneStatus::source_volume, "Volume that is cloned.");
  f.add("snapshot", &VolumeCloneStatus::snapshot, "Snapshot that is copied.");
  f.add("state", &VolumeCloneStatus::state, "How far the clone has come.");
  f.add("attemptCount", &VolumeCloneStatus::attempt_count, "How often it was tried.");
  f.add("nextAllowedAttemptAt", &VolumeCloneStatus::next_allowed_attempt_at, "When it may be tried again.");
}

MOOR_DESCRIBE(WorkloadStatus, "A pod that uses the volume.") {
  f.add("podName", &WorkloadStatus::pod_name, "Name of the pod.");
  f.add("podStatus", &WorkloadStatus::pod_status, "Phase of the pod.");
  f.add("workloadName", &WorkloadStatus::workload_name, "Name of the workload that the pod belongs to.");
  f.add("workloadType", &WorkloadStatus::workload_type, "Kind of that workload.");
}

MOOR_DESCRIBE(KubernetesStatus, "The Kubernetes objects that use the volume, now or last.") {
  f.add("pvName", &KubernetesStatus::pv_name, "Name of the PersistentVolume.");
  f.add("pvStatus", &KubernetesStatus::pv_status, "Phase of the PersistentVolume.");
  f.add("namespace", &KubernetesStatus::space, "Namespace of the claim.");
  f.add("pvcName", &KubernetesStatus::pvc_name, "Name of the claim.");
  f.add("lastPVCRefAt", &KubernetesStatus::last_pvc_ref_at,
        "When a claim last used the volume; empty: one does now.");
  f.add("workloadsStatus", &KubernetesStatus::workloads_status, "Pods that use the volume.");
  f.add("lastPodRefAt", &KubernetesStatus::last_pod_ref_at,
        "When a pod last used the volume; empty: one does now.");
}

MOOR_DESCRIBE(MoveStatus,
              "A move between two nodes that is under way. It always ends on exactly one of them.") {
  f.omit_empty();
  f.add("phase", &MoveStatus::phase, "Where the move stands.");
  f.add("sourceNodeID", &MoveStatus::source_node_id, "Node the volume is moving from.");
  f.add("destinationNodeID", &MoveStatus::destination_node_id, "Node the volume is moving to.");
  f.add("sourceTicket", &MoveStatus::source_ticket,
        "Ticket that holds the source; when it leaves, the move is confirmed.");
  f.add("destinationTicket", &MoveStatus::destination_ticket,
        "Ticket that asks for the destination; when it leaves, the move is rolled back.");
  f.add("destinationEpoch", &MoveStatus::destination_epoch, "Epoch of the engine on the destination.");
  f.add("source", &MoveStatus::source, "The source's engine as it was granted last.").atomic();
  f.add("destination", &MoveStatus::destination, "The destination's engine as it was granted last.").atomic();
  f.add("sourceServed", &MoveStatus::source_served,
        "Epoch in which clients of the source were served last; a write above it makes them open again.");
  f.add("failures", &MoveStatus::failures, "Starts of the standby in a row that came to nothing.");
  f.add("lastFailureAt", &MoveStatus::last_failure_at, "When the last of them ended.");
  f.add("startedAt", &MoveStatus::started_at, "When the move began.");
  f.add("phaseSince", &MoveStatus::phase_since, "When the present phase began.");
  f.add("message", &MoveStatus::message, "What the move waits for, in a sentence.");
}

MOOR_DESCRIBE(RestartStatus, "Starts of the engine in a row that nobody asked for.") {
  f.omit_empty();
  f.add("count", &RestartStatus::count,
        "How many in a row; service for a while, or a new ticket, ends the row.");
  f.add("lastAt", &RestartStatus::last_at, "When the last one was granted.");
  f.add("cause", &RestartStatus::cause, "Why the engine before it ended.");
}

MOOR_DESCRIBE(VolumeStatus, "What is known of the volume.") {
  f.add("ownerID", &VolumeStatus::owner_id, "Node or server that looks after the object.");
  f.add("state", &VolumeStatus::state, "Whether the volume is attached, and if not, on its way where.");
  f.add("robustness", &VolumeStatus::robustness,
        "healthy: all replicas in step; degraded: some missing; faulted: none usable.");
  f.add("currentNodeID", &VolumeStatus::current_node_id,
        "Node the volume is attached to; set only once fully attached, cleared only once fully detached.");
  f.add("currentImage", &VolumeStatus::current_image, "Version of the engine that runs.");
  f.add("kubernetesStatus", &VolumeStatus::kubernetes_status, "Kubernetes objects that use the volume.");
  f.add("conditions", &VolumeStatus::conditions, "What is observed of the volume.")
      .list_map({"type"})
      .atomic_items();
  f.add("lastBackup", &VolumeStatus::last_backup, "Name of the latest backup.");
  f.add("lastBackupAt", &VolumeStatus::last_backup_at, "Time of the latest backup.");
  f.add("currentMigrationNodeID", &VolumeStatus::current_migration_node_id,
        "Node where a standby engine is ready to take over.");
  f.add("frontendDisabled", &VolumeStatus::frontend_disabled,
        "Whether the volume is attached without a device.");
  f.add("restoreRequired", &VolumeStatus::restore_required, "Whether content must still be restored.");
  f.add("restoreInitiated", &VolumeStatus::restore_initiated, "Whether the restore has begun.");
  f.add("cloneStatus", &VolumeStatus::clone_status, "How far a clone has come.");
  f.add("remountRequestedAt", &VolumeStatus::remount_requested_at,
        "Since when users of the device must open it again.");
  f.add("expansionRequired", &VolumeStatus::expansion_required,
        "Whether the volume must still grow to its wanted size.");
  f.add("isStandby", &VolumeStatus::is_standby, "Whether the volume follows the backups of another cluster.");
  f.add("actualSize", &VolumeStatus::actual_size, "Bytes in use on each replica, snapshots included.");
  f.add("lastDegradedAt", &VolumeStatus::last_degraded_at, "Since when replicas are missing.");
  f.add("lastAutoSalvagedAt", &VolumeStatus::last_auto_salvaged_at,
        "When the volume last came back by itself after all replicas had stopped.");
  f.add("shareEndpoint", &VolumeStatus::share_endpoint, "Where the NFS share of the volume is found.");
  f.add("shareState", &VolumeStatus::share_state, "State of the NFS share.");
  f.add("epoch", &VolumeStatus::epoch, "Epoch of the engine that may write, as the Grant has it.");
  f.add("exportID", &VolumeStatus::export_id,
        "Identity of the export that was served last; clients of another one must open again.")
      .omit_empty();
  f.add("move", &VolumeStatus::move, "The move that is under way, if one is.");
  f.add("restarts", &VolumeStatus::restarts, "Starts of the engine in a row that nobody asked for.")
      .omit_empty();
}

MOOR_DESCRIBE(Volume, "A replicated block volume.") {
  f.type_meta(kApiVersion, "Volume");
  f.add("metadata", &Volume::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Volume::spec, "What is wanted of the volume.").default_to(Json::object());
  f.add("status", &Volume::status, "What is known of the volume.");
}

MOOR_KIND(
    Volume, .group = kGroup, .version = kVersion, .kind = "Volume", .plural = "volumes", .singular = "volume",
    .short_names = {"lhv"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "Data Engine", .path = ".spec.dataEngine", .description = "What keeps the data."},
                {.name = "State", .path = ".status.state", .description = "State of the volume."},
                {.name = "Robustness",
                 .path = ".status.robustness",
                 .description = "How many replicas are in step."},
                {.name = "Scheduled",
                 .path = ".status.conditions[?(@.type==\"Scheduled\")].status",
                 .description = "Whether every replica has a disk."},
                {.name = "Size", .path = ".spec.size", .description = "Capacity in bytes."},
                {.name = "Node",
                 .path = ".status.currentNodeID",
                 .description = "Node the volume is attached to."},
                age_column()},
    .selectable_fields = {"spec.nodeID", "spec.migrationNodeID", "status.state", "status.currentNodeID"},
    .check = typed_check<Volume, validate_volume>,
    .check_update = typed_check_update<Volume, validate_volume_update>, .rules_concern_status = false)

Causes validate_volume(const Volume& volume) {
  Causes causes;
  const VolumeSpec& spec = volume.spec;
  if (spec.migratable && spec.access_mode != AccessMode::rwx)
    causes.push_back(invalid("spec.migratable", spec.migratable, "a migratable volume needs accessMode rwx"));
  if (spec.migratable && spec.frontend != Frontend::blockdev && spec.frontend != Frontend::none)
    causes.push_back(
        invalid("spec.migratable", spec.migratable, "a migratable volume needs the frontend blockdev"));
  if (spec.encrypted && spec.migratable && spec.access_mode == AccessMode::rwo)
    causes.push_back(
        invalid("spec.encrypted", spec.encrypted, "an encrypted rwo volume cannot be migratable"));
  if (spec.data_locality == DataLocality::strict_local && spec.number_of_replicas != 1)
    causes.push_back(
        invalid("spec.dataLocality", to_string(spec.data_locality), "strict-local needs numberOfReplicas 1"));
  if (spec.data_locality == DataLocality::strict_local && spec.access_mode == AccessMode::rwx)
    causes.push_back(
        invalid("spec.dataLocality", to_string(spec.data_locality), "strict-local needs accessMode rwo"));
  if (spec.snapshot_max_count == 1)
    causes.push_back(invalid("spec.snapshotMaxCount", spec.snapshot_max_count, "must be 0 or from 2 to 250"));
  if (spec.snapshot_max_size != 0 && spec.snapshot_max_size / 2 < spec.size)
    causes.push_back(
        invalid("spec.snapshotMaxSize", spec.snapshot_max_size, "must be 0 or at least twice the size"));
  return causes;
}

Causes validate_volume_update(const Volume& before, const Volume& after) {
  Causes causes;
  if (after.spec.size < before.spec.size) causes.push_back(forbidden("spec.size", "a volume can only grow"));
  if (!before.spec.data_source.empty() && after.spec.data_source != before.spec.data_source)
    causes.push_back(immutable("spec.dataSource", after.spec.data_source));
  if (!before.spec.from_backup.empty() && after.spec.from_backup != before.spec.from_backup)
    causes.push_back(immutable("spec.fromBackup", after.spec.from_backup));
  // While someone uses the volume, the rules under which it is used cannot change beneath them.
  const bool in_use =
      before.status.state != VolumeState::detached && before.status.state != VolumeState::none;
  if (in_use && after.spec.access_mode != before.spec.access_mode)
    causes.push_back(
        forbidden("spec.accessMode", "the access mode can change only while the volume is detached"));
  if (in_use && after.spec.migratable != before.spec.migratable)
    causes.push_back(forbidden("spec.migratable", "this can change only while the volume is detached"));
  return causes;
}

}  // namespace moor::model::longhorn
