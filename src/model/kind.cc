#include "model/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_share.h"
#include "model/jsonpath.h"
#include "model/names.h"
#include "model/validate.h"

namespace moor::model {
namespace {

constexpr std::size_t kMaxUnknown = 32;

void default_struct(const StructSchema& schema, Json& object);
bool lacks_defaults(const StructSchema& schema, const Json& object, const Json* before = nullptr);

// Most objects come with all their defaults, from the write before. They are looked through first: what is
// not written to stays shared with what it was copied from.
bool lacks_defaults(const Schema& schema, const Json& value) {
  switch (schema.type) {
    case SchemaType::object: return value.is_object() && lacks_defaults(*schema.object, value);
    case SchemaType::list:
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        if (lacks_defaults(*schema.items, value.at(i))) return true;
      return false;
    case SchemaType::map:
      for (std::size_t i = 0; value.is_object() && i < value.size(); ++i)
        if (lacks_defaults(*schema.items, value.value_at(i))) return true;
      return false;
    case SchemaType::string:
      return (schema.format == Format::int64_string || schema.format == Format::quantity) &&
             value.is_number();
    default: return false;
  }
}

bool lacks_defaults(const StructSchema& schema, const Json& object, const Json* before) {
  for (const FieldSchema& field : schema.fields) {
    const Json* value = object.find(field.name);
    const Json* was = before == nullptr || value == nullptr ? nullptr : before->find(field.name);
    if (was != nullptr && is_shared(*was, *value)) continue;
    if (value != nullptr && value->is_null() && !field.schema.nullable) return true;
    if (value == nullptr && field.default_value) return true;
    if (value != nullptr && lacks_defaults(field.schema, *value)) return true;
  }
  return false;
}

// Null where null means nothing is dropped, as Kubernetes does before it fills in a default.
void default_value(const Schema& schema, Json& value) {
  if (!lacks_defaults(schema, value)) return;
  switch (schema.type) {
    case SchemaType::object: return default_struct(*schema.object, value);
    case SchemaType::list:
      for (std::size_t i = 0; i < value.size(); ++i) default_value(*schema.items, value.at(i));
      return;
    case SchemaType::map:
      for (std::size_t i = 0; i < value.size(); ++i) default_value(*schema.items, value.value_at(i));
      return;
    case SchemaType::string: value = to_text(value); return;
    default: return;
  }
}

void default_struct(const StructSchema& schema, Json& object) {
  for (const FieldSchema& field : schema.fields) {
    const Json* value = std::as_const(object).find(field.name);
    if (value != nullptr && value->is_null() && !field.schema.nullable) {
      object.erase(field.name);
      value = nullptr;
    }
    if (value == nullptr && field.default_value) value = &object.set(field.name, *field.default_value);
    if (value != nullptr && lacks_defaults(field.schema, *value))
      default_value(field.schema, *object.find(field.name));
  }
}

bool has_unknown(const StructSchema& schema, const Json& value);

bool has_unknown(const Schema& schema, const Json& value) {
  if (schema.type == SchemaType::object) return has_unknown(*schema.object, value);
  if (schema.type == SchemaType::list && value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (has_unknown(*schema.items, value.at(i))) return true;
  } else if (schema.type == SchemaType::map && value.is_object()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (has_unknown(*schema.items, value.value_at(i))) return true;
  }
  return false;
}

// Whether a walk would find anything.
bool has_unknown(const StructSchema& schema, const Json& value) {
  for (std::size_t i = 0; value.is_object() && i < value.size(); ++i) {
    const FieldSchema* field = schema.find(value.key_at(i));
    if (field == nullptr ? !schema.preserve_unknown : has_unknown(field->schema, value.value_at(i)))
      return true;
  }
  return false;
}

// Walks the fields that no schema describes; visit(path) for each, and drops them when asked to.
class UnknownWalk {
 public:
  UnknownWalk(bool drop, std::vector<std::string>* found) : drop_(drop), found_(found) {}

  void object(const StructSchema& schema, Json& value, const std::string& path) {
    if (!value.is_object()) return;
    for (std::size_t i = 0; i < value.size();) {
      const std::string key(value.key_at(i));
      const std::string here = path.empty() ? key : fmt::format("{}.{}", path, key);
      const FieldSchema* field = schema.find(key);
      if (field == nullptr && !schema.preserve_unknown) {
        if (found_ != nullptr && found_->size() < kMaxUnknown) found_->push_back(here);
        if (drop_) {
          value.erase(key);
          continue;
        }
      }
      if (field != nullptr) any(field->schema, value.value_at(i), here);
      ++i;
    }
  }

