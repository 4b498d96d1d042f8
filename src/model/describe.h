// How a kind is described: one block per struct in the kind's .cc file. Include this only there; it holds the
// templates.
//
//   MOOR_DESCRIBE(SnapshotSpec, "What a snapshot is asked to be.") {
//     f.add("volume", &SnapshotSpec::volume, "Name of the volume.").required().immutable();
//     f.add("labels", &SnapshotSpec::labels, "Labels that travel with the snapshot.");
//   }
//
// The block runs once, at the first use of the type. The namespace must have a `kPackage`, the prefix of its
// OpenAPI components. Fields are written even when zero, as Longhorn does; f.omit_empty() at the top of a
// block turns that around for its struct, as the core kinds do.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "model/enum.h"
#include "model/scalars.h"

namespace moor::model {

template <class T>
const Codec& codec_of();

// Refines the field that was just added.
class FieldOptions {
 public:
  explicit FieldOptions(FieldSchema& field) : field_(field) {}
  FieldOptions& required() { return set(field_.required); }
  FieldOptions& immutable() { return set(field_.immutable); }
  FieldOptions& nullable() { return set(field_.schema.nullable); }
  FieldOptions& atomic() { return set(field_.schema.atomic); }
  FieldOptions& omit_empty(bool omit = true) {
    field_.omit_empty = omit;
    return *this;
  }
  FieldOptions& default_to(Json value) {
    field_.default_value = std::move(value);
    return *this;
  }
  FieldOptions& one_of(std::vector<std::string_view> values) {
    field_.schema.one_of = std::move(values);
    return *this;
  }
  FieldOptions& at_least(std::int64_t minimum) {
    field_.schema.minimum = minimum;
    return *this;
  }
  FieldOptions& at_most(std::int64_t maximum) {
    field_.schema.maximum = maximum;
    return *this;
  }
  FieldOptions& max_items(std::size_t count) {
    field_.schema.max_items = count;
    return *this;
  }
  FieldOptions& not_empty() {
    field_.schema.min_length = 1;
    return *this;
  }
  // An int64 member that travels as a string; a std::string member that holds a duration or base64.
  FieldOptions& as_string() { return use(string_int64_codec()); }
  FieldOptions& as_duration() { return use(duration_codec()); }
  FieldOptions& as_base64() {
    field_.schema.format = Format::byte;
    return *this;
  }
  // Lists: one entry per key, as apply and strategic merge patch see it.
  FieldOptions& list_map(std::vector<std::string_view> keys) {
    field_.schema.patch_key = keys.front();
    field_.schema.patch_merge = true;
    field_.schema.list_type = ListType::map;
    field_.schema.list_keys = std::move(keys);
    return *this;
  }
  // Lists of objects: apply owns each item as a whole.
  FieldOptions& atomic_items() {
    Schema items = *field_.schema.items;
    items.atomic = true;
    field_.schema.items = std::make_shared<const Schema>(std::move(items));
    return *this;
  }
  FieldOptions& list_set() {
    field_.schema.list_type = ListType::set;
    field_.schema.patch_merge = true;
    return *this;
  }
  // Merged by strategic merge patch although apply owns the list as a whole.
  FieldOptions& patch_merge(std::string_view key) {
    field_.schema.patch_merge = true;
    field_.schema.patch_key = key;
    return *this;
  }

 private:
  FieldOptions& set(bool& flag) {
    flag = true;
    return *this;
  }
  FieldOptions& use(const Codec& codec) {
    field_.codec = &codec;
    field_.schema = codec.schema;
    return *this;
  }
  FieldSchema& field_;
};

template <class S>
class Fields {
 public:
  Fields(StructSchema& schema, const S& probe) : schema_(schema), probe_(probe) {}

  template <class C, class M>
  FieldOptions add(std::string_view name, M C::*member, std::string_view description) {
    static_assert(std::is_base_of_v<C, S>);
    FieldSchema& field = put(name, description);
    field.codec = &codec_of<M>();
    field.schema = field.codec->schema;
    field.offset = offset_of(&(probe_.*member));
    return FieldOptions(field);
  }
  // Kubernetes knows more fields here: `extra` keeps them.
  void preserve(Json S::*extra) {
    schema_.preserve_unknown = true;
    schema_.extra_offset = offset_of(&(probe_.*extra));
  }
  void omit_empty() { omit_empty_ = true; }
  // apiVersion and kind, of a kind.
  void type_meta(std::string_view api_version, std::string_view kind) {
    schema_.api_version = api_version;
    schema_.kind = kind;
    for (const std::string_view name : {"apiVersion", "kind"}) {
      FieldSchema& field =
          put(name, name == "kind" ? "The kind of this object, in CamelCase; the server may infer it."
                                   : "The group and version whose schema this object follows.");
      field.schema.type = SchemaType::string;
    }
  }

