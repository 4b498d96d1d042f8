// Kubernetes' Status objects: how this door says no, and how it says that something is gone. One table maps
// codes and reasons; nothing else in this room knows a number above 299.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::kube {

// What the request was about, for `details`.
struct Subject {
  const model::KindInfo* kind = nullptr;
  std::string name;
};

int code_of(const registry::Refusal& refusal);
Json status_of(const registry::Refusal& refusal, const Subject& subject = {});
http::Response refuse(const registry::Refusal& refusal, const Subject& subject = {});
// For what the listener or the front turn away by number.
http::Response refuse_code(int code, const std::string& message, int retry_after_seconds);
Json success_status(const Subject& subject, std::string_view uid);

registry::Refusal not_found_path();
registry::Refusal method_not_allowed();
registry::Refusal not_acceptable(std::string message);

http::Response json_response(int code, std::string text);

}  // namespace moor::doors::kube
