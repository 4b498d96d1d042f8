#include "base/cancel.h"

#include "base/completion.h"

namespace moor {

Error CancelToken::reason() const {
  return state_ == nullptr ? Error{Errc::cancelled, "cancelled"} : state_->reason;
}

Result<void> CancelToken::check() const {
  if (is_cancelled()) return reason();
  return {};
}

CancelCallback::CancelCallback(const CancelToken& token, std::function<void()> callback)
    : state_(token.state_) {
  if (token.is_cancelled()) {
    callback();
  } else if (token.state_ != nullptr) {
    id_ = token.state_->next_id++;
    token.state_->callbacks.emplace(id_, std::move(callback));
  }
}

CancelCallback::~CancelCallback() {
  if (const auto state = state_.lock()) state->callbacks.erase(id_);
}

CancelSource::CancelSource() : state_(std::make_shared<CancelToken::State>()) {}

CancelSource::CancelSource(const CancelToken& parent) : CancelSource() {
  // The callback holds our state, not us: it may run while this object is being destroyed by another
  // callback.
  parent_ = std::make_unique<CancelCallback>(
      parent, [state = state_, parent] { cancel_state(*state, parent.reason()); });
}

CancelSource::~CancelSource() {
  if (executor_ != nullptr) executor_->stop_timer(timer_);
}

void CancelSource::cancel_state(CancelToken::State& state, Error reason) {
  if (state.cancelled) return;
  state.cancelled = true;
  state.reason = std::move(reason);
  // A callback may erase others; take them one at a time instead of iterating.
  while (!state.callbacks.empty()) {
    auto node = state.callbacks.extract(state.callbacks.begin());
    node.mapped()();
  }
}

void CancelSource::cancel(Error reason) {
  const auto keep = state_;  // a callback may destroy this source
  cancel_state(*keep, std::move(reason));
}

void CancelSource::set_deadline(Executor& executor, TimePoint when, std::string what) {
  if (executor_ != nullptr) executor_->stop_timer(timer_);
  executor_ = &executor;
  timer_ = executor.start_timer(when, [state = state_, what = std::move(what)] {
    cancel_state(*state, Error{Errc::timed_out, what + ": no answer in time"});
  });
}

Task<Result<void>> sleep_for(Executor& executor, Duration duration, CancelToken token) {
  const Completion<Result<void>> done(executor);
  const auto timer = executor.start_timer(executor.clock().now() + duration, [done] { done.set({}); });
  const CancelCallback on_cancel(token, [done, token] { done.set(token.reason()); });
  auto result = co_await done;
  executor.stop_timer(timer);
  co_return result;
}

}  // namespace moor
