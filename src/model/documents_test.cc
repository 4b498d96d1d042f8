// What is generated for clients: discovery, OpenAPI, CRDs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/crd.h"
#include "model/discovery.h"
#include "model/openapi.h"
#include "model/openapi_v2.h"
#include "model/yaml.h"

namespace moor::model {
namespace {

// Calls visit(json) for every value in a document.
template <class Visit>
void walk(const Json& json, const Visit& visit) {
  visit(json);
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) walk(json.at(i), visit);
  if (json.is_object())
    for (std::size_t i = 0; i < json.size(); ++i) walk(json.value_at(i), visit);
}

TEST(OpenApi, EveryReferenceResolvesAndEveryKindIsPresent) {
  for (const GroupVersion& version : all_group_versions()) {
    const Json document = openapi_document(version);
    const Json& schemas = *document.find_path({"components", "schemas"});
    int references = 0;
    walk(document, [&](const Json& value) {
      const auto reference = value.get_string("$ref");
      if (!reference) return;
      ++references;
      ASSERT_TRUE(reference->starts_with("#/components/schemas/"));
      EXPECT_NE(schemas.find(reference->substr(21)), nullptr) << *reference;
    });
    EXPECT_GT(references, 10);
    for (const KindInfo* kind : kinds_of(version)) {
      const Json* schema = schemas.find(kind->schema->component());
      ASSERT_NE(schema, nullptr) << kind->kind;
      const Json& gvk = schema->find("x-kubernetes-group-version-kind")->at(0);
      EXPECT_EQ(gvk.get_string("kind"), kind->kind);
      EXPECT_EQ(gvk.get_string("group"), kind->group);
      EXPECT_TRUE(schemas.contains(kind->schema->component() + "List"));
    }
  }
}

TEST(OpenApi, PatchListsFieldValidationForEveryResource) {
  for (const KindInfo* kind : all_kinds()) {
    const Json document = openapi_document({kind->group, kind->version});
    const std::string prefix = "/" + openapi_path({kind->group, kind->version}) +
                               (kind->namespaced ? "/namespaces/{namespace}/" : "/") +
                               std::string(kind->plural);
    const Json* item = document.find_path({"paths", prefix + "/{name}"});
    ASSERT_NE(item, nullptr) << prefix;
    const Json* patch = item->find("patch");
    ASSERT_NE(patch, nullptr);
    EXPECT_EQ(patch->get_string("x-kubernetes-action"), "patch");
    EXPECT_EQ(patch->find("x-kubernetes-group-version-kind")->get_string("kind"), kind->kind);
    bool found = false;
    const Json& parameters = *patch->find("parameters");
    for (std::size_t i = 0; i < parameters.size(); ++i)
      found = found || (parameters.at(i).get_string("name") == "fieldValidation" &&
                        parameters.at(i).get_string("in") == "query");
    EXPECT_TRUE(found) << kind->kind;
    EXPECT_EQ(
        patch->find_path({"requestBody", "content"})->contains("application/strategic-merge-patch+json"),
        kind->strategic_patch);
    for (const char* verb : {"get", "put", "delete"}) EXPECT_TRUE(item->contains(verb)) << kind->kind << verb;
    for (const char* verb : {"get", "post", "delete"})
      EXPECT_TRUE(document.find_path({"paths", prefix})->contains(verb)) << kind->kind;
    EXPECT_EQ(document.find("paths")->contains(prefix + "/{name}/status"), kind->has_status) << kind->kind;
  }
}

TEST(OpenApi, IsTheSameInEveryRunAndHasAnIndex) {
  std::map<std::string, std::string> hashes;
  for (const GroupVersion& version : all_group_versions()) {
    const std::string text = to_text(openapi_document(version));
    EXPECT_EQ(text, to_text(openapi_document(version)));
    hashes[openapi_path(version)] = openapi_hash(text);
  }
  const Json index = openapi_index(hashes);
  EXPECT_EQ(index.find_path({"paths", "apis/longhorn.io/v1beta2", "serverRelativeURL"})->as_string(),
            "/openapi/v3/apis/longhorn.io/v1beta2?hash=" + hashes["apis/longhorn.io/v1beta2"]);
  EXPECT_TRUE(index.find("paths")->contains("api/v1"));
  EXPECT_NE(openapi_hash("a"), openapi_hash("b"));
}

TEST(OpenApi, FieldsSayWhatExplainShows) {
  const Json document = openapi_document({"longhorn.io", "v1beta2"});
  const Json& spec =
      *document.find_path({"components", "schemas", "io.longhorn.v1beta2.VolumeSpec", "properties"});
  EXPECT_EQ(spec.find("size")->get_string("type"), "string");
  EXPECT_EQ(spec.find("accessMode")->find("enum")->size(), 5u);
  EXPECT_EQ(spec.find("numberOfReplicas")->get_int64("maximum"), 20);
  EXPECT_EQ(spec.find("numberOfReplicas")->get_int64("default"), 3);
  const Json& status =
      *document.find_path({"components", "schemas", "io.longhorn.v1beta2.VolumeStatus", "properties"});
  EXPECT_EQ(status.find("conditions")->get_string("x-kubernetes-list-type"), "map");
}

// Reads length-delimited protobuf fields; absent when the bytes are none.
std::optional<std::vector<std::pair<std::uint64_t, std::string_view>>> wire_fields(std::string_view bytes) {
  const auto varint = [&bytes]() -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  };
  std::vector<std::pair<std::uint64_t, std::string_view>> fields;
  while (!bytes.empty()) {
    const auto tag = varint();
    const auto size = varint();
    if (!tag || (*tag & 7) != 2 || !size || *size > bytes.size()) return std::nullopt;
    fields.emplace_back(*tag >> 3, bytes.substr(0, *size));
    bytes.remove_prefix(*size);
  }
  return fields;
}

