// A volume as a backup target knows it: the collection of its backups.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

struct BackupVolumeSpec {
  std::string backup_target_name = {};
  std::optional<Time> sync_requested_at = {};
  std::string volume_name = {};
};
MOOR_DESCRIBED(BackupVolumeSpec);

struct BackupVolumeStatus {
  std::string owner_id = {};
  std::optional<Time> last_modification_time = {};
  std::string size = {};
  std::map<std::string, std::string> labels = {};
  std::string created_at = {};
  std::string last_backup_name = {};
  std::string last_backup_at = {};
  std::string data_stored = {};
  std::map<std::string, std::string> messages = {};
  std::string backing_image_name = {};
  std::string backing_image_checksum = {};
  std::string storage_class_name = {};
  std::optional<Time> last_synced_at = {};
};
MOOR_DESCRIBED(BackupVolumeStatus);

struct BackupVolume {
  ObjectMeta metadata = {};
  BackupVolumeSpec spec = {};
  BackupVolumeStatus status = {};
};
MOOR_DESCRIBED_KIND(BackupVolume);

}  // namespace moor::model::longhorn
