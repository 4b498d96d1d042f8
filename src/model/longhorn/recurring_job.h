// A task that is done to volumes by the clock: snapshots, backups, cleaning up.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

enum class RecurringTask {
  none,
  snapshot,
  snapshot_force_create,
  snapshot_cleanup,
  snapshot_delete,
  backup,
  backup_force_create,
  filesystem_trim,
};
MOOR_ENUM_NAMES(RecurringTask, "", "snapshot", "snapshot-force-create", "snapshot-cleanup", "snapshot-delete",
                "backup", "backup-force-create", "filesystem-trim")

struct RecurringJobSpec {
  std::string name = {};
  std::vector<std::string> groups = {};
  RecurringTask task = RecurringTask::none;
  std::string cron = {};
  std::int32_t retain = 0;
  std::int32_t concurrency = 0;
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> parameters = {};
};
MOOR_DESCRIBED(RecurringJobSpec);

struct RecurringJobStatus {
  std::string owner_id = {};
  std::int32_t execution_count = 0;
  std::optional<Time> last_scheduled_at = {};
};
MOOR_DESCRIBED(RecurringJobStatus);

struct RecurringJob {
  ObjectMeta metadata = {};
  RecurringJobSpec spec = {};
  RecurringJobStatus status = {};
};
MOOR_DESCRIBED_KIND(RecurringJob);

Causes validate_recurring_job(const RecurringJob& job);

}  // namespace moor::model::longhorn
