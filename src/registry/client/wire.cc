#include "registry/client/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace moor::registry {
namespace {

struct Meaning {
  std::string_view reason;
  int code;
  Errc errc;
};

// By reason first, by code where there is none.
constexpr Meaning kMeanings[] = {
    {"BadRequest", 400, Errc::invalid},
    {"Unauthorized", 401, Errc::unauthorized},
    {"Forbidden", 403, Errc::forbidden},
    {"NotFound", 404, Errc::not_found},
    {"MethodNotAllowed", 405, Errc::unsupported},
    {"NotAcceptable", 406, Errc::unsupported},
    {"AlreadyExists", 0, Errc::already_exists},
    {"Conflict", 409, Errc::conflict},
    {"Expired", 410, Errc::expired},
    {"Gone", 410, Errc::expired},
    {"RequestEntityTooLarge", 413, Errc::exhausted},
    {"UnsupportedMediaType", 415, Errc::unsupported},
    {"Invalid", 422, Errc::invalid},
    {"TooManyRequests", 429, Errc::unavailable},
    {"InternalError", 500, Errc::internal},
    {"ServiceUnavailable", 503, Errc::unavailable},
    {"ServerTimeout", 0, Errc::unavailable},
    {"Timeout", 504, Errc::timed_out},
};

Errc meaning_of(std::string_view reason, int code) {
  for (const Meaning& meaning : kMeanings)
    if (meaning.reason == reason) return meaning.errc;
  for (const Meaning& meaning : kMeanings)
    if (meaning.code == code) return meaning.errc;
  return code >= 500 ? Errc::unavailable : Errc::internal;
}

std::string text_of(const Json& object, std::string_view field) {
  return std::string(object.get_string(field).value_or(""));
}

void add(http::Query& query, const char* name, std::string value) {
  if (!value.empty()) query.add(name, std::move(value));
}

}  // namespace

std::string path_of(const ResourceName& what) {
  const model::KindInfo& kind = *what.kind;
  std::string path = kind.group.empty() ? fmt::format("/api/{}", kind.version)
                                        : fmt::format("/apis/{}/{}", kind.group, kind.version);
  if (kind.namespaced && !what.space.empty())
    path += fmt::format("/namespaces/{}", http::percent_encode(what.space));
  path += fmt::format("/{}", kind.plural);
  if (!what.name.empty()) path += fmt::format("/{}", http::percent_encode(what.name));
  if (!what.subresource.empty()) path += fmt::format("/{}", http::percent_encode(what.subresource));
  return path;
}

std::string target_of(const ResourceName& what, const http::Query& query) {
  std::string target = path_of(what);
  if (query.size() != 0) target += "?" + query.to_string();
  return target;
}

http::Query query_of(const WriteOptions& options, bool is_apply) {
  http::Query query;
  add(query, "fieldManager", options.field_manager);
  switch (options.field_validation) {
    case FieldValidation::ignore: query.add("fieldValidation", "Ignore"); break;
    case FieldValidation::warn: query.add("fieldValidation", "Warn"); break;
    case FieldValidation::strict: query.add("fieldValidation", "Strict"); break;
  }
  if (options.dry_run) query.add("dryRun", "All");
  if (is_apply) query.add("force", options.force ? "true" : "false");
  return query;
}

http::Query query_of(const ListOptions& options) {
  http::Query query;
  add(query, "labelSelector", options.labels.to_text());
  add(query, "fieldSelector", options.fields.to_text());
  if (options.limit != 0) query.add("limit", std::to_string(options.limit));
  add(query, "continue", options.continue_token);
  add(query, "resourceVersion", options.resource_version);
  add(query, "resourceVersionMatch", options.resource_version_match);
  return query;
}

http::Query query_of(const WatchOptions& options) {
  http::Query query;
  query.add("watch", "true");
  query.add("allowWatchBookmarks", "true");
  add(query, "labelSelector", options.labels.to_text());
  add(query, "fieldSelector", options.fields.to_text());
  add(query, "resourceVersion", options.resource_version);
  if (options.send_initial_events) {
    query.add("sendInitialEvents", "true");
    query.add("resourceVersionMatch", "NotOlderThan");
  }
  return query;
}

