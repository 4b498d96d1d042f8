#include "doors/kube/status.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace moor::doors::kube {
namespace {

struct Row {
  int code;
  std::string_view reason;
  Errc errc;
  bool of_errc;  // the row for an error of that code without a reason of its own
};

constexpr Row kTable[] = {
    {400, "BadRequest", Errc::invalid, true},
    {401, "Unauthorized", Errc::unauthorized, true},
    {403, "Forbidden", Errc::forbidden, true},
    {404, "NotFound", Errc::not_found, true},
    {405, "MethodNotAllowed", Errc::invalid, false},
    {406, "NotAcceptable", Errc::unsupported, false},
    {408, "RequestTimeout", Errc::timed_out, false},
    {409, "AlreadyExists", Errc::already_exists, true},
    {409, "Conflict", Errc::conflict, true},
    {410, "Expired", Errc::expired, true},
    {413, "RequestEntityTooLarge", Errc::exhausted, true},
    {415, "UnsupportedMediaType", Errc::unsupported, true},
    {422, "Invalid", Errc::invalid, false},
    {429, "TooManyRequests", Errc::unavailable, false},
    {431, "RequestHeaderFieldsTooLarge", Errc::exhausted, false},
    {500, "InternalError", Errc::internal, true},
    {500, "InternalError", Errc::corrupt, true},
    {501, "NotImplemented", Errc::unsupported, false},
    {503, "ServiceUnavailable", Errc::unavailable, true},
    {503, "ServiceUnavailable", Errc::cancelled, true},
    {504, "Timeout", Errc::timed_out, true},
};

const Row& row_of(const registry::Refusal& refusal) {
  const auto* found = std::find_if(std::begin(kTable), std::end(kTable), [&](const Row& row) {
    return !refusal.reason.empty() && row.reason == refusal.reason;
  });
  if (found != std::end(kTable)) return *found;
  found = std::find_if(std::begin(kTable), std::end(kTable),
                       [&](const Row& row) { return row.of_errc && row.errc == refusal.error.code; });
  MOOR_ASSERT(found != std::end(kTable), "every Errc has its row");
  return *found;
}

Json causes_of(const registry::Refusal& refusal) {
  Json list = Json::array();
  for (const model::Cause& cause : refusal.causes) {
    Json one = Json::object({{"reason", cause.reason}, {"message", cause.message}});
    if (!cause.field.empty()) one.set("field", cause.field);
    list.push_back(std::move(one));
  }
  return list;
}

Json details_of(const registry::Refusal& refusal, const Subject& subject, std::string_view reason) {
  Json details = Json::object();
  if (!subject.name.empty()) details.set("name", subject.name);
  if (subject.kind != nullptr) {
    if (!subject.kind->group.empty()) details.set("group", subject.kind->group);
    // Kubernetes names the kind where the object is at fault, the resource elsewhere.
    details.set("kind", reason == "Invalid" ? subject.kind->kind : subject.kind->plural);
  }
  if (!refusal.causes.empty()) details.set("causes", causes_of(refusal));
  if (refusal.retry_after_seconds) details.set("retryAfterSeconds", *refusal.retry_after_seconds);
  return details;
}

}  // namespace

int code_of(const registry::Refusal& refusal) {
  return row_of(refusal).code;
}

Json status_of(const registry::Refusal& refusal, const Subject& subject) {
  const Row& row = row_of(refusal);
  Json status = Json::object({{"kind", "Status"},
                              {"apiVersion", "v1"},
                              {"metadata", Json::object()},
                              {"status", "Failure"},
                              {"message", refusal.error.message},
                              {"reason", row.reason}});
  Json details = details_of(refusal, subject, row.reason);
  if (!details.empty()) status.set("details", std::move(details));
  status.set("code", row.code);
  return status;
}

http::Response json_response(int code, std::string text) {
  return http::Response::text(code, std::move(text), "application/json");
}

http::Response refuse(const registry::Refusal& refusal, const Subject& subject) {
  http::Response response = json_response(code_of(refusal), to_text(status_of(refusal, subject)));
  if (refusal.retry_after_seconds)
    response.headers.set("Retry-After", std::to_string(*refusal.retry_after_seconds));
  if (response.status == 401) response.headers.set("WWW-Authenticate", "Bearer realm=\"mooring\"");
  return response;
}

http::Response refuse_code(int code, const std::string& message, int retry_after_seconds) {
  const auto* row =
      std::find_if(std::begin(kTable), std::end(kTable), [code](const Row& one) { return one.code == code; });
  Json status = Json::object({{"kind", "Status"},
                              {"apiVersion", "v1"},
                              {"metadata", Json::object()},
                              {"status", "Failure"},
                              {"message", message},
                              {"reason", row == std::end(kTable) ? "Unknown" : row->reason},
                              {"code", code}});
  if (retry_after_seconds > 0)
    status.set("details", Json::object({{"retryAfterSeconds", retry_after_seconds}}));
  http::Response response = json_response(code, to_text(status));
  if (retry_after_seconds > 0) response.headers.set("Retry-After", std::to_string(retry_after_seconds));
  if (code == 401) response.headers.set("WWW-Authenticate", "Bearer realm=\"mooring\"");
  return response;
}

Json success_status(const Subject& subject, std::string_view uid) {
  Json details = Json::object({{"name", subject.name}});
  if (!subject.kind->group.empty()) details.set("group", subject.kind->group);
  details.set("kind", subject.kind->plural);
  details.set("uid", uid);
  return Json::object({{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"metadata", Json::object()},
                       {"status", "Success"},
                       {"details", std::move(details)}});
}

registry::Refusal not_found_path() {
  return {
      make_error(Errc::not_found, "the server could not find the requested resource"), "NotFound", {}, {}};
}

registry::Refusal method_not_allowed() {
  return {make_error(Errc::invalid, "the server does not allow this method on the requested resource"),
          "MethodNotAllowed",
          {},
          {}};
}

registry::Refusal not_acceptable(std::string message) {
  return {make_error(Errc::unsupported, std::move(message)), "NotAcceptable", {}, {}};
}

}  // namespace moor::doors::kube
