// A place that backups are kept in.
#pragma once

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

struct BackupTargetSpec {
  std::string backup_target_url = {};
  std::string credential_secret = {};
  std::string poll_interval = {};  // a Go duration
  std::optional<Time> sync_requested_at = {};
};
MOOR_DESCRIBED(BackupTargetSpec);

struct BackupTargetStatus {
  std::string owner_id = {};
  bool available = false;
  std::vector<Condition> conditions = {};
  std::optional<Time> last_synced_at = {};
};
MOOR_DESCRIBED(BackupTargetStatus);

struct BackupTarget {
  ObjectMeta metadata = {};
  BackupTargetSpec spec = {};
  BackupTargetStatus status = {};
};
MOOR_DESCRIBED_KIND(BackupTarget);

inline constexpr std::string_view kBackupTargetUnavailable = "Unavailable";

}  // namespace moor::model::longhorn
