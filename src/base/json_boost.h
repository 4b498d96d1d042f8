// How a Json holds its boost::json::value. Only json.cc and json_text.cc include this.
#pragma once

#include <boost/json.hpp>
#include <new>

#include "base/json.h"

namespace moor {

struct JsonAccess {
  using Value = boost::json::value;
  static_assert(sizeof(Value) == sizeof(Json) && alignof(Value) == alignof(Json));

  static Value& of(Json& json) { return *std::launder(reinterpret_cast<Value*>(json.storage_)); }
  static const Value& of(const Json& json) {
    return *std::launder(reinterpret_cast<const Value*>(json.storage_));
  }
  static void* room(Json& json) { return json.storage_; }
  // A value inside a boost container seen as a Json: same size, same alignment, and every access goes back
  // through of(), which names the type that really lives there.
  static Json& view(Value& value) { return *reinterpret_cast<Json*>(&value); }
  static const Json& view(const Value& value) { return *reinterpret_cast<const Json*>(&value); }
};

}  // namespace moor
