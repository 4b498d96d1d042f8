#include "model/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/json_share.h"
#include "model/quantity.h"
#include "model/scalars.h"
#include "model/time.h"

namespace moor::model {
namespace {

// Where in the object a check is. Nearly all checks find nothing, so the path is written out only for what
// they find.
struct Place {
  enum class Kind { whole, field, item, key };
  const Place* above = nullptr;
  Kind kind = Kind::whole;
  std::string_view name = {};  // of a field or key; of the whole: what stands before everything
  std::size_t index = 0;

  Place field(std::string_view field_name) const { return {this, Kind::field, field_name, 0}; }
  Place item(std::size_t item_index) const { return {this, Kind::item, {}, item_index}; }
  Place key(std::string_view key_name) const { return {this, Kind::key, key_name, 0}; }
  std::string text() const {  // NOLINT(misc-no-recursion): as deep as the object
    if (kind == Kind::whole) return std::string(name);
    const std::string before = above->text();
    if (kind == Kind::item) return fmt::format("{}[{}]", before, index);
    if (kind == Kind::key) return fmt::format("{}[{}]", before, name);
    return before.empty() ? std::string(name) : fmt::format("{}.{}", before, name);
  }
};

void check_value(const Schema& schema, const Json& value, const Place& path, Causes& causes);
void check_fields(const StructSchema& schema, const Json& object, const Json* before, const Place& path,
                  Causes& causes);
void check_fixed(const StructSchema& schema, const Json& before, const Json& after, const Place& path,
                 Causes& causes);

bool is_base64(std::string_view text) {
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::string_view body = text.substr(0, text.size() - padding);
  return text.size() % 4 == 0 && std::all_of(body.begin(), body.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
                  c == '/';
         });
}

void check_number_bounds(const Schema& schema, std::int64_t number, const Place& path, Causes& causes) {
  if (schema.minimum && number < *schema.minimum)
    causes.push_back(invalid(path.text(), number, fmt::format("must be at least {}", *schema.minimum)));
  if (schema.maximum && number > *schema.maximum)
    causes.push_back(invalid(path.text(), number, fmt::format("must be at most {}", *schema.maximum)));
}

void check_int64_string(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  if (!value.is_string() && !value.is_integer()) {
    causes.push_back(type_invalid(path.text(), value, "string"));
    return;
  }
  const auto number = value.is_string() ? parse_int64(value.as_string()) : value.to_int64();
  if (!number)
    causes.push_back(
        invalid(path.text(), value, "must be a whole number of at most 63 bits, written as a string"));
  else
    check_number_bounds(schema, *number, path, causes);
}

// Formats that restrict a string; the sentence says what is expected, empty: it fits.
std::string_view broken_format(Format format, std::string_view text) {
  switch (format) {
    case Format::date_time:
    case Format::micro_time:
      return parse_rfc3339(text) ? "" : "must be an RFC 3339 time such as 2006-01-02T15:04:05Z";
    case Format::duration:
      return text.empty() || parse_go_duration(text) ? "" : "must be a duration such as 5m0s";
    case Format::quantity: return is_quantity(text) ? "" : "must be a quantity such as 10Gi";
    case Format::byte: return is_base64(text) ? "" : "must be base64";
    default: return "";
  }
}

void check_string(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  if (schema.format == Format::int64_string) return check_int64_string(schema, value, path, causes);
  if (schema.format == Format::quantity && value.is_number()) return;
  if (!value.is_string()) {
    causes.push_back(type_invalid(path.text(), value, "string"));
    return;
  }
  const std::string_view text = value.as_string();
  if (!schema.one_of.empty() &&
      std::find(schema.one_of.begin(), schema.one_of.end(), text) == schema.one_of.end())
    causes.push_back(not_supported(path.text(), value, schema.one_of));
  if (schema.min_length && text.size() < *schema.min_length)
    causes.push_back(invalid(path.text(), value, "must not be empty"));
  const std::string_view broken = broken_format(schema.format, text);
  if (!broken.empty()) causes.push_back(invalid(path.text(), value, broken));
}

void check_integer(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  const auto number = value.to_int64();
  if (!value.is_integer()) {
    causes.push_back(type_invalid(path.text(), value, "integer"));
  } else if (!number ||
             (schema.format == Format::int32 && (*number > std::numeric_limits<std::int32_t>::max() ||
                                                 *number < std::numeric_limits<std::int32_t>::min()))) {
    causes.push_back(invalid(path.text(), value,
                             fmt::format("must fit {} bits", schema.format == Format::int32 ? 32 : 64)));
  } else {
    check_number_bounds(schema, *number, path, causes);
  }
}

// List maps and sets have one entry per key: with two, apply could not say which one it owns.
void check_unique(const Schema& schema, const Json& list, const Place& path, Causes& causes) {
  if (schema.list_type == ListType::atomic) return;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Json key = list.at(i);
    if (schema.list_type == ListType::map) {
      key = Json::object();
      for (const std::string_view name : schema.list_keys) {
        const Json* part = list.at(i).find(name);
        if (part == nullptr && schema.items->object != nullptr) {
          const FieldSchema* field = schema.items->object->find(name);
          if (field != nullptr && field->default_value) part = &*field->default_value;
        }
        key.set(name, part == nullptr ? Json() : *part);
      }
    }
    if (!seen.insert(to_text(key)).second) causes.push_back(duplicate(path.item(i).text(), key));
  }
}

