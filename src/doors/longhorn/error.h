// How this door says no, in the form that clients of the familiar REST know:
//   {"type":"error","status":409,"code":"Conflict","message":"…","detail":"","actions":{},"links":{}}
#pragma once

#include <string>

#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::longhorn {

http::Response error_response(int status, const std::string& message, int retry_after_seconds = 0);
http::Response error_response(const registry::Refusal& refusal);
int status_of(const registry::Refusal& refusal);

}  // namespace moor::doors::longhorn
