#include "model/meta/status.h"

#include <fmt/format.h>

#include "model/describe.h"
#include "model/meta/package.h"

namespace moor::model {

MOOR_DESCRIBE(StatusCause, "One cause of a failure.") {
  f.omit_empty();
  f.add("reason", &StatusCause::reason, "The cause in one CamelCase word.");
  f.add("message", &StatusCause::message, "The cause in a sentence.");
  f.add("field", &StatusCause::field, "Path of the field that caused it.");
}

MOOR_DESCRIBE(StatusDetails, "More about a failure.") {
  f.omit_empty();
  f.add("name", &StatusDetails::name, "Name of the object concerned.");
  f.add("group", &StatusDetails::group, "Group of the object concerned.");
  f.add("kind", &StatusDetails::kind, "Kind or resource of the object concerned.");
  f.add("uid", &StatusDetails::uid, "UID of the object concerned.");
  f.add("causes", &StatusDetails::causes, "What caused the failure, field by field.");
  f.add("retryAfterSeconds", &StatusDetails::retry_after_seconds, "When to try again.");
}

MOOR_DESCRIBE(Status, "How a request went, when the answer is not an object.") {
  f.omit_empty();
  f.type_meta("v1", "Status");
  f.add("metadata", &Status::metadata, "Metadata of the answer.").omit_empty(false);
  f.add("status", &Status::status, "Success or Failure.");
  f.add("message", &Status::message, "What happened, in a sentence.");
  f.add("reason", &Status::reason, "Why it failed, in one CamelCase word.");
  f.add("details", &Status::details, "More about a failure.");
  f.add("code", &Status::code, "The HTTP code of the answer.");
}

MOOR_DESCRIBE(Preconditions, "What must hold for the request to be carried out.") {
  f.omit_empty();
  f.add("uid", &Preconditions::uid, "The object must have this UID.");
  f.add("resourceVersion", &Preconditions::resource_version, "The object must have this version.");
}

MOOR_DESCRIBE(DeleteOptions, "How an object is to be deleted.") {
  f.omit_empty();
  f.add("apiVersion", &DeleteOptions::api_version, "API version of these options.");
  f.add("kind", &DeleteOptions::kind, "Always DeleteOptions.");
  f.add("gracePeriodSeconds", &DeleteOptions::grace_period_seconds,
        "Seconds the object has to end by itself.");
  f.add("preconditions", &DeleteOptions::preconditions, "What must hold for the deletion.");
  f.add("orphanDependents", &DeleteOptions::orphan_dependents, "Old form of propagationPolicy.");
  f.add("propagationPolicy", &DeleteOptions::propagation_policy,
        "What becomes of dependents: Orphan, Background or Foreground.");
  f.add("dryRun", &DeleteOptions::dry_run, "[All]: decide, but change nothing.");
}

Status invalid_status(const KindInfo& kind, std::string_view name, const Causes& causes) {
  Status status;
  const std::string qualified =
      kind.group.empty() ? std::string(kind.kind) : fmt::format("{}.{}", kind.kind, kind.group);
  status.status = "Failure";
  status.message = fmt::format("{} \"{}\" is invalid: {}", qualified, name, to_text(causes));
  status.reason = "Invalid";
  status.code = 422;
  StatusDetails details;
  details.name = name;
  details.group = kind.group;
  details.kind = kind.kind;
  for (const Cause& cause : causes) details.causes.push_back({cause.reason, cause.message, cause.field});
  status.details = std::move(details);
  return status;
}

}  // namespace moor::model
