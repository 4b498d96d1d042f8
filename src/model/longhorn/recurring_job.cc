#include "model/longhorn/recurring_job.h"

#include <algorithm>

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(RecurringJobSpec, "What is done, to which volumes, and when.") {
  f.add("name", &RecurringJobSpec::name, "Name of the job.");
  f.add("groups", &RecurringJobSpec::groups,
        "Groups of volumes; \"default\" means every volume without a job of its own.")
      .omit_empty();
  f.add("task", &RecurringJobSpec::task, "What is done.").required();
  f.add("cron", &RecurringJobSpec::cron,
        "When, as minute hour day-of-month month day-of-week, or @daily and the like.")
      .required();
  f.add("retain", &RecurringJobSpec::retain, "How many snapshots or backups of this job are kept.")
      .at_least(0)
      .at_most(250);
  f.add("concurrency", &RecurringJobSpec::concurrency, "How many volumes are worked on at once.")
      .default_to(1)
      .at_least(1);
  f.add("labels", &RecurringJobSpec::labels, "Labels for the snapshots and backups.").omit_empty();
  f.add("parameters", &RecurringJobSpec::parameters, "Parameters of the task, such as full-backup-interval.")
      .omit_empty();
}

MOOR_DESCRIBE(RecurringJobStatus, "What is known of the job.") {
  f.add("ownerID", &RecurringJobStatus::owner_id, "Node or server that looks after the object.");
  f.add("executionCount", &RecurringJobStatus::execution_count, "How often the job has run.");
  f.add("lastScheduledAt", &RecurringJobStatus::last_scheduled_at,
        "The last time on the schedule that was served.");
}

MOOR_DESCRIBE(RecurringJob, "A task that is done to volumes by the clock.") {
  f.type_meta(kApiVersion, "RecurringJob");
  f.add("metadata", &RecurringJob::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &RecurringJob::spec, "What is done, to which volumes, and when.").required();
  f.add("status", &RecurringJob::status, "What is known of the job.");
}

MOOR_KIND(RecurringJob, .group = kGroup, .version = kVersion, .kind = "RecurringJob",
          .plural = "recurringjobs", .singular = "recurringjob", .short_names = {"lhrj"},
          .categories = {"longhorn"}, .custom = true,
          .columns = {{.name = "Groups", .path = ".spec.groups", .description = "Groups of volumes."},
                      {.name = "Task", .path = ".spec.task", .description = "What is done."},
                      {.name = "Cron", .path = ".spec.cron", .description = "When it is done."},
                      {.name = "RetainCount",
                       .type = "integer",
                       .path = ".spec.retain",
                       .description = "How many are kept."},
                      {.name = "Concurrency",
                       .type = "integer",
                       .path = ".spec.concurrency",
                       .description = "How many volumes at once."},
                      age_column(),
                      {.name = "Labels", .path = ".spec.labels", .description = "Labels for what is made."}},
          .check = typed_check<RecurringJob, validate_recurring_job>)

namespace {

// Five fields of cron's characters, or one of its @words. What the fields mean is for whoever runs the
// schedule.
bool looks_like_cron(std::string_view text) {
  if (text.starts_with('@')) {
    static constexpr std::string_view kWords[] = {"@yearly", "@annually", "@monthly", "@weekly",
                                                  "@daily",  "@midnight", "@hourly"};
    return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords) ||
           text.starts_with("@every ");
  }
  int fields = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t';
    const bool fits = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '*' || c == '/' || c == ',' || c == '-' || c == '?';
    if (!space && !fits) return false;
    if (!space && !inside) ++fields;
    inside = !space;
  }
  return fields == 5;
}

}  // namespace

Causes validate_recurring_job(const RecurringJob& job) {
  Causes causes;
  if (job.spec.task == RecurringTask::none) causes.push_back(required("spec.task"));
  if (!looks_like_cron(job.spec.cron))
    causes.push_back(invalid("spec.cron", job.spec.cron,
                             "must have five fields, such as \"0 * * * *\", or be one of @hourly, @daily, "
                             "@weekly, @monthly, @yearly"));
  if (!job.spec.name.empty() && job.spec.name != job.metadata.name)
    causes.push_back(invalid("spec.name", job.spec.name, "must be the name of the object"));
  return causes;
}

}  // namespace moor::model::longhorn
