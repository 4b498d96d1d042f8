#include "control/runtime/gate.h"

#include "base/assert.h"

namespace moor::control {

Gate::Gate(Executor& executor, Limits limits) : executor_(executor), limits_(limits) {
  MOOR_ASSERT(limits.begun_at_once > 0, "a gate that lets nothing in");
}

Gate::~Gate() {
  if (timer_ != 0) executor_.stop_timer(timer_);
}

void Gate::note(const Key& key) {
  const TimePoint now = executor_.clock().now();
  if (begun_.try_emplace(key, now).second) oldest_.emplace_back(now, key);
}

bool Gate::begin(const Key& key) {
  if (is_begun(key)) return true;
  forget_old();
  if (!waiting_.empty() || begun_.size() >= limits_.begun_at_once) return false;
  note(key);
  return true;
}

void Gate::wait(const Key& key, LetIn let_in) {
  waiting_.push_back({key, std::move(let_in)});
  let_in_waiting();
}

void Gate::finish(const Key& key) {
  if (begun_.erase(key) > 0) let_in_waiting();
}

void Gate::let_in_waiting() {
  forget_old();
  while (!waiting_.empty() && begun_.size() < limits_.begun_at_once) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next.let_in()) note(next.key);
  }
  if (waiting_.empty() || timer_ != 0) return;
  timer_ = executor_.start_timer(oldest_.front().first + limits_.begun_counts_for, [this] {
    timer_ = 0;
    let_in_waiting();
  });
}

void Gate::forget_old() {
  const TimePoint limit = executor_.clock().now() - limits_.begun_counts_for;
  while (!oldest_.empty()) {
    const auto& [since, key] = oldest_.front();
    const auto found = begun_.find(key);
    const bool finished = found == begun_.end() || found->second != since;
    if (!finished && since > limit) return;
    if (!finished) begun_.erase(found);
    oldest_.pop_front();
  }
}

}  // namespace moor::control
