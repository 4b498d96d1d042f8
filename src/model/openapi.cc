#include "model/openapi.h"

#include <fmt/format.h>

#include "model/meta/object_meta.h"
#include "model/meta/status.h"
#include "model/schema_json.h"

namespace moor::model {
namespace {

struct Parameter {
  std::string_view name;
  std::string_view type;
  std::string_view description;
};
constexpr Parameter kPretty = {"pretty", "string", "If true, the answer is indented."};
constexpr Parameter kDryRun = {"dryRun", "string", "All: decide, but change nothing."};
constexpr Parameter kFieldManager = {"fieldManager", "string", "Name under which the fields are managed."};
constexpr Parameter kFieldValidation = {
    "fieldValidation", "string", "What is done about unknown and duplicate fields: Ignore, Warn or Strict."};
constexpr Parameter kForce = {"force", "boolean",
                              "Take over fields that other managers own; for apply only."};
constexpr Parameter kListParameters[] = {
    {"allowWatchBookmarks", "boolean", "Send bookmarks in a watch."},
    {"continue", "string", "Token of the next part of a list."},
    {"fieldSelector", "string", "Restricts the list by fields."},
    {"labelSelector", "string", "Restricts the list by labels."},
    {"limit", "integer", "Most items in one answer."},
    {"resourceVersion", "string", "Version that the answer may not be older than."},
    {"resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."},
    {"sendInitialEvents", "boolean", "Begin a watch with the objects as they are."},
    {"timeoutSeconds", "integer", "Ends a list or watch after this time."},
    {"watch", "boolean", "Watch changes instead of listing."},
};
constexpr Parameter kDeleteParameters[] = {
    {"gracePeriodSeconds", "integer", "Seconds the object has to end by itself."},
    {"orphanDependents", "boolean", "Old form of propagationPolicy."},
    {"propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."},
};

Json query(const Parameter& parameter) {
  return Json::object({{"name", parameter.name},
                       {"in", "query"},
                       {"description", parameter.description},
                       {"schema", Json::object({{"type", parameter.type}, {"uniqueItems", true}})}});
}

Json in_path(std::string_view name, std::string_view description) {
  return Json::object({{"name", name},
                       {"in", "path"},
                       {"description", description},
                       {"required", true},
                       {"schema", Json::object({{"type", "string"}, {"uniqueItems", true}})}});
}

Json refer(const std::string& reference) {
  return Json::object({{"schema", Json::object({{"$ref", reference}})}});
}

const StructSchema& status_schema() {
  return struct_schema(static_cast<const Status*>(nullptr));
}

const StructSchema& delete_options_schema() {
  return struct_schema(static_cast<const DeleteOptions*>(nullptr));
}

// Writes the paths of one kind.
class KindPaths {
 public:
  KindPaths(const KindInfo& kind, Json& paths)
      : kind_(kind),
        paths_(paths),
        object_(reference_to(*kind.schema)),
        list_(object_ + "List"),
        prefix_(kind.group.empty() ? fmt::format("/api/{}", kind.version)
                                   : fmt::format("/apis/{}/{}", kind.group, kind.version)) {}

  void add() {
    const std::string base = kind_.namespaced
                                 ? fmt::format("{}/namespaces/{{namespace}}/{}", prefix_, kind_.plural)
                                 : fmt::format("{}/{}", prefix_, kind_.plural);
    paths_.set(base, collection());
    paths_.set(base + "/{name}", item(""));
    if (kind_.has_status) paths_.set(base + "/{name}/status", item("status"));
    if (!kind_.namespaced) return;
    Json everywhere = Json::object({{"get", operation("list", "listAll", list_)}});
    add_parameters(everywhere, kListParameters);
    everywhere.set("parameters", common(false, false));
    paths_.set(fmt::format("{}/{}", prefix_, kind_.plural), std::move(everywhere));
  }

 private:
  Json operation(std::string_view action, std::string_view verb, const std::string& answer) const {
    Json content = Json::object();
    content.set("application/json", refer(answer));
    return Json::object(
        {{"operationId", fmt::format("{}{}{}{}", verb, kind_.kind, kind_.version, kind_.group)},
         {"description", fmt::format("{} {}", action, kind_.plural)},
         {"tags", Json::array({Json(kind_.group.empty() ? "core" : kind_.group)})},
         {"responses",
          Json::object({{"200", Json::object({{"description", "OK"}, {"content", std::move(content)}})},
                        {"401", Json::object({{"description", "Unauthorized"}})}})},
         {"x-kubernetes-action", action},
         {"x-kubernetes-group-version-kind",
          Json::object({{"group", kind_.group}, {"version", kind_.version}, {"kind", kind_.kind}})}});
  }

  static void add_parameters(Json& path_item, std::span<const Parameter> parameters) {
    for (std::size_t i = 0; i < path_item.size(); ++i)
      for (const Parameter& parameter : parameters)
        parameters_of(path_item.value_at(i)).push_back(query(parameter));
  }
  static Json& parameters_of(Json& op) {
    Json& list = op["parameters"];
    if (!list.is_array()) list = Json::array();
    return list;
  }

  // Parameters that stand for every operation of a path.
  Json common(bool with_name, bool with_namespace) const {
    Json list = Json::array();
    if (with_name) list.push_back(in_path("name", fmt::format("Name of the {}.", kind_.kind)));
    if (with_namespace) list.push_back(in_path("namespace", "Namespace of the object."));
    list.push_back(query(kPretty));
    return list;
  }