void check_list(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  if (!value.is_array()) {
    causes.push_back(type_invalid(path.text(), value, "array"));
    return;
  }
  if (schema.max_items && value.size() > *schema.max_items)
    causes.push_back(too_many(path.text(), value.size(), *schema.max_items));
  for (std::size_t i = 0; i < value.size() && causes.size() < kMaxCauses; ++i)
    check_value(*schema.items, value.at(i), path.item(i), causes);
  check_unique(schema, value, path, causes);
}

void check_map(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  if (!value.is_object()) {
    causes.push_back(type_invalid(path.text(), value, "object"));
    return;
  }
  for (std::size_t i = 0; i < value.size() && causes.size() < kMaxCauses; ++i)
    check_value(*schema.items, value.value_at(i), path.key(value.key_at(i)), causes);
}

void check_value(const Schema& schema, const Json& value, const Place& path, Causes& causes) {
  if (causes.size() >= kMaxCauses || value.is_null()) return;  // null is absent, as in Kubernetes' own types
  switch (schema.type) {
    case SchemaType::any: return;
    case SchemaType::boolean:
      if (!value.is_bool()) causes.push_back(type_invalid(path.text(), value, "boolean"));
      return;
    case SchemaType::integer: return check_integer(schema, value, path, causes);
    case SchemaType::number:
      if (!value.is_number()) causes.push_back(type_invalid(path.text(), value, "number"));
      return;
    case SchemaType::string: return check_string(schema, value, path, causes);
    case SchemaType::list: return check_list(schema, value, path, causes);
    case SchemaType::map: return check_map(schema, value, path, causes);
    case SchemaType::object: return check_fields(*schema.object, value, nullptr, path, causes);
  }
}

// Absent, null and the zero value mean the same to whoever reads the object.
bool is_nothing(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null: return true;
    case Json::Kind::boolean: return !value.as_bool();
    case Json::Kind::string: return value.as_string().empty();
    case Json::Kind::array:
    case Json::Kind::object: return value.empty();
    default: return value.as_double() == 0;
  }
}

void check_fields(const StructSchema& schema, const Json& object, const Json* before, const Place& path,
                  Causes& causes) {
  if (!object.is_object()) {
    causes.push_back(type_invalid(path.text(), object, "object"));
    return;
  }
  for (const FieldSchema& field : schema.fields) {
    if (causes.size() >= kMaxCauses) return;
    const Json* value = object.find(field.name);
    if (value == nullptr || value->is_null()) {
      if (field.required) causes.push_back(required(path.field(field.name).text()));
      continue;
    }
    const Json* was = before == nullptr ? nullptr : before->find(field.name);
    if (was != nullptr && is_shared(*was, *value)) continue;
    if (was != nullptr && field.schema.type == SchemaType::object)
      check_fields(*field.schema.object, *value, was, path.field(field.name), causes);
    else
      check_value(field.schema, *value, path.field(field.name), causes);
  }
}

// Whether there is anything in it that may not change. Nothing in a status is of that kind, and statuses are
// what changes most: asked once of each schema, and remembered.
bool has_fixed(const StructSchema& schema) {  // NOLINT(misc-no-recursion): as deep as the schema
  thread_local std::unordered_map<const StructSchema*, bool> known;
  const auto found = known.find(&schema);
  if (found != known.end()) return found->second;
  known[&schema] = false;  // one that holds itself
  const bool fixed = std::any_of(schema.fields.begin(), schema.fields.end(), [](const FieldSchema& field) {
    return field.immutable || (field.schema.type == SchemaType::object && has_fixed(*field.schema.object));
  });
  known[&schema] = fixed;
  return fixed;
}

void check_fixed(const StructSchema& schema, const Json& before, const Json& after, const Place& path,
                 Causes& causes) {
  static const Json kNothing;
  if (!has_fixed(schema)) return;
  for (const FieldSchema& field : schema.fields) {
    const Json* was = before.find(field.name);
    const Json* is = after.find(field.name);
    if (was != nullptr && is != nullptr && is_shared(*was, *is)) continue;
    if (was == nullptr) was = &kNothing;
    if (is == nullptr) is = &kNothing;
    if (field.immutable) {
      if (!(*was == *is) && !(is_nothing(*was) && is_nothing(*is)))
        causes.push_back(immutable(path.field(field.name).text(), *is));
    } else if (field.schema.type == SchemaType::object && was->is_object() && is->is_object()) {
      check_fixed(*field.schema.object, *was, *is, path.field(field.name), causes);
    }
  }
}

}  // namespace

void check_struct(const StructSchema& schema, const Json& object, const Json* before, Causes& causes) {
  check_fields(schema, object, before, Place{}, causes);
}

void check_immutable(const StructSchema& schema, const Json& before, const Json& after,
                     const std::string& path, Causes& causes) {
  check_fixed(schema, before, after, Place{.name = path}, causes);
}

}  // namespace moor::model
