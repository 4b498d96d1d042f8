// Where objects lie in the store: <group>/<resource>/<namespace or ->/<name>, the core group being "core".
// Everything of a kind, and of a kind in a namespace, has a prefix of its own.
#pragma once

#include <string>
#include <string_view>

#include "model/kind.h"

namespace moor::registry {

std::string key_of(const model::KindInfo& kind, std::string_view space, std::string_view name);
// The same in memory that is used again, for keys that are only looked up.
std::string_view put_key(std::string& buffer, const model::KindInfo& kind, std::string_view space,
                         std::string_view name);
// All namespaces when `space` is empty. Ends in '/'.
std::string prefix_of(const model::KindInfo& kind, std::string_view space);

struct KeyParts {
  const model::KindInfo* kind = nullptr;  // null: no kind of ours lies there
  std::string_view space;                 // empty for cluster-scoped kinds
  std::string_view name;
};
// Views into `key`.
KeyParts split_key(std::string_view key);

}  // namespace moor::registry
