#include "control/runtime/keyed_queue.h"

#include <algorithm>

#include "base/assert.h"

namespace moor::control {
namespace {
constexpr Duration kLongestPause = std::chrono::seconds(30);
}

KeyedQueue::KeyedQueue(Executor& executor, Limits limits) : executor_(executor), limits_(limits) {
  MOOR_ASSERT(limits.begun_at_once > 0, "a queue that lets nothing in");
}

KeyedQueue::~KeyedQueue() {
  for (auto& [key, item] : items_) stop_timer(item);
  if (begun_timer_ != 0) executor_.stop_timer(begun_timer_);
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
  if (item.running || item.waiting || begun_.contains(key)) return add(key);
  if (item.held) return;
  item.held = true;
  ++held_count_;
  held_.push_back(key);
  let_in_held();
}

void KeyedQueue::let_in_held() {
  forget_old_begun();
  while (!held_.empty() && begun_.size() < limits_.begun_at_once) {
    const Key key = std::move(held_.front());
    held_.pop_front();
    const auto found = items_.find(key);
    if (found == items_.end() || !found->second.held) continue;
    const TimePoint now = executor_.clock().now();
    if (begun_.try_emplace(key, now).second) begun_oldest_.emplace_back(now, key);
    let_in(key, found->second);
  }
  if (held_.empty() || begun_timer_ != 0) return;
  begun_timer_ = executor_.start_timer(begun_oldest_.front().first + limits_.begun_counts_for, [this] {
    begun_timer_ = 0;
    let_in_held();
  });
}

void KeyedQueue::forget_old_begun() {
  const TimePoint oldest = executor_.clock().now() - limits_.begun_counts_for;
  while (!begun_oldest_.empty()) {
    const auto& [since, key] = begun_oldest_.front();
    const auto found = begun_.find(key);
    const bool finished = found == begun_.end() || found->second != since;
    if (!finished && since > oldest) return;
    if (!finished) begun_.erase(found);
    begun_oldest_.pop_front();
  }
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
  if (!unfinished && begun_.erase(key) > 0) let_in_held();
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
