// Finds out who sends a request: by a verified client certificate (CN: the user, O: the groups), by a bearer
// token, or, where a plain listener on the loopback says so, by being on this machine.
//
// Bad credentials are never taken for none: an expired certificate or a wrong token is refused, also where
// an anonymous caller would be let in. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/executor.h"
#include "doors/auth/caller.h"
#include "doors/auth/token_file.h"
#include "http/message.h"

namespace moor::doors {

class Authenticator {
 public:
  explicit Authenticator(const Clock& clock) : clock_(clock) {}

  // At most kMaxTokens in all.
  void add_token(Token token) { tokens_.push_back(std::move(token)); }
  // Read again when it changes, looked at once a second at most.
  void use_token_file(std::string path) { file_.emplace(std::move(path)); }
  // Requests without TLS and without credentials come from the administrator of this machine. Only for
  // listeners on the loopback: pages in a browser are kept out by their Host and Origin.
  void trust_plain_loopback() { trust_plain_ = true; }

  // An anonymous caller when there are no credentials. Errc::unauthorized: credentials that are no good;
  // Errc::forbidden: a page of some other site speaks through a browser on this machine.
  Result<Caller> authenticate(const http::Request& request);

 private:
  Result<Caller> by_token(std::string_view header);
  const Token* find_token(std::string_view secret);

  const Clock& clock_;
  std::vector<Token> tokens_;
  std::optional<TokenFile> file_;
  bool trust_plain_ = false;
};

}  // namespace moor::doors
