#include "doors/kube/form.h"

#include <fmt/format.h>

#include <functional>
#include <vector>

#include "doors/kube/status.h"
#include "http/message.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

// More entries than that are not looked at.
constexpr int kMaxEntries = 32;

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = trim(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

struct Entry {
  std::string_view type;
  std::string_view as;
  std::string_view group;
  std::string_view version;
  bool refused = false;  // q=0
};

Entry parse_entry(std::string_view text) {
  Entry entry;
  entry.type = take_until(text, ';');
  while (!text.empty()) {
    std::string_view value = take_until(text, ';');
    const std::string_view name = take_until(value, '=');
    value = trim(value);
    if (name == "as") entry.as = value;
    if (name == "g") entry.group = value;
    if (name == "v") entry.version = value;
    if (name == "q") entry.refused = value == "0" || value == "0.0" || value == "0.00" || value == "0.000";
  }
  return entry;
}

bool is_json(std::string_view type) {
  return http::equal_ignoring_case(type, "application/json") || type == "*/*" ||
         http::equal_ignoring_case(type, "application/*");
}

// Calls `take` with the entries in order until one is taken.
bool visit_entries(std::string_view accept, const std::function<bool(const Entry&)>& take) {
  if (trim(accept).empty()) accept = "*/*";
  for (int count = 0; !accept.empty() && count < kMaxEntries; ++count) {
    const Entry entry = parse_entry(take_until(accept, ','));
    if (!entry.refused && is_json(entry.type) && take(entry)) return true;
  }
  return false;
}

registry::Refusal refuse_accept(std::string_view accept) {
  return not_acceptable(
      fmt::format("only the following media types are accepted: application/json (asked for: {})", accept));
}

}  // namespace

registry::Answer<FormWanted> find_form(std::string_view accept, std::string_view include_object) {
  FormWanted wanted;
  const bool found = visit_entries(accept, [&wanted](const Entry& entry) {
    if (entry.as.empty()) {
      wanted.form = Form::object;
      return true;
    }
    if (entry.group != "meta.k8s.io" || entry.version != "v1") return false;
    if (entry.as == "Table")
      wanted.form = Form::table;
    else if (entry.as == "PartialObjectMetadata" || entry.as == "PartialObjectMetadataList")
      wanted.form = Form::metadata;
    else
      return false;
    return true;
  });
  if (!found) return refuse_accept(accept);
  if (wanted.form == Form::table) {
    const auto include = model::parse_include_object(include_object);
    if (!include)
      return registry::refuse_bad_request(
          fmt::format("unrecognized includeObject value: \"{}\"", include_object));
    wanted.include = *include;
  }
  return wanted;
}

registry::Answer<std::string> find_discovery_form(std::string_view accept) {
  std::string form;
  const bool found = visit_entries(accept, [&form](const Entry& entry) {
    if (entry.as.empty()) return true;
    if (entry.as != "APIGroupDiscoveryList" || entry.group != "apidiscovery.k8s.io") return false;
    if (entry.version != "v2" && entry.version != "v2beta1") return false;
    form = entry.version;
    return true;
  });
  if (!found) return refuse_accept(accept);
  return form;
}

}  // namespace moor::doors::kube
