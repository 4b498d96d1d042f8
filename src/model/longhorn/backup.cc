#include "model/longhorn/backup.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(BackupSpec, "What the backup is asked to be.") {
  f.add("syncRequestedAt", &BackupSpec::sync_requested_at,
        "Set to now to have the object read again from the target.");
  f.add("snapshotName", &BackupSpec::snapshot_name, "Snapshot to back up.");
  f.add("labels", &BackupSpec::labels, "Labels that are stored with the backup.");
  f.add("backupMode", &BackupSpec::backup_mode,
        "incremental stores what changed since the last backup, full everything.")
      .default_to("incremental");
  f.add("backupBlockSize", &BackupSpec::backup_block_size,
        "Size of the stored blocks in bytes, written as a string; 0 takes the usual 2 MiB.")
      .as_string()
      .at_least(0);
}

MOOR_DESCRIBE(BackupStatus, "What is known of the backup.") {
  f.add("ownerID", &BackupStatus::owner_id, "Node or server that looks after the object.");
  f.add("state", &BackupStatus::state, "How far it has come.");
  f.add("progress", &BackupStatus::progress, "Percent done.");
  f.add("replicaAddress", &BackupStatus::replica_address, "Replica that is read.");
  f.add("error", &BackupStatus::error, "What went wrong.").omit_empty();
  f.add("url", &BackupStatus::url, "Where the backup is stored; a volume is restored from this.");
  f.add("snapshotName", &BackupStatus::snapshot_name, "Snapshot that was backed up.");
  f.add("snapshotCreatedAt", &BackupStatus::snapshot_created_at, "When that snapshot was taken.");
  f.add("backupCreatedAt", &BackupStatus::backup_created_at, "When the backup was complete.");
  f.add("size", &BackupStatus::size, "Bytes of the snapshot.");
  f.add("labels", &BackupStatus::labels, "Labels stored with the backup.");
  f.add("messages", &BackupStatus::messages, "What the target said, by level.");
  f.add("volumeName", &BackupStatus::volume_name, "Volume that was backed up.");
  f.add("volumeSize", &BackupStatus::volume_size, "Capacity of that volume in bytes.");
  f.add("volumeCreated", &BackupStatus::volume_created, "When that volume was created.");
  f.add("volumeBackingImageName", &BackupStatus::volume_backing_image_name, "Backing image of that volume.");
  f.add("lastSyncedAt", &BackupStatus::last_synced_at, "When the object was last read from the target.");
  f.add("compressionMethod", &BackupStatus::compression_method, "How the blocks are compressed.");
  f.add("newlyUploadedDataSize", &BackupStatus::newly_uploaded_data_size,
        "Bytes that this backup added to the target.");
  f.add("reUploadedDataSize", &BackupStatus::re_uploaded_data_size,
        "Bytes that were stored again in a full backup.");
  f.add("backupTargetName", &BackupStatus::backup_target_name, "Backup target that holds it.");
}

MOOR_DESCRIBE(Backup, "A backup of a snapshot.") {
  f.type_meta(kApiVersion, "Backup");
  f.add("metadata", &Backup::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Backup::spec, "What the backup is asked to be.");
  f.add("status", &Backup::status, "What is known of the backup.");
}

MOOR_KIND(
    Backup, .group = kGroup, .version = kVersion, .kind = "Backup", .plural = "backups", .singular = "backup",
    .short_names = {"lhb"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "SnapshotName",
                 .path = ".status.snapshotName",
                 .description = "Snapshot that was backed up."},
                {.name = "SnapshotSize", .path = ".status.size", .description = "Bytes of the snapshot."},
                {.name = "SnapshotCreatedAt",
                 .path = ".status.snapshotCreatedAt",
                 .description = "When the snapshot was taken."},
                {.name = "BackupTarget",
                 .path = ".status.backupTargetName",
                 .description = "Target that holds it."},
                {.name = "State", .path = ".status.state", .description = "How far it has come."},
                {.name = "LastSyncedAt",
                 .path = ".status.lastSyncedAt",
                 .description = "When it was last read from the target."}},
    .selectable_fields = {"status.state", "status.volumeName"},
    .check_update = typed_check_update<Backup, validate_backup_update>)

bool is_final(BackupState state) {
  return state == BackupState::completed || state == BackupState::error || state == BackupState::unknown;
}

Causes validate_backup_update(const Backup& before, const Backup& after) {
  Causes causes;
  if (!before.spec.snapshot_name.empty() && before.spec.snapshot_name != after.spec.snapshot_name)
    causes.push_back(immutable("spec.snapshotName", after.spec.snapshot_name));
  if (before.spec.backup_mode != after.spec.backup_mode)
    causes.push_back(immutable("spec.backupMode", to_string(after.spec.backup_mode)));
  return causes;
}

}  // namespace moor::model::longhorn
