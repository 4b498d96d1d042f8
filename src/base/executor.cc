#include "base/executor.h"

#include <algorithm>

namespace moor {

Executor::TimerId ManualExecutor::start_timer(TimePoint when, Work work) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(work));
  return id;
}

void ManualExecutor::stop_timer(TimerId timer) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [timer](const auto& entry) { return entry.first.second == timer; });
  if (found != timers_.end()) timers_.erase(found);
}

bool ManualExecutor::fire_next_timer(TimePoint until) {
  if (timers_.empty() || timers_.begin()->first.first > until) return false;
  auto node = timers_.extract(timers_.begin());
  const TimePoint due = node.key().first;
  if (due > clock_.now()) clock_.advance(due - clock_.now());
  node.mapped()();
  return true;
}

bool ManualExecutor::run_one() {
  if (!ready_.empty()) {
    Work work = std::move(ready_.front());
    ready_.pop_front();
    work();
    return true;
  }
  return fire_next_timer(auto_advance_ ? TimePoint::never() : clock_.now());
}

void ManualExecutor::run_ready() {
  while (!ready_.empty()) run_one();
}

void ManualExecutor::advance(Duration duration) {
  const TimePoint until = clock_.now() + duration;
  run_ready();
  while (fire_next_timer(until)) run_ready();
  if (clock_.now() < until) clock_.advance(until - clock_.now());
}

}  // namespace moor
