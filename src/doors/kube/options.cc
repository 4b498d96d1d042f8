#include "doors/kube/options.h"

#include <fmt/format.h>

#include <charconv>

#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

using registry::Answer;
using registry::refuse_bad_request;

constexpr std::size_t kLongestManager = 128;

std::string text_of(const http::Query& query, std::string_view name) {
  return std::string(query.get(name).value_or(""));
}

Answer<std::int64_t> number_of(const http::Query& query, std::string_view name, std::int64_t otherwise) {
  const auto text = query.get(name);
  if (!text || text->empty()) return otherwise;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0)
    return refuse_bad_request(fmt::format("{}: \"{}\" is not a number of zero or more", name, *text));
  return value;
}

Answer<bool> bool_of(const http::Query& query, std::string_view name) {
  const auto text = query.get(name);
  if (!text || text->empty() || *text == "false" || *text == "0" || *text == "False") return false;
  if (*text == "true" || *text == "1" || *text == "True") return true;
  return refuse_bad_request(fmt::format("{}: \"{}\" is neither true nor false", name, *text));
}

registry::Refusal refuse_option(std::string_view options, model::Cause cause) {
  registry::Refusal refusal{
      make_error(Errc::invalid, fmt::format("{}.meta.k8s.io \"\" is invalid: {}", options,
                                            model::to_text(model::Causes{cause}))),
      "Invalid",
      {std::move(cause)},
      {}};
  return refusal;
}

Answer<bool> dry_run_of(std::string_view options, const std::vector<std::string_view>& values) {
  bool dry = false;
  for (const std::string_view value : values) {
    if (value.empty()) continue;
    if (value != "All") return refuse_option(options, model::not_supported("dryRun", Json(value), {"All"}));
    dry = true;
  }
  return dry;
}

Answer<void> read_selectors(const http::Query& query, registry::LabelSelector& labels,
                            registry::FieldSelector& fields) {
  auto label = registry::LabelSelector::parse(query.get("labelSelector").value_or(""));
  if (!label)
    return refuse_bad_request(fmt::format("unable to parse labelSelector: {}", label.error().message));
  auto field = registry::FieldSelector::parse(query.get("fieldSelector").value_or(""));
  if (!field)
    return refuse_bad_request(fmt::format("unable to parse fieldSelector: {}", field.error().message));
  labels = std::move(*label);
  fields = std::move(*field);
  return {};
}

// kubectl/v1.30 (linux/amd64) … : the word before the first slash says who writes.
std::string manager_of(const http::Request& request) {
  const std::string_view agent = request.headers.get("user-agent").value_or("");
  std::string manager(agent.substr(0, std::min(agent.find_first_of("/ "), kLongestManager)));
  return manager.empty() ? "unknown" : manager;
}

Answer<registry::FieldValidation> field_validation_of(std::string_view text) {
  if (text.empty() || text == "Warn") return registry::FieldValidation::warn;
  if (text == "Strict") return registry::FieldValidation::strict;
  if (text == "Ignore") return registry::FieldValidation::ignore;
  return refuse_option("CreateOptions",
                       model::not_supported("fieldValidation", Json(text), {"Ignore", "Warn", "Strict"}));
}

Answer<registry::Propagation> propagation_of(std::string_view text) {
  if (text == "Background") return registry::Propagation::background;
  if (text == "Foreground") return registry::Propagation::foreground;
  if (text == "Orphan") return registry::Propagation::orphan;
  return refuse_option("DeleteOptions", model::not_supported("propagationPolicy", Json(text),
                                                             {"Background", "Foreground", "Orphan"}));
}

Answer<void> read_delete_body(const Json& body, registry::DeleteOptions& options,
                              std::vector<std::string_view>& dry_run) {
  if (body.is_null()) return {};
  const auto kind = body.get_string("kind").value_or("DeleteOptions");
  if (!body.is_object() || kind != "DeleteOptions")
    return refuse_bad_request("the body of a DELETE is a DeleteOptions object");
  if (const auto policy = body.get_string("propagationPolicy")) {
    TRY(options.propagation, propagation_of(*policy));
  } else if (const auto orphan = body.get_bool("orphanDependents")) {
    options.propagation = *orphan ? registry::Propagation::orphan : registry::Propagation::background;
  }
  if (const Json* grace = body.find("gracePeriodSeconds"); grace != nullptr && !grace->is_null()) {
    options.grace_period_seconds = grace->to_int64();
    if (!options.grace_period_seconds || *options.grace_period_seconds < 0)
      return refuse_bad_request("gracePeriodSeconds must be a number of zero or more");
  }
  if (const Json* conditions = body.find("preconditions")) {
    if (const auto uid = conditions->get_string("uid")) options.uid = *uid;
    if (const auto version = conditions->get_string("resourceVersion")) options.resource_version = *version;
  }
  const Json* dry = body.find("dryRun");
  for (std::size_t i = 0; dry != nullptr && dry->is_array() && i < dry->size(); ++i) {
    if (!dry->at(i).is_string()) return refuse_bad_request("dryRun is a list of strings");
    dry_run.push_back(dry->at(i).as_string());
  }
  return {};
}

}  // namespace