  Json write(std::string_view action, std::string_view verb) const {
    Json op = operation(action, verb, object_);
    op.set("requestBody",
           Json::object({{"required", true}, {"content", Json::object({{"*/*", refer(object_)}})}}));
    for (const Parameter& parameter : {kDryRun, kFieldManager, kFieldValidation})
      parameters_of(op).push_back(query(parameter));
    return op;
  }

  Json patch() const {
    Json op = operation("patch", "patch", object_);
    Json content = Json::object();
    for (const std::string_view type :
         {"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
          "application/strategic-merge-patch+json"}) {
      if (type.find("strategic") != std::string_view::npos && !kind_.strategic_patch) continue;
      content.set(type, refer("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"));
    }
    op.set("requestBody", Json::object({{"required", true}, {"content", std::move(content)}}));
    for (const Parameter& parameter : {kDryRun, kFieldManager, kFieldValidation, kForce})
      parameters_of(op).push_back(query(parameter));
    return op;
  }

  Json remove(std::string_view action, std::string_view verb) const {
    Json op = operation(action, verb, reference_to(status_schema()));
    op.set(
        "requestBody",
        Json::object({{"content", Json::object({{"*/*", refer(reference_to(delete_options_schema()))}})}}));
    for (const Parameter& parameter : kDeleteParameters) parameters_of(op).push_back(query(parameter));
    parameters_of(op).push_back(query(kDryRun));
    return op;
  }

  Json collection() const {
    Json path_item = Json::object({{"get", operation("list", "list", list_)},
                                   {"delete", remove("deletecollection", "deleteCollection")}});
    add_parameters(path_item, kListParameters);
    path_item.set("post", write("post", "create"));
    path_item.set("parameters", common(false, kind_.namespaced));
    return path_item;
  }

  Json item(std::string_view subresource) const {
    const std::string suffix(subresource);
    Json path_item = Json::object({{"get", operation("get", "read" + suffix, object_)},
                                   {"put", write("put", "replace" + suffix)},
                                   {"patch", patch()}});
    if (subresource.empty()) path_item.set("delete", remove("delete", "delete"));
    path_item.set("parameters", common(true, kind_.namespaced));
    return path_item;
  }

  const KindInfo& kind_;
  Json& paths_;
  std::string object_;
  std::string list_;
  std::string prefix_;
};

Json list_component(const KindInfo& kind, const Json& versioned) {
  Json properties = Json::object();
  properties.set("apiVersion",
                 Json::object({{"type", "string"}, {"description", "The group and version of the list."}}));
  properties.set("kind", Json::object({{"type", "string"}, {"description", "The kind of the list."}}));
  properties.set(
      "metadata",
      Json::object({{"$ref", reference_to(struct_schema(static_cast<const ListMeta*>(nullptr)))}}));
  properties.set("items", Json::object({{"type", "array"},
                                        {"description", fmt::format("The {}.", kind.plural)},
                                        {"items", Json::object({{"$ref", reference_to(*kind.schema)}})}}));
  return Json::object({{"type", "object"},
                       {"description", fmt::format("A list of {}.", kind.plural)},
                       {"required", Json::array({"items"})},
                       {"properties", std::move(properties)},
                       {"x-kubernetes-group-version-kind", versioned}});
}

Json versioned_kind(const KindInfo& kind, const std::string& name) {
  return Json::array({Json::object({{"group", kind.group}, {"version", kind.version}, {"kind", name}})});
}

}  // namespace

std::string openapi_path(const GroupVersion& version) {
  return version.group.empty() ? fmt::format("api/{}", version.version)
                               : fmt::format("apis/{}/{}", version.group, version.version);
}

Json openapi_document(const GroupVersion& version) {
  Json paths = Json::object();
  Json schemas = Json::object();
  std::map<std::string, const StructSchema*> structs;
  collect_structs(status_schema(), structs);
  collect_structs(delete_options_schema(), structs);
  const auto kinds = kinds_of(version);
  for (const KindInfo* kind : kinds) collect_structs(*kind->schema, structs);
  for (const auto& [name, one] : structs) schemas.set(name, struct_json(*one, Nesting::reference));
  for (const KindInfo* kind : kinds) {
    KindPaths(*kind, paths).add();
    const std::string component = kind->schema->component();
    schemas[component].set("x-kubernetes-group-version-kind", versioned_kind(*kind, std::string(kind->kind)));
    schemas.set(component + "List", list_component(*kind, versioned_kind(*kind, kind->list_kind())));
  }
  schemas.set("io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
              Json::object({{"type", "object"},
                            {"description", "A patch, in the form that the content type names."}}));
  return Json::object({{"openapi", "3.0.0"},
                       {"info", Json::object({{"title", "Mooring"}, {"version", version.version}})},
                       {"paths", std::move(paths)},
                       {"components", Json::object({{"schemas", std::move(schemas)}})}});
}

Json openapi_index(const std::map<std::string, std::string>& hash_by_path) {
  Json paths = Json::object();
  for (const auto& [path, hash] : hash_by_path)
    paths.set(path, Json::object({{"serverRelativeURL", fmt::format("/openapi/v3/{}?hash={}", path, hash)}}));
  return Json::object({{"paths", std::move(paths)}});
}

std::string openapi_hash(std::string_view document_text) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: enough to tell versions of our own document apart
  for (const char c : document_text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016X}", hash);
}

}  // namespace moor::model