Json body_of(const DeleteOptions& options) {
  Json body = Json::object({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}});
  if (options.grace_period_seconds) body.set("gracePeriodSeconds", *options.grace_period_seconds);
  if (options.uid || options.resource_version) {
    Json preconditions = Json::object();
    if (options.uid) preconditions.set("uid", *options.uid);
    if (options.resource_version) preconditions.set("resourceVersion", *options.resource_version);
    body.set("preconditions", std::move(preconditions));
  }
  if (options.propagation) {
    const char* const words[] = {"Background", "Foreground", "Orphan"};
    body.set("propagationPolicy", words[static_cast<int>(*options.propagation)]);
  }
  if (options.dry_run) body.set("dryRun", Json::array({"All"}));
  return body;
}

Refusal refusal_from(const Json& status, int http_status) {
  const int code = static_cast<int>(status.get_int64("code").value_or(http_status));
  Refusal refusal;
  refusal.reason = text_of(status, "reason");
  refusal.error.code = meaning_of(refusal.reason, code);
  refusal.error.message = text_of(status, "message");
  if (refusal.error.message.empty())
    refusal.error.message = fmt::format("the server answered {} {}", code, http::reason_phrase(code));
  const Json* details = status.find("details");
  if (details == nullptr) return refusal;
  if (const auto seconds = details->get_int64("retryAfterSeconds"); seconds && *seconds > 0)
    refusal.retry_after_seconds = static_cast<int>(std::min<std::int64_t>(*seconds, 3600));
  const Json* causes = details->find("causes");
  for (std::size_t i = 0;
       causes != nullptr && causes->is_array() && i < causes->size() && i < model::kMaxCauses; ++i)
    refusal.causes.push_back({text_of(causes->at(i), "reason"), text_of(causes->at(i), "message"),
                              text_of(causes->at(i), "field")});
  return refusal;
}

Refusal refusal_from(const http::Response& response) {
  const auto status = parse_json(response.body_view());
  Refusal refusal = refusal_from(status && status->is_object() ? *status : Json::object(), response.status);
  const auto after = response.headers.get("Retry-After").value_or("");
  int seconds = 0;
  if (std::from_chars(after.data(), after.data() + after.size(), seconds).ec == std::errc() && seconds > 0)
    refusal.retry_after_seconds = std::min(seconds, 3600);
  return refusal;
}

std::vector<std::string> warnings_from(const http::Headers& headers) {
  std::vector<std::string> warnings;
  for (std::string_view value : headers.get_all("Warning")) {
    const std::size_t open = value.find('"');
    const std::size_t close = value.rfind('"');
    if (open == std::string_view::npos || close <= open) continue;
    std::string text;
    for (std::size_t i = open + 1; i < close; ++i) {
      if (value[i] == '\\' && i + 1 < close) ++i;
      text.push_back(value[i]);
    }
    warnings.push_back(std::move(text));
  }
  return warnings;
}

Answer<Listed> listed_from(const model::KindInfo& kind, Json list) {
  Listed listed;
  Json* items = list.find("items");
  const Json* metadata = list.find("metadata");
  if (items == nullptr || !items->is_array() || metadata == nullptr)
    return make_error(Errc::corrupt, "the answer to a list is no list");
  listed.resource_version = text_of(*metadata, "resourceVersion");
  listed.continue_token = text_of(*metadata, "continue");
  listed.remaining = metadata->get_int64("remainingItemCount");
  for (std::size_t i = 0; i < items->size(); ++i) {
    Json& item = items->at(i);
    if (!item.is_object()) return make_error(Errc::corrupt, "an item of a list is no object");
    // Kubernetes leaves these out in lists of its own kinds.
    if (!item.contains("apiVersion")) item.set("apiVersion", kind.api_version());
    if (!item.contains("kind")) item.set("kind", kind.kind);
    listed.items.push_back(std::make_shared<const Json>(std::move(item)));
  }
  return listed;
}

}  // namespace moor::registry
