// Ties a typed struct to its KindInfo; for the .cc files of kinds only.
#pragma once

#include "model/describe.h"
#include "model/kind.h"

namespace moor::model {

// Typed rules as the functions that KindInfo holds. A decode failure cannot happen after the schema was
// checked; if it does, it is a cause like any other.
template <class T, Causes (*Rules)(const T&)>
Causes typed_check(const Json& object) {
  const auto value = decode_once<T>(object);
  if (!*value) return {invalid("", Json(), value->error().message)};
  return Rules(**value);
}

template <class T, Causes (*Rules)(const T&, const T&)>
Causes typed_check_update(const Json& before, const Json& after) {
  const auto old_value = decode_once<T>(before);
  const auto new_value = decode_once<T>(after);
  if (!*old_value) return {};  // what is stored cannot be read: nothing to hold the new one against
  if (!*new_value) return {invalid("", Json(), new_value->error().message)};
  return Rules(**old_value, **new_value);
}

template <class T>
KindInfo make_kind(KindInfo kind) {
  kind.schema = &struct_schema(static_cast<const T*>(nullptr));
  return kind;
}

// The Age column of nearly every kind.
inline Column age_column() {
  return {.name = "Age",
          .type = "date",
          .path = ".metadata.creationTimestamp",
          .description = "Time since creation."};
}

}  // namespace moor::model

#define MOOR_KIND(Type, ...)                                                                   \
  const ::moor::model::KindInfo& kind_info(const Type*) {                                      \
    static const ::moor::model::KindInfo kind = ::moor::model::make_kind<Type>({__VA_ARGS__}); \
    return kind;                                                                               \
  }
