#include "doors/auth/authorizer.h"

#include <fmt/format.h>

namespace moor::doors {

bool is_reading(std::string_view verb) {
  return verb == "get" || verb == "list" || verb == "watch";
}

Decision authorize(const Caller& caller, const Attributes& wanted) {
  // Asking what one may do is no secret.
  const bool asks_about_itself =
      (wanted.group == "authorization.k8s.io" &&
       (wanted.resource == "selfsubjectaccessreviews" || wanted.resource == "selfsubjectrulesreviews")) ||
      (wanted.group == "authentication.k8s.io" && wanted.resource == "selfsubjectreviews");
  if (asks_about_itself && wanted.verb == "create" && !caller.is_anonymous()) return {true, ""};
  const bool is_secret = wanted.group.empty() && wanted.resource == "secrets";
  switch (caller.role) {
    case Role::admin: return {true, ""};
    case Role::view:
      if (!is_reading(wanted.verb)) return {false, "the role view only reads"};
      return is_secret ? Decision{false, "the role view does not read secrets"} : Decision{true, ""};
    case Role::node:
      // Only the tokens of volumes that it serves: the door looks which those are (kube/node_secret.h).
      if (is_secret && (wanted.verb != "get" || !wanted.name.ends_with(kVolumeTokenSuffix)))
        return {false, "nodes read no secrets but the tokens of their volumes"};
      if (wanted.verb == "deletecollection") return {false, "nodes do not delete collections"};
      return {true, ""};
    case Role::none: return {false, "none of its groups has a role"};
  }
  return {false, ""};
}

std::string describe_refusal(const Caller& caller, const Attributes& wanted) {
  std::string resource = wanted.resource;
  if (!wanted.subresource.empty()) resource += "/" + wanted.subresource;
  std::string text = fmt::format("User \"{}\" cannot {} resource \"{}\" in API group \"{}\"",
                                 caller.identity.user, wanted.verb, resource, wanted.group);
  text += wanted.space.empty() ? std::string(" at the cluster scope")
                               : fmt::format(" in the namespace \"{}\"", wanted.space);
  return text;
}

}  // namespace moor::doors
