// Completion<T>: the bridge from callbacks and other threads to a task. The producer calls set() once, from
// any thread; the one task that awaits it goes on later, on the executor given. Copies share one state, so
// that a callback may outlive the task and the other way round.
#pragma once

#include <coroutine>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/executor.h"

namespace moor {

template <class T>
class Completion {
 public:
  explicit Completion(Executor& executor) : state_(std::make_shared<State>(executor)) {}

  // The first value wins; later ones are dropped and answered with false.
  bool set(T value) const {
    std::coroutine_handle<> waiter;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->value.has_value()) return false;
      state_->value.emplace(std::move(value));
      waiter = std::exchange(state_->waiter, nullptr);
    }
    // The work keeps the state alive until the waiter has taken the value.
    if (waiter) state_->executor.post([waiter, keep = state_] { waiter.resume(); });
    return true;
  }

  bool await_ready() const {
    const std::lock_guard lock(state_->mutex);
    return state_->value.has_value();
  }
  bool await_suspend(std::coroutine_handle<> waiter) const {
    const std::lock_guard lock(state_->mutex);
    MOOR_ASSERT(!state_->waiter, "a completion has one waiter");
    if (state_->value.has_value()) return false;
    state_->waiter = waiter;
    return true;
  }
  T await_resume() const {
    const std::lock_guard lock(state_->mutex);
    MOOR_ASSERT(state_->value.has_value());
    return std::move(*state_->value);
  }

 private:
  struct State {
    explicit State(Executor& target) : executor(target) {}
    Executor& executor;
    std::mutex mutex;
    std::optional<T> value;
    std::coroutine_handle<> waiter;
  };
  std::shared_ptr<State> state_;
};

}  // namespace moor
