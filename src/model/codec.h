// Typed objects in and out of JSON, for controllers and agents.
//
//   TRY(auto volume, decode<longhorn::Volume>(json));
//   volume.status.state = longhorn::VolumeState::attached;
//   encode_onto(json, volume);       // json keeps what it had, except for what changed
//
// decode() takes absent and null as the zero value and refuses a value of the wrong type with the path of the
// field; objects that passed validation always decode. encode() writes a fresh object. encode_onto() writes
// into the object that was read: a field that is absent there and zero here stays absent, so that a
// read-modify-write shows up as exactly the change that was meant (generation, managedFields and conflicts
// depend on it).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/json_share.h"
#include "base/result.h"
#include "model/enum.h"
#include "model/schema.h"

namespace moor::model {

struct DecodeFailure {
  std::string path;
  std::string message;
  void inside_field(std::string_view name);
  void inside_item(std::size_t index);
  void inside_key(std::string_view key);
};

// How one C++ type meets JSON. `value` points to an object of that type.
struct Codec {
  Schema schema;
  bool (*decode)(void* value, const Json& json, DecodeFailure& failure) = nullptr;
  void (*encode)(const void* value, Json& json) = nullptr;  // json holds what stood there before, or null
  bool (*is_zero)(const void* value) = nullptr;
  bool absent_when_zero = false;  // std::optional: there is no zero to write
};

// Described as a T and kept as the Json that it came in: for what no C++ looks into, which is half of an
// object for managedFields. Null: absent.
template <class T>
struct AsWritten {
  Json json = {};
};

// "integer", "object", …: the words of the OpenAPI specification.
std::string_view type_name(const Json& json);

Result<void> decode_struct(const StructSchema& schema, void* value, const Json& json);
bool decode_struct(const StructSchema& schema, void* value, const Json& json, DecodeFailure& failure);
// json null: a fresh object, in which fields without omit_empty are written even when zero.
void encode_struct(const StructSchema& schema, const void* value, Json& json);
bool is_zero_struct(const StructSchema& schema, const void* value);

template <class T>
Result<T> decode(const Json& json) {
  T value{};
  TRY_VOID(decode_struct(struct_schema(static_cast<const T*>(nullptr)), &value, json));
  return value;
}

// For rules that look at one object after the other: the two that were decoded last are not decoded again.
template <class T>
std::shared_ptr<const Result<T>> decode_once(const Json& json) {
  struct Slot {
    Json json;
    std::shared_ptr<const Result<T>> value;
  };
  thread_local std::array<Slot, 2> slots;  // the one used last comes first
  if (!is_shared(slots[0].json, json)) {
    std::swap(slots[0], slots[1]);
    if (!is_shared(slots[0].json, json))
      slots[0] = {json, std::make_shared<const Result<T>>(decode<T>(json))};
  }
  return slots[0].value;
}

template <class T>
void encode_onto(Json& json, const T& value) {
  encode_struct(struct_schema(&value), &value, json);
}

template <class T>
Json encode(const T& value) {
  Json json;
  encode_struct(struct_schema(&value), &value, json);
  return json;
}

}  // namespace moor::model

// Stands in a header below a struct that is described in some .cc file.
#define MOOR_DESCRIBED(Type) const ::moor::model::StructSchema& struct_schema(const Type*)
// The same for a kind: it also has a KindInfo.
#define MOOR_DESCRIBED_KIND(Type) \
  MOOR_DESCRIBED(Type);           \
  const ::moor::model::KindInfo& kind_info(const Type*)
