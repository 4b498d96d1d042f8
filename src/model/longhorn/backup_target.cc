#include "model/longhorn/backup_target.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(BackupTargetSpec, "Where the target is and how it is reached.") {
  f.add("backupTargetURL", &BackupTargetSpec::backup_target_url,
        "s3://BUCKET@REGION/PATH, nfs://HOST:/PATH or file:///PATH; empty: no target.");
  f.add("credentialSecret", &BackupTargetSpec::credential_secret, "Secret with the credentials.");
  f.add("pollInterval", &BackupTargetSpec::poll_interval,
        "How often the target is read, such as 5m0s; 0s: only when asked.")
      .as_duration()
      .default_to("5m0s");
  f.add("syncRequestedAt", &BackupTargetSpec::sync_requested_at, "Set to now to have the target read again.");
}

MOOR_DESCRIBE(BackupTargetStatus, "What is known of the target.") {
  f.add("ownerID", &BackupTargetStatus::owner_id, "Node or server that looks after the object.");
  f.add("available", &BackupTargetStatus::available, "Whether the target answers.");
  f.add("conditions", &BackupTargetStatus::conditions, "Why the target is unavailable.")
      .list_map({"type"})
      .atomic_items();
  f.add("lastSyncedAt", &BackupTargetStatus::last_synced_at, "When the target was last read.");
}

MOOR_DESCRIBE(BackupTarget, "A place that backups are kept in.") {
  f.type_meta(kApiVersion, "BackupTarget");
  f.add("metadata", &BackupTarget::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &BackupTarget::spec, "Where the target is and how it is reached.");
  f.add("status", &BackupTarget::status, "What is known of the target.");
}

// The column LastBackupAt shows the poll interval in Longhorn too; scripts that cut columns rely on its
// place.
MOOR_KIND(BackupTarget, .group = kGroup, .version = kVersion, .kind = "BackupTarget",
          .plural = "backuptargets", .singular = "backuptarget", .short_names = {"lhbt"},
          .categories = {"longhorn"}, .custom = true,
          .columns = {{.name = "URL", .path = ".spec.backupTargetURL", .description = "Where the target is."},
                      {.name = "Credential",
                       .path = ".spec.credentialSecret",
                       .description = "Secret with the credentials."},
                      {.name = "LastBackupAt",
                       .path = ".spec.pollInterval",
                       .description = "How often the target is read."},
                      {.name = "Available",
                       .type = "boolean",
                       .path = ".status.available",
                       .description = "Whether the target answers."},
                      {.name = "LastSyncedAt",
                       .path = ".status.lastSyncedAt",
                       .description = "When the target was last read."}})

}  // namespace moor::model::longhorn
