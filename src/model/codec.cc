#include "model/codec.h"

#include <fmt/format.h>

#include <utility>

namespace moor::model {
namespace {

const Json* extra_of(const StructSchema& schema, const void* value) {
  if (schema.extra_offset < 0) return nullptr;
  return reinterpret_cast<const Json*>(static_cast<const std::byte*>(value) + schema.extra_offset);
}

const void* member_of(const FieldSchema& field, const void* value) {
  return static_cast<const std::byte*>(value) + field.offset;
}

// Writes only what differs: what is not written to stays shared with what it was copied from.
void put(Json& json, std::string_view key, Json value) {
  const Json* before = std::as_const(json).find(key);
  if (before == nullptr || !(*before == value)) json.set(key, std::move(value));
}

// Fields that Kubernetes knows and we do not model travel in `extra`; it alone says which of them remain.
void encode_extra(const StructSchema& schema, const Json& extra, Json& json) {
  for (std::size_t i = json.size(); i > 0; --i) {
    const std::string key(json.key_at(i - 1));
    if (schema.find(key) == nullptr && !extra.contains(key)) json.erase(key);
  }
  for (std::size_t i = 0; i < extra.size(); ++i) put(json, extra.key_at(i), extra.value_at(i));
}

// A zero that someone wrote out: "", 0, false, [], {} or an object of such.
bool is_blank(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null: return true;
    case Json::Kind::boolean: return !json.as_bool();
    case Json::Kind::string: return json.as_string().empty();
    case Json::Kind::array: return json.empty();
    case Json::Kind::object:
      for (std::size_t i = 0; i < json.size(); ++i)
        if (!is_blank(json.value_at(i))) return false;
      return true;
    default: return json.as_double() == 0;
  }
}

void encode_field(const FieldSchema& field, const void* member, bool fresh, Json& json) {
  const Json* before = std::as_const(json).find(field.name);
  if (field.codec->is_zero(member)) {
    const bool leave_out = field.omit_empty || field.codec->absent_when_zero;
    if (before == nullptr && (leave_out || !fresh)) return;
    if (before != nullptr && before->is_null()) return;
    // What was written out as zero and still is stays: it is no change. An optional that is gone must go.
    if (leave_out && !field.codec->absent_when_zero && is_blank(*before)) return;
    if (leave_out) {
      json.erase(field.name);
      return;
    }
  }
  Json next = before == nullptr ? Json() : *before;
  field.codec->encode(member, next);
  put(json, field.name, std::move(next));
}

bool type_meta_fits(const StructSchema& schema, const Json& json, DecodeFailure& failure) {
  const auto version = json.get_string("apiVersion");
  const auto kind = json.get_string("kind");
  if ((version && *version != schema.api_version) || (kind && *kind != schema.kind)) {
    failure.message = fmt::format("is a {} of {}, not a {} of {}", kind.value_or("?"), version.value_or("?"),
                                  schema.kind, schema.api_version);
    return false;
  }
  return true;
}

}  // namespace

std::string_view type_name(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return "boolean";
    case Json::Kind::int64:
    case Json::Kind::uint64: return "integer";
    case Json::Kind::number: return "number";
    case Json::Kind::string: return "string";
    case Json::Kind::array: return "array";
    case Json::Kind::object: return "object";
  }
  return "unknown";
}

void DecodeFailure::inside_field(std::string_view name) {
  const bool joined = path.empty() || path.front() == '[';
  path = fmt::format("{}{}{}", name, joined ? "" : ".", path);
}

void DecodeFailure::inside_item(std::size_t index) {
  inside_key(fmt::format("{}", index));
}

void DecodeFailure::inside_key(std::string_view key) {
  const bool joined = path.empty() || path.front() == '[';
  path = fmt::format("[{}]{}{}", key, joined ? "" : ".", path);
}

bool decode_struct(const StructSchema& schema, void* value, const Json& json, DecodeFailure& failure) {
  if (json.is_null()) return true;
  if (!json.is_object()) {
    failure.message = fmt::format("must be of type object, not {}", type_name(json));
    return false;
  }
  if (!schema.kind.empty() && !type_meta_fits(schema, json, failure)) return false;
  for (const FieldSchema& field : schema.fields) {
    if (field.codec == nullptr) continue;
    const Json* found = json.find(field.name);
    if (found == nullptr) continue;
    if (!field.codec->decode(static_cast<std::byte*>(value) + field.offset, *found, failure)) {
      failure.inside_field(field.name);
      return false;
    }
  }
  if (schema.extra_offset >= 0) {
    Json extra = Json::object();
    for (std::size_t i = 0; i < json.size(); ++i)
      if (schema.find(json.key_at(i)) == nullptr) extra.set(json.key_at(i), json.value_at(i));
    if (!extra.empty()) *const_cast<Json*>(extra_of(schema, value)) = std::move(extra);
  }
  return true;
}

Result<void> decode_struct(const StructSchema& schema, void* value, const Json& json) {
  DecodeFailure failure;
  if (decode_struct(schema, value, json, failure)) return {};
  return make_error(Errc::invalid, failure.path.empty()
                                       ? failure.message
                                       : fmt::format("{}: {}", failure.path, failure.message));
}

void encode_struct(const StructSchema& schema, const void* value, Json& json) {
  const bool fresh = !json.is_object();
  if (fresh) json = Json::object();
  if (!schema.kind.empty()) {
    put(json, "apiVersion", schema.api_version);
    put(json, "kind", schema.kind);
  }
  for (const FieldSchema& field : schema.fields)
    if (field.codec != nullptr) encode_field(field, member_of(field, value), fresh, json);
  if (const Json* extra = extra_of(schema, value)) encode_extra(schema, *extra, json);
}

bool is_zero_struct(const StructSchema& schema, const void* value) {
  for (const FieldSchema& field : schema.fields)
    if (field.codec != nullptr && !field.codec->is_zero(member_of(field, value))) return false;
  const Json* extra = extra_of(schema, value);
  return extra == nullptr || extra->empty();
}

}  // namespace moor::model