 private:
  FieldSchema& put(std::string_view name, std::string_view description) {
    const bool added = schema_.index.emplace(name, schema_.fields.size()).second;
    MOOR_ASSERT(added, "{} has two fields {}", schema_.name, name);
    FieldSchema& field = schema_.fields.emplace_back();
    field.name = name;
    field.description = description;
    field.omit_empty = omit_empty_;
    return field;
  }
  std::ptrdiff_t offset_of(const void* member) const {
    return static_cast<const std::byte*>(member) - reinterpret_cast<const std::byte*>(&probe_);
  }

  StructSchema& schema_;
  const S& probe_;
  bool omit_empty_ = false;
};

struct StructName {
  std::string_view package;
  std::string_view name;
  std::string_view description;
};

template <class S>
StructSchema build_struct(const StructName& name, void (*describe)(Fields<S>&)) {
  const S probe{};
  StructSchema schema;
  schema.package = name.package;
  schema.name = name.name;
  schema.description = name.description;
  Fields<S> fields(schema, probe);
  describe(fields);
  schema.fields.shrink_to_fit();
  return schema;
}

// ---- codecs of composed types

template <class T>
struct OptionalCodec : std::false_type {};
template <class T>
struct OptionalCodec<std::optional<T>> : std::true_type {
  using Value = std::optional<T>;
  static bool decode(void* value, const Json& json, DecodeFailure& failure) {
    auto& optional = *static_cast<Value*>(value);
    optional.reset();
    return json.is_null() || codec_of<T>().decode(&optional.emplace(), json, failure);
  }
  static void encode(const void* value, Json& json) {
    const auto& optional = *static_cast<const Value*>(value);
    if (optional) codec_of<T>().encode(&*optional, json);
  }
  static bool is_zero(const void* value) { return !static_cast<const Value*>(value)->has_value(); }
  static Codec make() {
    Codec codec{codec_of<T>().schema, decode, encode, is_zero, true};
    codec.schema.nullable = true;
    return codec;
  }
};

// The checks of the schema look at the Json itself, so nothing is left to check here.
template <class T>
struct AsWrittenCodec : std::false_type {};
template <class T>
struct AsWrittenCodec<AsWritten<T>> : std::true_type {
  using Value = AsWritten<T>;
  static bool decode(void* value, const Json& json, DecodeFailure&) {
    static_cast<Value*>(value)->json = json;
    return true;
  }
  static void encode(const void* value, Json& json) { json = static_cast<const Value*>(value)->json; }
  static bool is_zero(const void* value) { return static_cast<const Value*>(value)->json.is_null(); }
  static Codec make() { return {codec_of<T>().schema, decode, encode, is_zero, true}; }
};

template <class T>
struct ListCodec : std::false_type {};
template <class T>
struct ListCodec<std::vector<T>> : std::true_type {
  using Value = std::vector<T>;
  static bool decode(void* value, const Json& json, DecodeFailure& failure) {
    auto& list = *static_cast<Value*>(value);
    list.clear();
    if (json.is_null()) return true;
    if (!json.is_array()) {
      failure.message = "must be of type array, not " + std::string(type_name(json));
      return false;
    }
    list.reserve(json.size());
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (codec_of<T>().decode(&list.emplace_back(), json.at(i), failure)) continue;
      failure.inside_item(i);
      return false;
    }
    return true;
  }
  static void encode(const void* value, Json& json) {
    json = Json::array();
    for (const T& item : *static_cast<const Value*>(value))
      codec_of<T>().encode(&item, json.push_back(Json()));
  }
  static bool is_zero(const void* value) { return static_cast<const Value*>(value)->empty(); }
  static Codec make() {
    Codec codec{{}, decode, encode, is_zero, false};
    codec.schema.type = SchemaType::list;
    codec.schema.nullable = true;
    codec.schema.items = std::make_shared<const Schema>(codec_of<T>().schema);
    return codec;
  }
};

