// What a role may do: one table, pure. The registry holds a node to the objects of its own node; here it is
// decided only whether the request may come that far.
#pragma once

#include <string>
#include <string_view>

#include "doors/auth/caller.h"

namespace moor::doors {

// The Secret of volume v is v-token, of this type.
inline constexpr std::string_view kVolumeTokenSuffix = "-token";
inline constexpr std::string_view kVolumeTokenType = "mooring.io/volume-token";

struct Attributes {
  std::string verb;  // get, list, watch, create, update, patch, delete, deletecollection
  std::string group;
  std::string resource;
  std::string subresource;
  std::string space;
  std::string name;
};

struct Decision {
  bool allowed = false;
  std::string reason;
};

bool is_reading(std::string_view verb);
Decision authorize(const Caller& caller, const Attributes& wanted);
// The sentence of a 403, as kubectl users know it: User "x" cannot list resource "y" in API group "z" …
std::string describe_refusal(const Caller& caller, const Attributes& wanted);

}  // namespace moor::doors