TEST(OpenApi, SecondVersionHasEveryKindInProtobuf) {
  const std::string bytes = openapi_v2_protobuf();
  const auto document = wire_fields(bytes);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->front().second, "2.0");
  const auto definitions = wire_fields(document->back().second);
  ASSERT_TRUE(definitions);
  std::set<std::string> names;
  for (const auto& [number, definition] : *definitions) {
    const auto entry = wire_fields(definition);
    ASSERT_TRUE(entry && entry->size() == 2);
    names.emplace(entry->front().second);
    EXPECT_TRUE(wire_fields(entry->back().second)) << entry->front().second;
  }
  for (const KindInfo* kind : all_kinds())
    EXPECT_TRUE(names.contains(kind->schema->component())) << kind->kind;
}

TEST(Discovery, PlainFormsListEveryResource) {
  const Discovery discovery("127.0.0.1:6440");
  EXPECT_EQ(
      to_text(discovery.api_versions()),
      R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"127.0.0.1:6440"}]})");
  const Json groups = discovery.api_group_list();
  EXPECT_EQ(groups.find("groups")->at(0).get_string("name"), "storage.k8s.io");
  EXPECT_EQ(groups.find("groups")->size(), 5u);
  EXPECT_EQ(discovery.api_group("longhorn.io").find("preferredVersion")->get_string("groupVersion"),
            "longhorn.io/v1beta2");
  EXPECT_TRUE(discovery.api_group("nothing.io").is_null());
  EXPECT_TRUE(discovery.api_resource_list({"longhorn.io", "v9"}).is_null());
  for (const KindInfo* kind : all_kinds()) {
    const Json list = discovery.api_resource_list({kind->group, kind->version});
    EXPECT_EQ(list.get_string("groupVersion"), kind->api_version());
    std::set<std::string> names;
    for (std::size_t i = 0; i < list.find("resources")->size(); ++i)
      names.emplace(*list.find("resources")->at(i).get_string("name"));
    EXPECT_TRUE(names.contains(std::string(kind->plural)));
    EXPECT_EQ(names.contains(std::string(kind->plural) + "/status"), kind->has_status) << kind->kind;
  }
}

TEST(Discovery, AggregatedFormHasTheVersionThatWasAskedFor) {
  const Discovery discovery("h:1", {{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                     "selfsubjectaccessreview", "SelfSubjectAccessReview"}});
  const Json core = discovery.aggregated(true, "v2beta1");
  EXPECT_EQ(core.get_string("apiVersion"), "apidiscovery.k8s.io/v2beta1");
  ASSERT_EQ(core.find("items")->size(), 1u);
  const Json rest = discovery.aggregated(false, "v2");
  EXPECT_EQ(rest.get_string("apiVersion"), "apidiscovery.k8s.io/v2");
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < rest.find("items")->size(); ++i)
    groups.emplace_back(*rest.find("items")->at(i).find("metadata")->get_string("name"));
  EXPECT_THAT(groups, testing::ElementsAre("storage.k8s.io", "coordination.k8s.io", "snapshot.storage.k8s.io",
                                           "longhorn.io", "mooring.io", "authorization.k8s.io"));
  const Json& volume = rest.find("items")->at(3).find("versions")->at(0).find("resources")->at(0);
  EXPECT_EQ(volume.get_string("resource"), "volumes");
  EXPECT_EQ(volume.get_string("scope"), "Namespaced");
  EXPECT_EQ(volume.find("responseKind")->get_string("kind"), "Volume");
  EXPECT_EQ(volume.find("subresources")->at(0).get_string("subresource"), "status");
  EXPECT_EQ(volume.find("shortNames")->at(0), Json("lhv"));
}

