#include "model/sample_for_test.h"

#include <algorithm>

namespace moor::model {
namespace {

Json sample_struct(const StructSchema& schema);

Json sample_string(const Schema& schema) {
  switch (schema.format) {
    case Format::int64_string:
      return std::to_string(std::max<std::int64_t>(schema.minimum.value_or(0), 4096));
    case Format::date_time:
      return "2026-01-02T03:04:05Z";
    case Format::micro_time:
      return "2026-01-02T03:04:05.000006Z";
    case Format::duration:
      return "5m0s";
    case Format::quantity:
      return "10Gi";
    case Format::byte:
      return "aGVsbG8=";
    default:
      return schema.one_of.empty() ? "text" : schema.one_of.back();
  }
}

Json sample_value(const Schema& schema) {
  switch (schema.type) {
    case SchemaType::any:
      return Json::object({{"free", Json::array({1, "form"})}});
    case SchemaType::boolean:
      return true;
    case SchemaType::integer:
      return std::min(std::max<std::int64_t>(schema.minimum.value_or(0), 7),
                      schema.maximum.value_or(1 << 30));
    case SchemaType::number:
      return 1.5;
    case SchemaType::string:
      return sample_string(schema);
    case SchemaType::list:
      return Json::array({sample_value(*schema.items)});
    case SchemaType::map:
      return Json::object({{"key", sample_value(*schema.items)}});
    case SchemaType::object:
      return sample_struct(*schema.object);
  }
  return {};
}

Json sample_struct(const StructSchema& schema) {
  Json json = Json::object();
  for (const FieldSchema& field : schema.fields) json.set(field.name, sample_value(field.schema));
  if (schema.preserve_unknown) json.set("notModelled", Json::object({{"deep", true}}));
  if (!schema.kind.empty()) {
    json.set("apiVersion", schema.api_version);
    json.set("kind", schema.kind);
  }
  return json;
}

}  // namespace

Json sample_object(const KindInfo& kind) {
  return sample_struct(*kind.schema);
}

}  // namespace moor::model
