// A door: one family of paths on the common listener. It gets requests whose sender is known.
#pragma once

#include <string_view>

#include "doors/auth/caller.h"
#include "http/server.h"

namespace moor::doors {

class Door {
 public:
  virtual ~Door() = default;
  // Looked at before the body; must not suspend or fail.
  virtual http::Lane classify(const http::Request& request) const = 0;
  // May this be asked by somebody who has not said who he is? Default: no.
  virtual bool is_open(const http::Request& /*request*/) const { return false; }
  virtual Task<http::Response> handle(http::Request request, Caller caller) = 0;
  // How this door says no to what never reaches it (401, 403, and what the server itself turns away).
  virtual http::Response refuse(int status, const std::string& message, int retry_after_seconds) const = 0;
};

}  // namespace moor::doors
