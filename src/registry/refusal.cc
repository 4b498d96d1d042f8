#include "registry/refusal.h"

#include <fmt/format.h>

namespace moor::registry {
namespace {

Refusal refusal(Errc code, std::string reason, std::string message) {
  return Refusal{make_error(code, std::move(message)), std::move(reason), {}, {}};
}

}  // namespace

Refusal refuse_bad_request(std::string message) {
  return refusal(Errc::invalid, "BadRequest", std::move(message));
}

Refusal refuse_forbidden(const model::KindInfo& kind, std::string_view name, std::string_view why) {
  return refusal(Errc::forbidden, "Forbidden",
                 fmt::format("{} \"{}\" is forbidden: {}", kind.qualified_resource(), name, why));
}

Refusal refuse_not_found(const model::KindInfo& kind, std::string_view name) {
  return refusal(Errc::not_found, "NotFound",
                 fmt::format("{} \"{}\" not found", kind.qualified_resource(), name));
}

Refusal refuse_already_exists(const model::KindInfo& kind, std::string_view name) {
  return refusal(Errc::already_exists, "AlreadyExists",
                 fmt::format("{} \"{}\" already exists", kind.qualified_resource(), name));
}

Refusal refuse_conflict(const model::KindInfo& kind, std::string_view name, std::string_view why) {
  return refusal(
      Errc::conflict, "Conflict",
      fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", kind.qualified_resource(), name, why));
}

Refusal refuse_modified(const model::KindInfo& kind, std::string_view name) {
  return refuse_conflict(
      kind, name,
      "the object has been modified; please apply your changes to the latest version and try again");
}

Refusal refuse_expired(std::string message) {
  return refusal(Errc::expired, "Expired", std::move(message));
}

Refusal refuse_media_type(std::string message) {
  return refusal(Errc::unsupported, "UnsupportedMediaType", std::move(message));
}

Refusal refuse_invalid(const model::KindInfo& kind, std::string_view name, model::Causes causes) {
  const std::string qualified =
      kind.group.empty() ? std::string(kind.kind) : fmt::format("{}.{}", kind.kind, kind.group);
  Refusal refused = refusal(Errc::invalid, "Invalid",
                            fmt::format("{} \"{}\" is invalid: {}", qualified, name, to_text(causes)));
  refused.causes = std::move(causes);
  return refused;
}

Refusal refuse_future(std::string_view asked, std::string_view newest) {
  Refusal refused = refusal(Errc::timed_out, "Timeout",
                            fmt::format("Too large resource version: {}, current: {}", asked, newest));
  refused.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
  refused.retry_after_seconds = 1;
  return refused;
}

}  // namespace moor::registry
