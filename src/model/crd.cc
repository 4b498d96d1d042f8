#include "model/crd.h"

#include "model/schema_json.h"
#include "model/yaml.h"

namespace moor::model {
namespace {

Json names_of(const KindInfo& kind) {
  Json names = Json::object({{"kind", kind.kind},
                             {"listKind", kind.list_kind()},
                             {"plural", kind.plural},
                             {"singular", kind.singular}});
  if (!kind.short_names.empty()) names.set("shortNames", strings(kind.short_names));
  if (!kind.categories.empty()) names.set("categories", strings(kind.categories));
  return names;
}

Json columns_of(const KindInfo& kind) {
  Json columns = Json::array();
  for (const Column& column : kind.columns) {
    if (column.path.empty()) continue;
    Json one = Json::object({{"name", column.name}, {"type", column.type}, {"jsonPath", column.path}});
    if (!column.description.empty()) one.set("description", column.description);
    if (column.priority != 0) one.set("priority", column.priority);
    columns.push_back(std::move(one));
  }
  return columns;
}

}  // namespace

Json crd_manifest(const KindInfo& kind) {
  Json version = Json::object(
      {{"name", kind.version},
       {"served", true},
       {"storage", true},
       {"schema", Json::object({{"openAPIV3Schema", struct_json(*kind.schema, Nesting::inlined)}})}});
  if (kind.has_status) version.set("subresources", Json::object({{"status", Json::object()}}));
  if (Json columns = columns_of(kind); !columns.empty())
    version.set("additionalPrinterColumns", std::move(columns));
  Json metadata = Json::object({{"name", kind.qualified_resource()}});
  // A cluster refuses CRDs in groups under k8s.io without this. The snapshotter's own CRDs are the first
  // choice there.
  if (kind.group.ends_with(".k8s.io"))
    metadata.set("annotations", Json::object({{"api-approved.kubernetes.io",
                                               "unapproved, compatible with external-snapshotter v1"}}));
  return Json::object({{"apiVersion", "apiextensions.k8s.io/v1"},
                       {"kind", "CustomResourceDefinition"},
                       {"metadata", std::move(metadata)},
                       {"spec", Json::object({{"group", kind.group},
                                              {"names", names_of(kind)},
                                              {"scope", kind.namespaced ? "Namespaced" : "Cluster"},
                                              {"versions", Json::array({std::move(version)})}})}});
}

std::string crd_manifests_yaml() {
  std::string text;
  for (const KindInfo* kind : all_kinds())
    if (kind->custom) text += "---\n" + to_yaml(crd_manifest(*kind));
  return text;
}

}  // namespace moor::model
