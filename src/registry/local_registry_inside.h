// What the parts of LocalRegistry share among themselves.
#pragma once

#include "registry/local_registry.h"

namespace moor::registry {

// A write that was decided on an old state is decided again this often before its caller hears of it.
inline constexpr int kWriteAttempts = 8;

struct LocalRegistry::Change {
  enum class Type { replace, json_patch, merge_patch, strategic_patch, apply };
  Type type = Type::replace;
  Json body;
};

struct LocalRegistry::Next {
  Json object;
  std::vector<std::string> warnings;
  bool applied = false;  // managed fields are done already
};

// The store's refusals in the registry's words.
Refusal refuse_commit(const Error& error, const model::KindInfo& kind, std::string_view name);

}  // namespace moor::registry
