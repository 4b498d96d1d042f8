#include "control/runtime/keyed_queue.h"

#include <algorithm>

#include "base/assert.h"

namespace moor::control {
namespace {
constexpr Duration kLongestPause = std::chrono::seconds(30);
}

KeyedQueue::KeyedQueue(Executor& executor, Gate* gate) : executor_(executor), gate_(gate) {}

KeyedQueue::~KeyedQueue() {
  *alive_ = false;
  for (auto& [key, item] : items_) stop_timer(item);
}

void KeyedQueue::stop_timer(Item& item) {
  if (item.timer != 0) executor_.stop_timer(item.timer);
  item.timer = 0;
}

void KeyedQueue::start_timer(const Key& key, Item& item, Duration after) {
  stop_timer(item);
  item.due = executor_.clock().now() + after;
  item.timer = executor_.start_timer(item.due, [this, key] {
    items_[key].timer = 0;
    add(key);
  });
}

void KeyedQueue::add(const Key& key) {
  Item& item = items_[key];
  if (item.running) {
    item.again = true;
    return;
  }
  if (!item.waiting) let_in(key, item);
}

void KeyedQueue::let_in(const Key& key, Item& item) {
  if (std::exchange(item.held, false)) --held_count_;
  item.waiting = true;
  order_.push_back(key);
  // A waiter that was cancelled takes no value: the next one gets the call.
  while (!idle_.empty()) {
    const Completion<bool> worker = idle_.front();
    idle_.pop_front();
    if (worker.set(true)) return;
  }
}

void KeyedQueue::add_new(const Key& key) {
  Item& item = items_[key];
  // What it is about is begun already, or comes with the look that it gets anyway.
  if (gate_ == nullptr || item.running || item.waiting || gate_->is_begun(key)) return add(key);
  if (item.held) return;
  item.held = true;
  ++held_count_;
  gate_->wait(key, [this, alive = alive_, key] { return *alive && let_in_held(key); });
}

bool KeyedQueue::let_in_held(const Key& key) {
  const auto found = items_.find(key);
  if (found == items_.end() || !found->second.held) return false;
  let_in(key, found->second);
  return true;
}

bool KeyedQueue::try_take(const Key& key) {
  const auto found = items_.find(key);
  if (found != items_.end() && (found->second.running || found->second.waiting)) return false;
  if (gate_ != nullptr && !gate_->begin(key)) return false;
  Item& item = found == items_.end() ? items_[key] : found->second;
  if (std::exchange(item.held, false)) --held_count_;
  item.running = true;
  return true;
}

void KeyedQueue::add_later(const Key& key, Duration after) {
  Item& item = items_[key];
  if (item.running) {  // its end sets the timer anew
    item.again = true;
  } else if (!item.waiting && !item.held && (item.timer == 0 || item.due > executor_.clock().now() + after)) {
    start_timer(key, item, after);
  }
}

Task<Result<Key>> KeyedQueue::next(CancelToken token) {
  while (order_.empty()) {
    CO_TRY_VOID(token.check());
    const Completion<bool> wake(executor_);
    idle_.push_back(wake);
    const CancelCallback on_cancel(token, [wake] { wake.set(false); });
    co_await wake;
  }
  CO_TRY_VOID(token.check());
  Key key = std::move(order_.front());
  order_.pop_front();
  Item& item = items_[key];
  item.waiting = false;
  item.running = true;
  stop_timer(item);
  co_return key;
}

void KeyedQueue::done(const Key& key, std::optional<Duration> again_after, bool unfinished) {
  Item& item = items_[key];
  item.pause = Duration(0);
  stop_timer(item);
  if (again_after) start_timer(key, item, *again_after);
  finish(key);
  if (!unfinished && gate_ != nullptr) gate_->finish(key);
}

void KeyedQueue::failed(const Key& key, Duration shortest_pause) {
  Item& item = items_[key];
  item.pause = std::clamp(item.pause * 2, shortest_pause, kLongestPause);
  start_timer(key, item, item.pause);
  finish(key);
}

void KeyedQueue::finish(const Key& key) {
  const auto found = items_.find(key);
  Item& item = found->second;
  item.running = false;
  if (std::exchange(item.again, false)) {
    add(key);
  } else if (item.timer == 0 && !item.waiting && !item.held) {
    items_.erase(found);
  }
}

}  // namespace moor::control
