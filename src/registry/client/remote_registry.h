// The registry of a server elsewhere, over HTTP: the same interface, so that controllers and agents need not
// know where it is. Who asks is what the credentials say; an Identity in the options plays no part.
//
// On one Loop's thread. Errors as in http/client.h, and the server's refusals with their reasons and causes.
// Nothing is retried here: whether a write that got no answer may be repeated only the caller knows.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/completion.h"
#include "base/loop.h"
#include "http/client.h"
#include "registry/registry.h"

namespace moor::registry {

struct RemoteOptions {
  http::ClientOptions client;  // endpoint, CA, client certificate or bearer token
  Duration request_timeout = std::chrono::seconds(30);
  std::string user_agent = "moor";
  // Requests under way, watches and heartbeats apart; the others wait their turn here. 0: no limit. Without
  // one, a burst opens a connection per request and is turned away by the server (429).
  std::size_t most_at_once = 0;
};

class RemoteRegistry final : public Registry {
 public:
  static Result<std::unique_ptr<RemoteRegistry>> make(Loop& loop, RemoteOptions options);

  Task<Answer<Written>> create(ResourceName where, Json object, WriteOptions options) override;
  Task<Answer<Item>> get(ResourceName what, std::string resource_version) override;
  Task<Answer<Listed>> list(ResourceName what, ListOptions options) override;
  // The watcher ends with Errc::unavailable when the server ends the stream (it does so now and then): watch
  // again from progress().
  Task<Answer<std::unique_ptr<Watcher>>> watch(ResourceName what, WatchOptions options) override;
  Task<Answer<Written>> update(ResourceName what, Json object, WriteOptions options) override;
  Task<Answer<Written>> patch(ResourceName what, PatchType type, Json patch, WriteOptions options) override;
  Task<Answer<Deleted>> remove(ResourceName what, DeleteOptions options) override;
  Task<Answer<Listed>> remove_collection(ResourceName what, ListOptions which,
                                         DeleteOptions options) override;

 private:
  RemoteRegistry(Loop& loop, RemoteOptions options, std::unique_ptr<http::Client> client)
      : loop_(loop), options_(std::move(options)), client_(std::move(client)) {}
  http::Request request(http::Method method, std::string target, const Json* body,
                        std::string_view content_type) const;
  TimePoint deadline() const { return loop_.clock().now() + options_.request_timeout; }
  Task<Answer<http::Response>> send(http::Request request, bool urgent = false);
  Task<Answer<Written>> write(http::Request request, bool urgent = false);
  // Answers what was sent, with its new version.
  Task<Answer<Written>> update_status(ResourceName what, Json object, WriteOptions options);

  Loop& loop_;
  RemoteOptions options_;
  std::unique_ptr<http::Client> client_;
  std::size_t under_way_ = 0;
  std::deque<Completion<bool>> waiting_;
};

// The stream of an open watch as a Watcher.
std::unique_ptr<Watcher> make_remote_watcher(std::unique_ptr<http::ResponseStream> stream,
                                             std::string resource_version);

}  // namespace moor::registry
