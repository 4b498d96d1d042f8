#include "model/schema_json.h"

#include <fmt/format.h>

namespace moor::model {
namespace {

void add_format(const Schema& schema, Nesting nesting, Json& json) {
  switch (schema.format) {
    case Format::int32: json.set("format", "int32"); return;
    case Format::int64: json.set("format", "int64"); return;
    case Format::floating: json.set("format", "double"); return;
    case Format::date_time:
    case Format::micro_time: json.set("format", "date-time"); return;
    case Format::byte: json.set("format", "byte"); return;
    case Format::quantity:
      if (nesting == Nesting::reference) return;
      json.erase("type");
      json.set("anyOf",
               Json::array({Json::object({{"type", "integer"}}), Json::object({{"type", "string"}})}));
      json.set("x-kubernetes-int-or-string", true);
      return;
    default: return;
  }
}

void add_list_semantics(const Schema& schema, Json& json) {
  if (schema.list_type == ListType::set) {
    json.set("x-kubernetes-list-type", "set");
  } else if (schema.list_type == ListType::map) {
    json.set("x-kubernetes-list-type", "map");
    json.set("x-kubernetes-list-map-keys", strings(schema.list_keys));
  } else {
    json.set("x-kubernetes-list-type", "atomic");
  }
  if (schema.max_items) json.set("maxItems", static_cast<std::int64_t>(*schema.max_items));
}

// Strategic merge patch is known to built-in kinds only; CRDs refuse its extensions.
void add_patch_semantics(const Schema& schema, Json& json) {
  if (!schema.patch_merge) return;
  json.set("x-kubernetes-patch-strategy", "merge");
  if (!schema.patch_key.empty()) json.set("x-kubernetes-patch-merge-key", schema.patch_key);
}

std::string_view type_text(SchemaType type) {
  switch (type) {
    case SchemaType::boolean: return "boolean";
    case SchemaType::integer: return "integer";
    case SchemaType::number: return "number";
    case SchemaType::string: return "string";
    case SchemaType::list: return "array";
    default: return "object";
  }
}

// A sibling of $ref would be ignored by readers: the reference goes into an allOf of one.
Json beside_siblings(Json reference) {
  return Json::object({{"allOf", Json::array({std::move(reference)})}});
}

Json value_json(const Schema& schema, Nesting nesting) {
  if (schema.type == SchemaType::object) {
    const bool refers = nesting == Nesting::reference;
    Json json = refers ? Json::object({{"$ref", reference_to(*schema.object)}})
                       : struct_json(*schema.object, nesting);
    if (!schema.atomic) return json;
    if (refers) json = beside_siblings(std::move(json));
    json.set("x-kubernetes-map-type", "atomic");
    return json;
  }
  Json json = Json::object();
  if (schema.type != SchemaType::any || nesting == Nesting::reference)
    json.set("type", type_text(schema.type));
  if (schema.type == SchemaType::any) json.set("x-kubernetes-preserve-unknown-fields", true);
  add_format(schema, nesting, json);
  if (!schema.one_of.empty()) json.set("enum", strings(schema.one_of));
  // Bounds of a number that travels as a string are checked by the server; the schema sees a string.
  if (schema.minimum && schema.type == SchemaType::integer) json.set("minimum", *schema.minimum);
  if (schema.maximum && schema.type == SchemaType::integer) json.set("maximum", *schema.maximum);
  if (schema.min_length) json.set("minLength", static_cast<std::int64_t>(*schema.min_length));
  if (schema.nullable) json.set("nullable", true);
  if (schema.type == SchemaType::list) {
    json.set("items", value_json(*schema.items, nesting));
    add_list_semantics(schema, json);
    if (nesting == Nesting::reference) add_patch_semantics(schema, json);
  }
  if (schema.type == SchemaType::map) {
    json.set("additionalProperties", value_json(*schema.items, nesting));
    if (schema.atomic) json.set("x-kubernetes-map-type", "atomic");
  }
  return json;
}

Json field_json(const FieldSchema& field, Nesting nesting) {
  Json json = value_json(field.schema, nesting);
  if (json.contains("$ref")) json = beside_siblings(std::move(json));
  if (field.schema.type == SchemaType::object && field.schema.nullable && nesting == Nesting::inlined)
    json.set("nullable", true);
  json.set("description", field.description);
  if (field.default_value) json.set("default", *field.default_value);
  return json;
}

}  // namespace

Json strings(const std::vector<std::string_view>& values) {
  Json list = Json::array();
  for (const std::string_view value : values) list.push_back(value);
  return list;
}

std::string reference_to(const StructSchema& schema) {
  return fmt::format("#/components/schemas/{}", schema.component());
}

Json struct_json(const StructSchema& schema, Nesting nesting) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const FieldSchema& field : schema.fields) {
    const bool metadata = field.name == "metadata" && !schema.kind.empty();
    // A CRD says nothing of metadata: the server knows it.
    properties.set(field.name, metadata && nesting == Nesting::inlined ? Json::object({{"type", "object"}})
                                                                       : field_json(field, nesting));
    if (field.required) required.push_back(field.name);
  }
  Json json = Json::object({{"type", "object"}, {"description", schema.description}});
  if (!required.empty()) json.set("required", std::move(required));
  json.set("properties", std::move(properties));
  if (schema.preserve_unknown) json.set("x-kubernetes-preserve-unknown-fields", true);
  return json;
}

void collect_structs(const StructSchema& schema, std::map<std::string, const StructSchema*>& found) {
  if (!found.emplace(schema.component(), &schema).second) return;
  for (const FieldSchema& field : schema.fields)
    for (const Schema* at = &field.schema; at != nullptr; at = at->items.get())
      if (at->object != nullptr) collect_structs(*at->object, found);
}

}  // namespace moor::model
