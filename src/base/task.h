// Task<T>: a coroutine that runs when awaited and hands its result to whoever awaits it. It belongs to one
// executor's thread; nothing here takes a lock. Exceptions do not travel through tasks: what can fail returns
// a Result. Rules for writing one (they keep dangling references out): parameters by value, no capturing
// lambda as a coroutine, re-check what you knew after each co_await.
//
// Why not Asio's awaitable: it costs 13 CPU-seconds per file and binds every room to Asio's clock and
// executor, while the simulator needs its own (docs/decisions/0002-tasks.md).
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/executor.h"

namespace moor {

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::optional<T> value;

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
        return done.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    template <class U>
    void return_value(U&& result) {
      value.emplace(std::forward<U>(result));
    }
    void unhandled_exception() { MOOR_UNREACHABLE("an exception left a task"); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  T await_resume() {
    MOOR_ASSERT(handle_.promise().value.has_value());
    return std::move(*handle_.promise().value);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
// A coroutine that starts at once and frees itself at its end. Only TaskGroup and block_on start one: all
// other work is a Task that somebody awaits.
struct Root {
  struct promise_type {
    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { MOOR_UNREACHABLE("an exception left a task"); }
  };
};

template <class T>
Root run_into(Task<T> task, std::optional<T>* result) {
  result->emplace(co_await std::move(task));
}
}  // namespace detail

// Runs the executor until the task is done. For main(), tests and benches: never inside other work.
template <class T>
T block_on(Executor& executor, Task<T> task) {
  std::optional<T> result;
  detail::run_into(std::move(task), &result);
  while (!result.has_value())
    MOOR_ASSERT(executor.run_one(), "nothing left to run, and the task still waits");
  return std::move(*result);
}

}  // namespace moor
