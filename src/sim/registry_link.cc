#include "sim/registry_link.h"

#include <algorithm>
#include <cstdlib>

#include "registry/selection.h"

namespace moor::sim {

using namespace std::chrono_literals;
using namespace registry;

namespace {

constexpr Duration kLimit = 10s;  // as the agent's client has it

template <class T>
Task<Result<void>> answer(Task<Answer<T>> work, std::function<void(Answer<T>)> reply) {
  Answer<T> result = co_await std::move(work);
  reply(std::move(result));
  co_return Result<void>();
}

store::Revision number_of(const std::string& version) {
  return static_cast<store::Revision>(std::strtoull(version.c_str(), nullptr, 10));
}

// From where the watch goes on. One that began with what is there is judged from its first event on.
store::Revision judge(Context& context, const Selection& selection, store::Revision after,
                      const std::vector<WatchEvent>& events) {
  Watched watched{&selection, after, after, {}};
  for (const WatchEvent& event : events) {
    watched.seen.push_back(number_of(event.resource_version));
    watched.upto = std::max(watched.upto, watched.seen.back());
  }
  if (after != 0 && context.on_watch) context.on_watch(watched);
  return watched.upto;
}

using RegistryFeed = Feed<Answer<std::vector<WatchEvent>>>;

class LinkWatcher final : public Watcher {
 public:
  LinkWatcher(Caller& caller, std::shared_ptr<RegistryFeed> feed) : caller_(caller), feed_(std::move(feed)) {}
  ~LinkWatcher() override { caller_.close(feed_); }
  Task<Answer<std::vector<WatchEvent>>> next(CancelToken token) override {
    auto events = co_await caller_.next(feed_, token);
    if (events && !events->empty()) progress_ = events->back().resource_version;
    co_return events;
  }
  std::string progress() const override { return progress_; }

 private:
  Caller& caller_;
  std::shared_ptr<RegistryFeed> feed_;
  std::string progress_;
};

Task<Result<void>> serve_watch(Context& context, LocalRegistry& registry, ResourceName what,
                               WatchOptions options, std::shared_ptr<RegistryFeed> feed, CancelToken token,
                               std::function<void(Answer<bool>)> reply) {
  auto watcher = co_await registry.watch(what, options);
  if (!watcher) {
    reply(watcher.error());
    co_return Result<void>();
  }
  reply(true);
  const auto selection = Selection::make(what, options.labels, options.fields);
  store::Revision told = number_of(options.resource_version);
  while (true) {
    auto events = co_await (*watcher)->next(token);
    const bool last = !events;
    if (events && selection) told = judge(context, *selection, told, *events);
    if (!push(context, feed, std::move(events)) || last) break;
  }
  co_return Result<void>();
}

}  // namespace

RegistryLink::RegistryLink(Caller& caller, Servers& servers, Identity identity)
    : caller_(caller), servers_(servers), identity_(std::move(identity)) {
  preferred_ = static_cast<std::size_t>(caller.context().scheduler.random().below(servers.size()));
}

EndpointPtr RegistryLink::choose() {
  return servers_[preferred_ % servers_.size()]->endpoint();
}

template <class T>
Task<Answer<T>> RegistryLink::call(Make<T> make) {
  const EndpointPtr endpoint = choose();
  std::function<void(std::function<void(Answer<T>)>)> serve = [endpoint,
                                                               make](std::function<void(Answer<T>)> reply) {
    Server& server = *endpoint->server;
    server.spawn(answer<T>(make(server.registry()), std::move(reply)));
  };
  Answer<T> result = co_await caller_.call<Answer<T>>(endpoint, kLimit, std::move(serve));
  // Whoever balances the load sends the next call elsewhere.
  if (result.is(Errc::unavailable) || result.is(Errc::timed_out)) ++preferred_;
  co_return result;
}

template <class T>
Task<Answer<T>> RegistryLink::change(std::string what, Make<T> make) {
  if (before_write) before_write(what);
  return call<T>(std::move(make));
}

Task<Answer<Written>> RegistryLink::create(ResourceName where, Json object, WriteOptions options) {
  options.identity = identity_;
  return change<Written>("create", [where, object, options](LocalRegistry& registry) {
    return registry.create(where, object, options);
  });
}

Task<Answer<Item>> RegistryLink::get(ResourceName what, std::string version) {
  return call<Item>([what, version](LocalRegistry& registry) { return registry.get(what, version); });
}

Task<Answer<Listed>> RegistryLink::list(ResourceName what, ListOptions options) {
  return call<Listed>([what, options](LocalRegistry& registry) { return registry.list(what, options); });
}

Task<Answer<Written>> RegistryLink::update(ResourceName what, Json object, WriteOptions options) {
  options.identity = identity_;
  return change<Written>("update", [what, object, options](LocalRegistry& registry) {
    return registry.update(what, object, options);
  });
}

Task<Answer<Written>> RegistryLink::patch(ResourceName what, PatchType type, Json patch,
                                          WriteOptions options) {
  options.identity = identity_;
  return change<Written>("patch", [what, type, patch, options](LocalRegistry& registry) {
    return registry.patch(what, type, patch, options);
  });
}

Task<Answer<Deleted>> RegistryLink::remove(ResourceName what, DeleteOptions options) {
  options.identity = identity_;
  return change<Deleted>("remove",
                         [what, options](LocalRegistry& registry) { return registry.remove(what, options); });
}

Task<Answer<Listed>> RegistryLink::remove_collection(ResourceName what, ListOptions which,
                                                     DeleteOptions options) {
  options.identity = identity_;
  return change<Listed>("remove", [what, which, options](LocalRegistry& registry) {
    return registry.remove_collection(what, which, options);
  });
}

Task<Answer<std::unique_ptr<Watcher>>> RegistryLink::watch(ResourceName what, WatchOptions options) {
  const EndpointPtr endpoint = choose();
  auto feed = std::make_shared<RegistryFeed>();
  feed->from = endpoint;
  feed->to = caller_.machine();
  Context& context = caller_.context();
  std::function<void(std::function<void(Answer<bool>)>)> serve =
      [&context, endpoint, what, options, feed](std::function<void(Answer<bool>)> reply) {
        Server& server = *endpoint->server;
        feed->serving = std::make_shared<CancelSource>(server.token());
        server.on_death([&context, feed] {
          if (feed->serving) feed->serving->cancel();
          break_feed(context, feed);
        });
        server.spawn(serve_watch(context, server.registry(), what, options, feed, feed->serving->token(),
                                 std::move(reply)));
      };
  auto opened = co_await caller_.call<Answer<bool>>(endpoint, kLimit, std::move(serve));
  if (!opened) {
    if (opened.is(Errc::unavailable) || opened.is(Errc::timed_out)) ++preferred_;
    caller_.close(feed);
    co_return opened.error();
  }
  std::unique_ptr<Watcher> watcher = std::make_unique<LinkWatcher>(caller_, feed);
  co_return watcher;
}

}  // namespace moor::sim