template <class T>
struct MapCodec : std::false_type {};
template <class T>
struct MapCodec<std::map<std::string, T>> : std::true_type {
  using Value = std::map<std::string, T>;
  static bool decode(void* value, const Json& json, DecodeFailure& failure) {
    auto& map = *static_cast<Value*>(value);
    map.clear();
    if (json.is_null()) return true;
    if (!json.is_object()) {
      failure.message = "must be of type object, not " + std::string(type_name(json));
      return false;
    }
    for (std::size_t i = 0; i < json.size(); ++i) {
      const std::string key(json.key_at(i));
      if (codec_of<T>().decode(&map[key], json.value_at(i), failure)) continue;
      failure.inside_key(key);
      return false;
    }
    return true;
  }
  static void encode(const void* value, Json& json) {
    const auto& map = *static_cast<const Value*>(value);
    if (!json.is_object()) json = Json::object();
    for (std::size_t i = json.size(); i > 0; --i) {
      const std::string key(json.key_at(i - 1));
      if (!map.contains(key)) json.erase(key);
    }
    for (const auto& [key, item] : map) codec_of<T>().encode(&item, json[key]);
  }
  static bool is_zero(const void* value) { return static_cast<const Value*>(value)->empty(); }
  static Codec make() {
    Codec codec{{}, decode, encode, is_zero, false};
    codec.schema.type = SchemaType::map;
    codec.schema.nullable = true;
    codec.schema.items = std::make_shared<const Schema>(codec_of<T>().schema);
    return codec;
  }
};

template <class E>
Codec enum_codec() {
  Codec codec;
  codec.decode = [](void* value, const Json& json, DecodeFailure& failure) {
    if (json.is_null()) return true;
    const auto found = json.is_string() ? enum_from<E>(json.as_string()) : std::nullopt;
    if (!found) failure.message = to_text(json) + " is not one of the values of this field";
    if (found) *static_cast<E*>(value) = *found;
    return found.has_value();
  };
  codec.encode = [](const void* value, Json& json) { json = to_string(*static_cast<const E*>(value)); };
  codec.is_zero = [](const void* value) { return *static_cast<const E*>(value) == E{}; };
  codec.schema.type = SchemaType::string;
  for (const std::string_view name : enum_names(E{})) codec.schema.one_of.push_back(name);
  return codec;
}

template <class S>
Codec struct_codec() {
  static const S* const kTag = nullptr;
  Codec codec;
  codec.decode = [](void* value, const Json& json, DecodeFailure& failure) {
    return decode_struct(struct_schema(kTag), value, json, failure);
  };
  codec.encode = [](const void* value, Json& json) { encode_struct(struct_schema(kTag), value, json); };
  codec.is_zero = [](const void* value) { return is_zero_struct(struct_schema(kTag), value); };
  codec.schema.type = SchemaType::object;
  codec.schema.object = &struct_schema(kTag);
  return codec;
}

template <class T>
concept Described = requires(const T* tag) {
  struct_schema(tag);
};

template <class T>
const Codec& codec_of() {
  if constexpr (std::is_enum_v<T>) {
    static const Codec codec = enum_codec<T>();
    return codec;
  } else if constexpr (OptionalCodec<T>::value) {
    static const Codec codec = OptionalCodec<T>::make();
    return codec;
  } else if constexpr (AsWrittenCodec<T>::value) {
    static const Codec codec = AsWrittenCodec<T>::make();
    return codec;
  } else if constexpr (ListCodec<T>::value) {
    static const Codec codec = ListCodec<T>::make();
    return codec;
  } else if constexpr (MapCodec<T>::value) {
    static const Codec codec = MapCodec<T>::make();
    return codec;
  } else if constexpr (Described<T>) {
    static const Codec codec = struct_codec<T>();
    return codec;
  } else {
    return codec_for(static_cast<const T*>(nullptr));
  }
}

}  // namespace moor::model

#define MOOR_DESCRIBE(Type, text)                                                     \
  static void describe_fields(::moor::model::Fields<Type>& f);                        \
  const ::moor::model::StructSchema& struct_schema(const Type*) {                     \
    static const ::moor::model::StructSchema schema =                                 \
        ::moor::model::build_struct<Type>({kPackage, #Type, text}, &describe_fields); \
    return schema;                                                                    \
  }                                                                                   \
  static void describe_fields(::moor::model::Fields<Type>& f)
