// Calls and streams over the network, as a client sees them: a call is answered, refused at once, cut off or
// never answered; a stream delivers in order until it breaks. The caller's process can be severed from all of
// it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/cancel.h"
#include "base/completion.h"
#include "sim/context.h"
#include "sim/process.h"

namespace moor::sim {

class Server;

// Where calls go: one life of a server. Closed when that life ends.
struct Endpoint {
  MachineId machine = 0;
  bool open = true;
  Server* server = nullptr;  // null for the store
};
using EndpointPtr = std::shared_ptr<Endpoint>;

// A stream from a server to a client, shared by both ends.
template <class T>
struct Feed {
  EndpointPtr from;
  MachineId to = 0;
  std::deque<T> items;
  std::optional<Completion<bool>> waiter;
  bool client_open = true;
  bool broken = false;
  TimePoint last;
  std::shared_ptr<CancelSource> serving;  // the server's end
};

template <class T>
void hand_over(const std::shared_ptr<Feed<T>>& feed, T item) {
  if (!feed->client_open) return;
  feed->items.push_back(std::move(item));
  if (feed->waiter) feed->waiter->set(true);
}

// The client hears of the end: soon when packets still pass, else when it gives up waiting for a sign of
// life.
template <class T>
void break_feed(Context& context, const std::shared_ptr<Feed<T>>& feed) {
  if (std::exchange(feed->broken, true)) return;
  using namespace std::chrono_literals;
  const bool passes = context.network.reaches(feed->from->machine, feed->to);
  const Duration after =
      passes ? context.network.delay(feed->from->machine, feed->to) : context.scheduler.between(5s, 30s);
  const TimePoint when = std::max(feed->last, context.scheduler.now() + after);
  context.scheduler.at(when,
                       [feed] { hand_over<T>(feed, make_error(Errc::unavailable, "the watch is cut")); });
}

// False: the stream is of no further use.
template <class T>
bool push(Context& context, const std::shared_ptr<Feed<T>>& feed, T item) {
  if (!feed->client_open || feed->broken || !feed->from->open) return false;
  const MachineId from = feed->from->machine;
  const bool fickle =
      context.network.weather(feed->to).watch_cuts && context.scheduler.random().chance(1, 20);
  if (fickle || context.network.is_lost(from, feed->to, Network::Role::request)) {
    break_feed(context, feed);
    return false;
  }
  ++context.counts.messages;
  feed->last = std::max(feed->last, context.scheduler.now() + context.network.delay(from, feed->to));
  auto box = std::make_shared<T>(std::move(item));
  context.scheduler.at(feed->last, [feed, box] {
    if (!feed->broken) hand_over<T>(feed, std::move(*box));
  });
  return true;
}

class Caller {
 public:
  Caller(Context& context, SimProcess& process, MachineId machine)
      : context_(context), process_(process), machine_(machine) {
    context_.callers.push_back(this);
  }
  ~Caller() { std::erase(context_.callers, this); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  MachineId machine() const { return machine_; }
  SimProcess& process() { return process_; }
  Context& context() { return context_; }
  CancelToken severed() const { return sever_.token(); }
  // The process dies: nothing under way is answered, and nothing more is asked.
  void sever() { sever_.cancel({Errc::unavailable, "severed"}); }
  bool is_severed() const { return sever_.token().is_cancelled(); }
  // That life of a server is over: its callers hear of it, when they can.
  void lost(const EndpointPtr& endpoint);

  // T is made from an Error. `serve` runs at the server and answers once, or never.
  template <class T>
  Task<T> call(EndpointPtr endpoint, Duration limit, std::function<void(std::function<void(T)>)> serve) {
    if (is_severed()) co_return T(make_error(Errc::unavailable, "severed"));
    const Completion<T> done(process_);
    const std::uint64_t id = ++last_call_;
    pending_[id] = {endpoint, [done](Error error) { done.set(T(std::move(error))); }};
    const CancelCallback on_sever(sever_.token(),
                                  [done] { done.set(T(make_error(Errc::unavailable, "severed"))); });
    const auto timer = process_.start_timer(process_.clock().now() + limit, [done] {
      done.set(T(make_error(Errc::timed_out, "no answer in time")));
    });
    Context& context = context_;
    const MachineId here = machine_;
    const auto refuse = [&context, done] {
      context.scheduler.after(std::chrono::microseconds(300),
                              [done] { done.set(T(make_error(Errc::unavailable, "connection refused"))); });
    };
    if (endpoint == nullptr || !endpoint->open) {
      refuse();
    } else {
      auto reply = [&context, here, endpoint, done](T value) {
        if (!endpoint->open) return;
        auto box = std::make_shared<T>(std::move(value));
        context.network.send(
            endpoint->machine, here, [done, box] { done.set(std::move(*box)); }, Network::Role::answer);
      };
      context.network.send(here, endpoint->machine, [endpoint, serve = std::move(serve), reply, refuse] {
        if (!endpoint->open) return refuse();
        serve(reply);
      });
    }
    T result = co_await done;
    process_.stop_timer(timer);
    pending_.erase(id);
    co_return result;
  }

  // The client's end of a stream.
  template <class T>
  Task<T> next(std::shared_ptr<Feed<T>> feed, CancelToken token) {
    while (feed->items.empty()) {
      if (token.is_cancelled()) co_return T(token.reason());
      if (is_severed()) co_return T(make_error(Errc::unavailable, "severed"));
      feed->waiter.emplace(process_);
      const Completion<bool> waiter = *feed->waiter;
      const CancelCallback on_cancel(token, [waiter] { waiter.set(false); });
      const CancelCallback on_sever(sever_.token(), [waiter] { waiter.set(false); });
      (void)co_await waiter;
      feed->waiter.reset();
    }
    T item = std::move(feed->items.front());
    feed->items.pop_front();
    co_return item;
  }
  template <class T>
  void close(const std::shared_ptr<Feed<T>>& feed) {
    if (!std::exchange(feed->client_open, false)) return;
    if (feed->waiter) feed->waiter->set(false);
    // Also of a process that died: its machine's kernel closes what it had open.
    context_.network.send(machine_, feed->from->machine, [feed] {
      if (feed->from->open && feed->serving) feed->serving->cancel();
    });
  }

 private:
  struct Pending {
    EndpointPtr endpoint;
    std::function<void(Error)> fail;
  };
  Context& context_;
  SimProcess& process_;
  MachineId machine_;
  CancelSource sever_;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t last_call_ = 0;
};

}  // namespace moor::sim
