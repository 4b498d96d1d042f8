#include "model/discovery.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/schema_json.h"

namespace moor::model {
namespace {

const std::vector<std::string_view> kVerbs = {"create", "delete", "deletecollection", "get",
                                              "list",   "patch",  "update",           "watch"};
const std::vector<std::string_view> kStatusVerbs = {"get", "patch", "update"};
const std::vector<std::string_view> kCreateVerb = {"create"};

std::string text_of(const GroupVersion& version) {
  return version.group.empty() ? std::string(version.version)
                               : fmt::format("{}/{}", version.group, version.version);
}

// Subresources and what may be done with them. An action such as a binding is only ever created.
std::vector<std::pair<std::string_view, const std::vector<std::string_view>*>> subresources(
    const KindInfo& kind) {
  std::vector<std::pair<std::string_view, const std::vector<std::string_view>*>> list;
  if (kind.has_status) list.emplace_back("status", &kStatusVerbs);
  for (const std::string_view name : kind.subresources)
    list.emplace_back(name, name == "finalize" ? &kStatusVerbs : &kCreateVerb);
  return list;
}

Json plain_resource(const KindInfo& kind) {
  Json resource = Json::object({{"name", kind.plural},
                                {"singularName", kind.singular},
                                {"namespaced", kind.namespaced},
                                {"kind", kind.kind},
                                {"verbs", strings(kVerbs)}});
  if (!kind.short_names.empty()) resource.set("shortNames", strings(kind.short_names));
  if (!kind.categories.empty()) resource.set("categories", strings(kind.categories));
  return resource;
}

Json response_kind(const GroupVersion& version, std::string_view kind) {
  return Json::object({{"group", version.group}, {"version", version.version}, {"kind", kind}});
}

Json aggregated_resource(const KindInfo& kind) {
  const GroupVersion version{kind.group, kind.version};
  Json resource = Json::object({{"resource", kind.plural},
                                {"responseKind", response_kind(version, kind.kind)},
                                {"scope", kind.namespaced ? "Namespaced" : "Cluster"},
                                {"singularResource", kind.singular},
                                {"verbs", strings(kVerbs)}});
  if (!kind.short_names.empty()) resource.set("shortNames", strings(kind.short_names));
  if (!kind.categories.empty()) resource.set("categories", strings(kind.categories));
  Json subs = Json::array();
  for (const auto& [name, verbs] : subresources(kind))
    subs.push_back(Json::object({{"subresource", name},
                                 {"responseKind", response_kind(version, kind.kind)},
                                 {"verbs", strings(*verbs)}}));
  if (!subs.empty()) resource.set("subresources", std::move(subs));
  return resource;
}

Json group_version_json(const GroupVersion& version) {
  return Json::object({{"groupVersion", text_of(version)}, {"version", version.version}});
}

}  // namespace

Discovery::Discovery(std::string server_address, std::vector<VirtualResource> virtual_resources)
    : server_address_(std::move(server_address)), virtual_(std::move(virtual_resources)) {}

std::vector<GroupVersion> Discovery::group_versions() const {
  const auto stored = all_group_versions();
  std::vector<GroupVersion> list(stored.begin(), stored.end());
  for (const VirtualResource& one : virtual_) {
    const GroupVersion version{one.group, one.version};
    if (std::find(list.begin(), list.end(), version) == list.end()) list.push_back(version);
  }
  return list;
}

Json Discovery::api_versions() const {
  return Json::object(
      {{"kind", "APIVersions"},
       {"versions", Json::array({"v1"})},
       {"serverAddressByClientCIDRs",
        Json::array({Json::object({{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", server_address_}})})}});
}

Json Discovery::api_group(std::string_view group) const {
  Json versions = Json::array();
  for (const GroupVersion& version : group_versions())
    if (version.group == group) versions.push_back(group_version_json(version));
  if (group.empty() || versions.empty()) return {};
  Json preferred = versions.at(0);
  return Json::object({{"kind", "APIGroup"},
                       {"apiVersion", "v1"},
                       {"name", group},
                       {"versions", std::move(versions)},
                       {"preferredVersion", std::move(preferred)}});
}

Json Discovery::api_group_list() const {
  Json groups = Json::array();
  std::vector<std::string_view> seen;
  for (const GroupVersion& version : group_versions()) {
    if (version.group.empty() || std::find(seen.begin(), seen.end(), version.group) != seen.end()) continue;
    seen.push_back(version.group);
    Json group = api_group(version.group);
    group.erase("kind");
    group.erase("apiVersion");
    groups.push_back(std::move(group));
  }
  return Json::object({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}});
}

Json Discovery::api_resource_list(const GroupVersion& version) const {
  Json resources = Json::array();
  for (const KindInfo* kind : kinds_of(version)) {
    resources.push_back(plain_resource(*kind));
    for (const auto& [name, verbs] : subresources(*kind))
      resources.push_back(Json::object({{"name", fmt::format("{}/{}", kind->plural, name)},
                                        {"singularName", ""},
                                        {"namespaced", kind->namespaced},
                                        {"kind", kind->kind},
                                        {"verbs", strings(*verbs)}}));
  }
  for (const VirtualResource& one : virtual_)
    if (one.group == version.group && one.version == version.version)
      resources.push_back(Json::object({{"name", one.resource},
                                        {"singularName", one.singular},
                                        {"namespaced", one.namespaced},
                                        {"kind", one.kind},
                                        {"verbs", strings(one.verbs)}}));
  if (resources.empty()) return {};
  return Json::object({{"kind", "APIResourceList"},
                       {"apiVersion", "v1"},
                       {"groupVersion", text_of(version)},
                       {"resources", std::move(resources)}});
}

Json Discovery::aggregated(bool core, std::string_view form) const {
  Json items = Json::array();
  std::vector<std::string_view> seen;
  const auto versions = group_versions();
  for (const GroupVersion& first : versions) {
    if (first.group.empty() != core || std::find(seen.begin(), seen.end(), first.group) != seen.end())
      continue;
    seen.push_back(first.group);
    Json list = Json::array();
    for (const GroupVersion& version : versions) {
      if (version.group != first.group) continue;
      Json resources = Json::array();
      for (const KindInfo* kind : kinds_of(version)) resources.push_back(aggregated_resource(*kind));
      for (const VirtualResource& one : virtual_)
        if (one.group == version.group && one.version == version.version)
          resources.push_back(Json::object({{"resource", one.resource},
                                            {"responseKind", response_kind(version, one.kind)},
                                            {"scope", one.namespaced ? "Namespaced" : "Cluster"},
                                            {"singularResource", one.singular},
                                            {"verbs", strings(one.verbs)}}));
      list.push_back(Json::object(
          {{"version", version.version}, {"resources", std::move(resources)}, {"freshness", "Current"}}));
    }
    items.push_back(
        Json::object({{"metadata", Json::object({{"name", first.group}, {"creationTimestamp", Json()}})},
                      {"versions", std::move(list)}}));
  }
  return Json::object({{"kind", "APIGroupDiscoveryList"},
                       {"apiVersion", fmt::format("apidiscovery.k8s.io/{}", form)},
                       {"metadata", Json::object()},
                       {"items", std::move(items)}});
}

}  // namespace moor::model