// The rules that a real API server has for structural schemas.
void check_structural(const Json& schema, const std::string& path) {
  ASSERT_TRUE(schema.is_object()) << path;
  EXPECT_FALSE(schema.contains("$ref")) << path;
  for (const char* refused : {"x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "uniqueItems"})
    EXPECT_FALSE(schema.contains(refused)) << path;
  EXPECT_TRUE(schema.contains("type") || schema.contains("x-kubernetes-int-or-string") ||
              schema.contains("x-kubernetes-preserve-unknown-fields"))
      << path;
  EXPECT_FALSE(schema.contains("properties") && schema.contains("additionalProperties")) << path;
  if (const Json* properties = schema.find("properties"))
    for (std::size_t i = 0; i < properties->size(); ++i)
      check_structural(properties->value_at(i), path + "." + std::string(properties->key_at(i)));
  if (const Json* values = schema.find("additionalProperties")) check_structural(*values, path + "{}");
  const Json* items = schema.find("items");
  EXPECT_EQ(items != nullptr, schema.get_string("type") == "array") << path;
  if (items == nullptr) return;
  check_structural(*items, path + "[]");
  if (schema.get_string("x-kubernetes-list-type") != "map") return;
  const Json& keys = *schema.find("x-kubernetes-list-map-keys");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Json* key = items->find("properties")->find(keys.at(i).as_string());
    ASSERT_NE(key, nullptr) << path;
    bool required = key->contains("default");
    const Json* list = items->find("required");
    for (std::size_t j = 0; list != nullptr && j < list->size(); ++j)
      required = required || list->at(j) == keys.at(i);
    EXPECT_TRUE(required) << path << ": the key " << keys.at(i).as_string()
                          << " must be required or have a default";
  }
}

TEST(Crd, ManifestsHoldWhatARealClusterAsksFor) {
  int count = 0;
  for (const KindInfo* kind : all_kinds()) {
    if (!kind->custom) continue;
    ++count;
    const Json manifest = crd_manifest(*kind);
    EXPECT_EQ(manifest.find("metadata")->get_string("name"), kind->qualified_resource());
    EXPECT_EQ(manifest.find("spec")->get_string("scope"), kind->namespaced ? "Namespaced" : "Cluster");
    const Json& version = manifest.find("spec")->find("versions")->at(0);
    check_structural(*version.find_path({"schema", "openAPIV3Schema"}), std::string(kind->kind));
    EXPECT_EQ(version.contains("subresources"), kind->has_status);
    const Json* columns = version.find("additionalPrinterColumns");
    for (std::size_t i = 0; columns != nullptr && i < columns->size(); ++i)
      EXPECT_TRUE(columns->at(i).get_string("jsonPath")->starts_with(".")) << kind->kind;
  }
  EXPECT_EQ(count, 20);
}

TEST(Crd, YamlIsOneStreamOfDocuments) {
  const std::string text = crd_manifests_yaml();
  EXPECT_TRUE(text.starts_with("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"));
  EXPECT_NE(text.find("\n  name: volumes.longhorn.io\n"), std::string::npos);
}

TEST(Yaml, QuotesWhatWouldBeReadAsSomethingElse) {
  const Json json = *parse_json(
      R"({"a":"plain text","b":"true","c":"12","d":"","e":"x: y","f":[],"g":{},"h":[1,[2,3],{"k":"v","l":null}],
    "i":"- x","j":"#x","k l":".5","m":"line\nbreak","n":{"o":[true]},"p":"it's","q":".status.state","r":"a:"})");
  EXPECT_EQ(to_yaml(json), R"(a: plain text
b: "true"
c: "12"
d: ""
e: "x: y"
f: []
g: {}
h:
- 1
- - 2
  - 3
- k: v
  l: null
i: "- x"
j: "#x"
k l: ".5"
m: "line\nbreak"
"n":
  o:
  - true
p: "it's"
q: .status.state
r: "a:"
)");
  EXPECT_EQ(to_yaml(Json("x")), "x\n");
}

}  // namespace
}  // namespace moor::model
