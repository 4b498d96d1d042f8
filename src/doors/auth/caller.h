// Who is at the door, once it is known. Plain values.
#pragma once

#include <string>
#include <string_view>

#include "registry/registry.h"

namespace moor::doors {

// What somebody may do, derived from the groups that a certificate or a token names.
enum class Role {
  none,   // known, or not even that: discovery at most
  view,   // reads everything but Secrets
  node,   // reads the same; writes what belongs to its node (the registry holds it to that)
  admin,  // everything
};

inline constexpr std::string_view kAdminGroup = "system:masters";
inline constexpr std::string_view kViewGroup = "mooring:view";
inline constexpr std::string_view kNodeGroup = "system:nodes";
inline constexpr std::string_view kNodeUserPrefix = "system:node:";
inline constexpr std::string_view kAnonymousUser = "system:anonymous";

struct Caller {
  registry::Identity identity;
  Role role = Role::none;
  std::string from;  // the peer's address, for the audit line

  bool is_anonymous() const { return identity.user == kAnonymousUser; }
};

std::string_view to_string(Role role);
// The role that the groups give. A node's identity needs both the group and a name of the form
// system:node:NAME.
Caller make_caller(std::string user, std::vector<std::string> groups);

}  // namespace moor::doors