 private:
  void any(const Schema& schema, Json& value, const std::string& path) {
    if (schema.type == SchemaType::object) {
      object(*schema.object, value, path);
    } else if (schema.type == SchemaType::list && value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i)
        any(*schema.items, value.at(i), fmt::format("{}[{}]", path, i));
    } else if (schema.type == SchemaType::map && value.is_object()) {
      for (std::size_t i = 0; i < value.size(); ++i)
        any(*schema.items, value.value_at(i), fmt::format("{}.{}", path, value.key_at(i)));
    }
  }

  bool drop_;
  std::vector<std::string>* found_;
};

}  // namespace

std::string KindInfo::api_version() const {
  return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version);
}

std::string KindInfo::list_kind() const {
  return fmt::format("{}List", kind);
}

std::string KindInfo::qualified_resource() const {
  return group.empty() ? std::string(plural) : fmt::format("{}.{}", plural, group);
}

namespace {

bool shares(const Json& before, const Json& after, std::string_view part) {
  const Json* was = before.find(part);
  const Json* is = after.find(part);
  return was == nullptr || is == nullptr ? was == is : is_shared(*was, *is);
}

// A write through the status subresource, as far as can be seen without comparing.
bool shares_all_but_status(const KindInfo& kind, const Json& before, const Json& after) {
  for (const FieldSchema& field : kind.schema->fields) {
    const bool plain = field.name == "apiVersion" || field.name == "kind" || field.name == "status";
    if (!plain && !shares(before, after, field.name)) return false;
  }
  return true;
}

}  // namespace

Causes KindInfo::validate(const Json& object, const Json* before) const {
  Causes causes;
  check_struct(*schema, object, before, causes);
  const Json* metadata = object.find("metadata");
  if (metadata == nullptr || !metadata->is_object()) {
    if (causes.empty()) causes.push_back(required("metadata"));
  } else if (before == nullptr || !shares(*before, object, "metadata")) {
    check_metadata(*this, *metadata, causes);
  }
  const bool told =
      before != nullptr && !rules_concern_status && shares_all_but_status(*this, *before, object);
  // The kind's rules read typed fields: they make sense only once the types are right.
  if (causes.empty() && check != nullptr && !told) causes = check(object);
  return causes;
}

Causes KindInfo::validate_update(const Json& before, const Json& after) const {
  Causes causes;
  check_immutable(*schema, before, after, "", causes);
  const Json* was = before.find("metadata");
  const Json* is = after.find("metadata");
  if (was != nullptr && is != nullptr && !is_shared(*was, *is)) check_metadata_update(*was, *is, causes);
  const bool told = !rules_concern_status && shares_all_but_status(*this, before, after);
  if (causes.empty() && check_update != nullptr && !told) causes = check_update(before, after);
  return causes;
}

void KindInfo::set_defaults(Json& object, const Json* before) const {
  if (!object.is_object()) return;
  if (lacks_defaults(*schema, object, before)) default_struct(*schema, object);
  if (fill != nullptr) fill(object);
}

void KindInfo::prune(Json& object) const {
  if (has_unknown(*schema, object)) UnknownWalk(true, nullptr).object(*schema, object, "");
}

std::vector<std::string> KindInfo::unknown_fields(const Json& object) const {
  std::vector<std::string> found;
  if (!has_unknown(*schema, object)) return found;
  // The walk without dropping does not write; it shares its code with the one that does.
  Json copy = object;
  UnknownWalk(false, &found).object(*schema, copy, "");
  return found;
}

bool KindInfo::is_selectable(std::string_view field) const {
  return field == "metadata.name" || field == "metadata.namespace" ||
         std::find(selectable_fields.begin(), selectable_fields.end(), field) != selectable_fields.end();
}

std::string KindInfo::field_value(const Json& object, std::string_view field) const {
  const Json* at = &object;
  while (at != nullptr && !field.empty()) {
    const std::size_t dot = std::min(field.find('.'), field.size());
    at = at->find(field.substr(0, dot));
    field.remove_prefix(std::min(dot + 1, field.size()));
  }
  return at == nullptr || at->is_null() ? std::string() : plain_text(*at);
}

std::string unknown_field_message(std::string_view path) {
  return fmt::format("unknown field \"{}\"", path);
}

std::string duplicate_field_message(std::string_view path) {
  return fmt::format("duplicate field \"{}\"", path);
}

}  // namespace moor::model
