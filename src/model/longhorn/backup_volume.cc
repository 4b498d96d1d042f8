#include "model/longhorn/backup_volume.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(BackupVolumeSpec, "Which volume in which target.") {
  f.add("backupTargetName", &BackupVolumeSpec::backup_target_name, "Backup target that holds the backups.");
  f.add("syncRequestedAt", &BackupVolumeSpec::sync_requested_at,
        "Set to now to have the list of backups read again.");
  f.add("volumeName", &BackupVolumeSpec::volume_name, "Volume that was backed up.");
}

MOOR_DESCRIBE(BackupVolumeStatus, "What the target says of the volume.") {
  f.add("ownerID", &BackupVolumeStatus::owner_id, "Node or server that looks after the object.");
  f.add("lastModificationTime", &BackupVolumeStatus::last_modification_time,
        "When its record in the target last changed.");
  f.add("size", &BackupVolumeStatus::size, "Capacity of the volume in bytes.");
  f.add("labels", &BackupVolumeStatus::labels, "Labels stored with it.");
  f.add("createdAt", &BackupVolumeStatus::created_at, "When the first backup was made.");
  f.add("lastBackupName", &BackupVolumeStatus::last_backup_name, "The latest backup.");
  f.add("lastBackupAt", &BackupVolumeStatus::last_backup_at, "When the latest backup was made.");
  f.add("dataStored", &BackupVolumeStatus::data_stored, "Bytes that the backups use in the target.");
  f.add("messages", &BackupVolumeStatus::messages, "What the target said, by level.");
  f.add("backingImageName", &BackupVolumeStatus::backing_image_name, "Backing image of the volume.");
  f.add("backingImageChecksum", &BackupVolumeStatus::backing_image_checksum, "Checksum of that image.");
  f.add("storageClassName", &BackupVolumeStatus::storage_class_name, "Storage class of the volume.");
  f.add("lastSyncedAt", &BackupVolumeStatus::last_synced_at, "When the target was last read.");
}

MOOR_DESCRIBE(BackupVolume, "The backups of one volume in one target.") {
  f.type_meta(kApiVersion, "BackupVolume");
  f.add("metadata", &BackupVolume::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &BackupVolume::spec, "Which volume in which target.");
  f.add("status", &BackupVolume::status, "What the target says of the volume.");
}

MOOR_KIND(
    BackupVolume, .group = kGroup, .version = kVersion, .kind = "BackupVolume", .plural = "backupvolumes",
    .singular = "backupvolume", .short_names = {"lhbv"}, .categories = {"longhorn"}, .custom = true,
    .columns =
        {{.name = "BackupTarget",
          .path = ".spec.backupTargetName",
          .description = "Target that holds the backups."},
         {.name = "CreatedAt", .path = ".status.createdAt", .description = "When the first backup was made."},
         {.name = "LastBackupName", .path = ".status.lastBackupName", .description = "The latest backup."},
         {.name = "LastBackupAt",
          .path = ".status.lastBackupAt",
          .description = "When the latest backup was made."},
         {.name = "LastSyncedAt",
          .path = ".status.lastSyncedAt",
          .description = "When the target was last read."}},
    .selectable_fields = {"spec.volumeName"})

}  // namespace moor::model::longhorn
