#include "model/openapi_v2.h"

#include <cstdint>
#include <map>

#include "model/kinds.h"
#include "model/schema_json.h"
#include "model/yaml.h"

namespace moor::model {
namespace {

// Just enough of the protobuf wire format: length-delimited fields, which is all that these messages need.
void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, std::uint64_t{field} << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// Field numbers of openapi.v2 (OpenAPIv2.proto of gnostic).
namespace document {
constexpr std::uint32_t kSwagger = 1, kInfo = 2, kPaths = 8, kDefinitions = 9;
}
namespace schema {
constexpr std::uint32_t kRef = 1, kFormat = 2, kDescription = 4, kRequired = 19, kAdditionalProperties = 21,
                        kType = 22, kItems = 23, kProperties = 25, kExtension = 31;
}

// Name and value of a map entry.
std::string named(std::string_view name, std::string_view value) {
  std::string out;
  put(out, 1, name);
  put(out, 2, value);
  return out;
}

// A message whose only field, number 1, holds one value.
std::string boxed(std::string_view value) {
  std::string out;
  put(out, 1, value);
  return out;
}

// An extension's value travels as YAML text in field 2 of Any.
std::string extension(std::string_view name, const Json& value) {
  std::string any;
  put(any, 2, to_yaml(value));
  return named(name, any);
}

// From the v3 form of a schema: references move to #/definitions, and an allOf of one reference is that
// reference.
std::string schema_message(const Json& json) {
  std::string out;
  const Json* all_of = json.find("allOf");
  const Json& source = all_of != nullptr && all_of->size() == 1 ? all_of->at(0) : json;
  if (const auto reference = source.get_string("$ref"))
    put(out, schema::kRef, "#/definitions/" + std::string(reference->substr(reference->rfind('/') + 1)));
  if (const auto format = json.get_string("format")) put(out, schema::kFormat, *format);
  if (const auto description = json.get_string("description")) put(out, schema::kDescription, *description);
  if (const Json* required = json.find("required"))
    for (std::size_t i = 0; i < required->size(); ++i)
      put(out, schema::kRequired, required->at(i).as_string());
  if (const Json* values = json.find("additionalProperties"))
    put(out, schema::kAdditionalProperties, boxed(schema_message(*values)));
  if (const auto type = json.get_string("type")) put(out, schema::kType, boxed(*type));
  if (const Json* items = json.find("items")) put(out, schema::kItems, boxed(schema_message(*items)));
  if (const Json* properties = json.find("properties")) {
    std::string list;
    for (std::size_t i = 0; i < properties->size(); ++i)
      put(list, 1, named(properties->key_at(i), schema_message(properties->value_at(i))));
    put(out, schema::kProperties, list);
  }
  for (std::size_t i = 0; i < json.size(); ++i)
    if (json.key_at(i).starts_with("x-"))
      put(out, schema::kExtension, extension(json.key_at(i), json.value_at(i)));
  return out;
}

}  // namespace

std::string openapi_v2_protobuf() {
  std::map<std::string, const StructSchema*> structs;
  std::map<std::string, const KindInfo*> kinds;
  for (const KindInfo* kind : all_kinds()) {
    collect_structs(*kind->schema, structs);
    kinds.emplace(kind->schema->component(), kind);
  }
  std::string definitions;
  for (const auto& [name, one] : structs) {
    Json json = struct_json(*one, Nesting::reference);
    if (const auto found = kinds.find(name); found != kinds.end())
      json.set("x-kubernetes-group-version-kind",
               Json::array({Json::object({{"group", found->second->group},
                                          {"kind", found->second->kind},
                                          {"version", found->second->version}})}));
    put(definitions, 1, named(name, schema_message(json)));
  }
  std::string info;
  put(info, 1, "Mooring");
  put(info, 2, "v1");
  std::string out;
  put(out, document::kSwagger, "2.0");
  put(out, document::kInfo, info);
  put(out, document::kPaths, "");
  put(out, document::kDefinitions, definitions);
  return out;
}

}  // namespace moor::model
