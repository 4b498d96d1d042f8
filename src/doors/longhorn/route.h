// Paths and bodies of the familiar REST, read strictly. Pure.
#pragma once

#include <string>

#include "attach/requests.h"
#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::longhorn {

struct Route {
  enum class To { nothing, root, volumes, volume, attachments, attachment };
  To to = To::nothing;
  std::string name;
};
Route find_route(const http::Target& target);

// "attach" of ?action=attach; refused when there is none, or more than one.
registry::Answer<std::string> action_of(const http::Query& query);

registry::Answer<attach::AttachRequest> read_attach(const std::string& body);
registry::Answer<attach::DetachRequest> read_detach(const std::string& body);

}  // namespace moor::doors::longhorn
