#include "registry/work_queue.h"

#include <algorithm>

namespace moor::registry {
namespace {
constexpr Duration kShortestPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(30);
}  // namespace

WorkQueue::~WorkQueue() {
  for (const auto& [key, pause] : pauses_) executor_.stop_timer(pause.timer);
}

void WorkQueue::add(std::string key) {
  if (!keys_.insert(key).second) return;
  order_.push_back(std::move(key));
  // A waiter that was cancelled takes no value: the next one gets the call.
  while (!waiting_.empty()) {
    const Completion<bool> waiter = waiting_.front();
    waiting_.pop_front();
    if (waiter.set(true)) return;
  }
}

void WorkQueue::retry(std::string key) {
  Pause& pause = pauses_[key];
  executor_.stop_timer(pause.timer);
  pause.length = std::clamp(pause.length * 2, kShortestPause, kLongestPause);
  pause.timer = executor_.start_timer(executor_.clock().now() + pause.length, [this, key] { add(key); });
}

void WorkQueue::forget(const std::string& key) {
  const auto found = pauses_.find(key);
  if (found == pauses_.end()) return;
  executor_.stop_timer(found->second.timer);
  pauses_.erase(found);
}

Task<Result<std::string>> WorkQueue::next(CancelToken token) {
  while (order_.empty()) {
    CO_TRY_VOID(token.check());
    const Completion<bool> wake(executor_);
    waiting_.push_back(wake);
    const CancelCallback on_cancel(token, [wake] { wake.set(false); });
    co_await wake;
  }
  CO_TRY_VOID(token.check());
  std::string key = std::move(order_.front());
  order_.pop_front();
  keys_.erase(key);
  co_return key;
}

}  // namespace moor::registry
