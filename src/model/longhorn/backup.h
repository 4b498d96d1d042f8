// A backup of one snapshot of a volume in a backup target.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

enum class BackupState { none, pending, in_progress, completed, error, unknown };
MOOR_ENUM_NAMES(BackupState, "", "Pending", "InProgress", "Completed", "Error", "Unknown")

enum class BackupMode { none, full, incremental };
MOOR_ENUM_NAMES(BackupMode, "", "full", "incremental")

struct BackupSpec {
  std::optional<Time> sync_requested_at = {};
  std::string snapshot_name = {};
  std::map<std::string, std::string> labels = {};
  BackupMode backup_mode = BackupMode::none;
  std::int64_t backup_block_size = 0;
};
MOOR_DESCRIBED(BackupSpec);

struct BackupStatus {
  std::string owner_id = {};
  BackupState state = BackupState::none;
  std::int32_t progress = 0;
  std::string replica_address = {};
  std::string error = {};
  std::string url = {};
  std::string snapshot_name = {};
  std::string snapshot_created_at = {};
  std::string backup_created_at = {};
  std::string size = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> messages = {};
  std::string volume_name = {};
  std::string volume_size = {};
  std::string volume_created = {};
  std::string volume_backing_image_name = {};
  std::optional<Time> last_synced_at = {};
  std::string compression_method = {};
  std::string newly_uploaded_data_size = {};
  std::string re_uploaded_data_size = {};
  std::string backup_target_name = {};
};
MOOR_DESCRIBED(BackupStatus);

struct Backup {
  ObjectMeta metadata = {};
  BackupSpec spec = {};
  BackupStatus status = {};
};
MOOR_DESCRIBED_KIND(Backup);

// A backup in one of these states needs no attachment any more.
bool is_final(BackupState state);
Causes validate_backup_update(const Backup& before, const Backup& after);

}  // namespace moor::model::longhorn
