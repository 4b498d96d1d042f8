#include "model/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// Where the fields of a struct lie in an object. Most objects have their members in the order of the fields
// and leave most of them out, so one walk over both finds what a look for each field would.
class Placed {
 public:
  Placed(const StructSchema& schema, const Json& json) : schema_(schema), json_(json) {
    const std::size_t fields = schema.fields.size();
    walked_ = fields <= kMost && json.size() <= 2 * fields;
    if (!walked_) return;
    std::fill_n(found_.begin(), fields, nullptr);
    std::size_t next = 0;
    for (std::size_t i = 0; i < json.size(); ++i) {
      const std::string_view key = json.key_at(i);
      for (std::size_t tried = 0; tried < fields; ++tried) {
        const std::size_t at = next;
        next = at + 1 == fields ? 0 : at + 1;
        if (schema.fields[at].name != key) continue;
        found_[at] = &json.value_at(i);
        break;
      }
    }
  }
  // While the object stays as it is.
  const Json* at(std::size_t field) const {
    return walked_ ? found_[field] : json_.find(schema_.fields[field].name);
  }
  bool has(std::size_t field) const { return at(field) != nullptr; }

 private:
  static constexpr std::size_t kMost = 64;
  const StructSchema& schema_;
  const Json& json_;
  bool walked_ = false;
  std::array<const Json*, kMost> found_;
};

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
  if (before == nullptr || !(*before == next)) json.set(field.name, std::move(next));
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
  const Placed placed(schema, json);
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const FieldSchema& field = schema.fields[i];
    const Json* found = field.codec == nullptr ? nullptr : placed.at(i);
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
  const Placed placed(schema, json);  // writing one field moves the others, but makes none come or go
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const FieldSchema& field = schema.fields[i];
    if (field.codec == nullptr) continue;
    const void* member = member_of(field, value);
    // Most fields of most objects: nothing there, and nothing to say.
    const bool silent = !fresh || field.omit_empty || field.codec->absent_when_zero;
    if (silent && !placed.has(i) && field.codec->is_zero(member)) continue;
    encode_field(field, member, fresh, json);
  }
  if (const Json* extra = extra_of(schema, value)) encode_extra(schema, *extra, json);
}

bool is_zero_struct(const StructSchema& schema, const void* value) {
  for (const FieldSchema& field : schema.fields)
    if (field.codec != nullptr && !field.codec->is_zero(member_of(field, value))) return false;
  const Json* extra = extra_of(schema, value);
  return extra == nullptr || extra->empty();
}

}  // namespace moor::model
