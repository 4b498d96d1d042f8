#include "doors/auth/authenticator.h"

#include <algorithm>

#include "base/secret.h"

namespace moor::doors {
namespace {

bool has_group(const std::vector<std::string>& groups, std::string_view wanted) {
  return std::find(groups.begin(), groups.end(), wanted) != groups.end();
}

Error unauthorized(std::string message) {
  return make_error(Errc::unauthorized, std::move(message));
}

std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

// A page that somebody opened in a browser on this machine can send requests here, also under a name of its
// own that resolves to 127.0.0.1. Its Host or its Origin gives it away.
bool is_from_this_machine(const http::Request& request) {
  const std::string_view authority = request.headers.get("host").value_or("");
  const std::string_view host = host_of(authority);
  if (request.peer.address != "unix" && host != "localhost" && host != "127.0.0.1" && host != "[::1]")
    return false;
  const auto origin = request.headers.get("origin");
  return !origin || (origin->starts_with("http://") && origin->substr(7) == authority);
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::none: return "none";
    case Role::view: return "view";
    case Role::node: return "node";
    case Role::admin: return "admin";
  }
  return "none";
}

Caller make_caller(std::string user, std::vector<std::string> groups) {
  Caller caller;
  if (has_group(groups, kAdminGroup)) {
    caller.role = Role::admin;
  } else if (has_group(groups, kNodeGroup) && user.starts_with(kNodeUserPrefix) &&
             user.size() > kNodeUserPrefix.size()) {
    caller.role = Role::node;
    caller.identity.node = user.substr(kNodeUserPrefix.size());
  } else if (has_group(groups, kViewGroup)) {
    caller.role = Role::view;
  }
  caller.identity.user = std::move(user);
  caller.identity.groups = std::move(groups);
  return caller;
}

const Token* Authenticator::find_token(std::string_view secret) {
  const Token* found = nullptr;
  for (const Token& token : tokens_)
    if (is_same_secret(token.secret, secret)) found = &token;
  if (!file_) return found;
  for (const Token& token : file_->tokens(clock_.now()))
    if (is_same_secret(token.secret, secret)) found = &token;
  return found;
}

Result<Caller> Authenticator::by_token(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size() || !http::equal_ignoring_case(header.substr(0, kScheme.size()), kScheme))
    return unauthorized("only bearer tokens are taken");
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  const Token* token = find_token(header);
  if (token == nullptr) return unauthorized("the bearer token is not known");
  return make_caller(token->user, token->groups);
}

Result<Caller> Authenticator::authenticate(const http::Request& request) {
  Result<Caller> caller = make_caller(std::string(kAnonymousUser), {"system:unauthenticated"});
  const auto& certificate = request.peer.certificate;
  if (certificate && !certificate->verified)
    return unauthorized("the client certificate is not accepted: " + certificate->problem);
  if (request.headers.count("authorization") > 1) return unauthorized("more than one Authorization header");
  if (certificate && !certificate->common_name.empty()) {
    caller = make_caller(certificate->common_name, certificate->organizations);
  } else if (const auto header = request.headers.get("authorization")) {
    caller = by_token(*header);
  } else if (trust_plain_ && !request.peer.tls) {
    caller = make_caller("system:loopback", {std::string(kAdminGroup)});
  }
  if (!caller) return caller;
  if (trust_plain_ && !request.peer.tls && !is_from_this_machine(request))
    return make_error(Errc::forbidden, "this listener serves only programs of its own machine");
  caller->from = request.peer.address;
  if (!caller->is_anonymous()) caller->identity.groups.emplace_back("system:authenticated");
  return caller;
}

}  // namespace moor::doors
