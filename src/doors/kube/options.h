// Query parameters and DeleteOptions bodies, read into the registry's options. Pure; what cannot be
// understood is refused, never guessed.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "doors/auth/caller.h"
#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::kube {

registry::Answer<registry::ListOptions> list_options(const http::Query& query);
registry::Answer<registry::WriteOptions> write_options(const http::Request& request, const Caller& caller,
                                                       std::optional<registry::PatchType> patch);
// `body` is the DeleteOptions object, null when there was none.
registry::Answer<registry::DeleteOptions> delete_options(const http::Query& query, const Json& body,
                                                         const Caller& caller);

struct WatchWanted {
  registry::WatchOptions options;
  bool bookmarks = false;
  std::optional<Duration> timeout;
};
registry::Answer<WatchWanted> watch_options(const http::Query& query);

}  // namespace moor::doors::kube