Answer<registry::ListOptions> list_options(const http::Query& query) {
  registry::ListOptions options;
  TRY_VOID(read_selectors(query, options.labels, options.fields));
  TRY(const std::int64_t limit, number_of(query, "limit", 0));
  options.limit = static_cast<std::size_t>(limit);
  options.continue_token = text_of(query, "continue");
  options.resource_version = text_of(query, "resourceVersion");
  options.resource_version_match = text_of(query, "resourceVersionMatch");
  TRY(const bool initial, bool_of(query, "sendInitialEvents"));
  if (initial)
    return refuse_option("ListOptions",
                         model::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
  return options;
}

Answer<registry::WriteOptions> write_options(const http::Request& request, const Caller& caller,
                                             std::optional<registry::PatchType> patch) {
  const http::Query& query = request.target.query;
  const bool apply = patch == registry::PatchType::apply;
  const char* kind = patch ? "PatchOptions" : "CreateOptions";
  registry::WriteOptions options;
  options.identity = caller.identity;
  options.field_manager = text_of(query, "fieldManager");
  if (options.field_manager.size() > kLongestManager)
    return refuse_option(kind, model::too_long("fieldManager", kLongestManager));
  if (options.field_manager.empty() && apply)
    return refuse_option(kind, model::required("fieldManager", "is required for apply patch"));
  if (options.field_manager.empty()) options.field_manager = manager_of(request);
  TRY(options.field_validation, field_validation_of(query.get("fieldValidation").value_or("")));
  TRY(options.dry_run, dry_run_of(kind, query.get_all("dryRun")));
  TRY(options.force, bool_of(query, "force"));
  if (patch && !apply && query.has("force"))
    return refuse_option(kind, model::forbidden("force", "may not be specified for non-apply patch"));
  return options;
}

Answer<registry::DeleteOptions> delete_options(const http::Query& query, const Json& body,
                                               const Caller& caller) {
  registry::DeleteOptions options;
  options.identity = caller.identity;
  std::vector<std::string_view> dry_run = query.get_all("dryRun");
  if (const auto policy = query.get("propagationPolicy")) {
    TRY(options.propagation, propagation_of(*policy));
  } else if (query.has("orphanDependents")) {
    TRY(const bool orphan, bool_of(query, "orphanDependents"));
    options.propagation = orphan ? registry::Propagation::orphan : registry::Propagation::background;
  }
  if (query.has("gracePeriodSeconds")) {
    TRY(options.grace_period_seconds, number_of(query, "gracePeriodSeconds", 0));
  }
  TRY_VOID(read_delete_body(body, options, dry_run));
  TRY(options.dry_run, dry_run_of("DeleteOptions", dry_run));
  return options;
}

Answer<WatchWanted> watch_options(const http::Query& query) {
  WatchWanted wanted;
  registry::WatchOptions& options = wanted.options;
  TRY_VOID(read_selectors(query, options.labels, options.fields));
  options.resource_version = text_of(query, "resourceVersion");
  TRY(options.send_initial_events, bool_of(query, "sendInitialEvents"));
  TRY(wanted.bookmarks, bool_of(query, "allowWatchBookmarks"));
  const std::string_view match = query.get("resourceVersionMatch").value_or("");
  if (options.send_initial_events && match != "NotOlderThan")
    return refuse_option("ListOptions",
                         model::forbidden("resourceVersionMatch",
                                          "sendInitialEvents requires resourceVersionMatch=NotOlderThan"));
  if (!query.has("sendInitialEvents") && !match.empty())
    return refuse_option("ListOptions", model::forbidden("resourceVersionMatch",
                                                         "resourceVersionMatch is forbidden for watch unless "
                                                         "sendInitialEvents is provided"));
  TRY(const std::int64_t seconds, number_of(query, "timeoutSeconds", 0));
  if (seconds > 0) wanted.timeout = std::chrono::seconds(std::min<std::int64_t>(seconds, 24 * 3600));
  return wanted;
}

}  // namespace moor::doors::kube
