// Coroutines for step machines. A machine of many waits (a purge, a flush) reads as straight code and is
// still without I/O: a Task goes on only when something it waits for is reported, on the caller's thread, in
// Runner::run. Nothing here knows of threads, clocks or sockets; the same events in the same order give the
// same steps.
//
// Task<T>  started by co_await, owned by its awaiter.
// Runner   owns the root tasks and the queue of those that can go on. Waking never resumes inside the waker:
// so no
//          lock holder is re-entered and the stack stays flat. Destroying a Runner drops what is suspended (a
//          crash in the simulator); whoever still holds a pointer into a task (the Disk) must have forgotten
//          it before.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"

// clang tells of its sanitizers in another way than gcc.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOOR_SANITIZED
#endif
#endif

namespace moor::block {

namespace detail {

// Frames of tasks come and go five to a request, always in the same few sizes: they are kept and used again.
// Per thread, for a machine belongs to one; bounded, so that a burst leaves little behind.
class FramePool {
 public:
  static void* take(std::size_t size) {
    const std::size_t kind = (size + kStep - 1) / kStep;
    if (kind >= kKinds) return ::operator new(size);
    Shelf& shelf = shelves()[kind];
    if (shelf.first == nullptr) return ::operator new(kind* kStep);
    --shelf.count;
    return std::exchange(shelf.first, shelf.first->next);
  }
  static void give(void* frame, std::size_t size) noexcept {
    const std::size_t kind = (size + kStep - 1) / kStep;
    if (kind >= kKinds || shelves()[kind].count >= kMost) return ::operator delete(frame);
    Shelf& shelf = shelves()[kind];
    shelf.first = new (frame) Free{shelf.first};
    ++shelf.count;
  }

 private:
  static constexpr std::size_t kStep = 64;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(MOOR_SANITIZED)
  static constexpr std::size_t kKinds = 1;  // none: a frame used after its end must be seen
#else
  static constexpr std::size_t kKinds = 17;  // up to 1 KiB
#endif
  static constexpr std::size_t kMost = 64;
  struct Free {
    Free* next;
  };
  struct Shelf {
    Free* first = nullptr;
    std::size_t count = 0;
    ~Shelf() {
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    }
  };
  static std::array<Shelf, kKinds>& shelves() {
    thread_local std::array<Shelf, kKinds> all;
    return all;
  }
};

struct PooledFrame {
  static void* operator new(std::size_t size) { return FramePool::take(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { FramePool::give(frame, size); }
};

struct TaskPromiseBase : PooledFrame {
  std::coroutine_handle<> continuation;
  bool starting = false;

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      auto& promise = self.promise();
      // Finished within its awaiter's first resume: the awaiter sees done() and never suspends. Transferring
      // here instead would deepen the stack with each such call in unoptimised builds.
      if (promise.starting || !promise.continuation) return std::noop_coroutine();
      return promise.continuation;
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { MOOR_UNREACHABLE("an exception left a task"); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  void return_void() noexcept {}
  void take() noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::TaskPromise<T> {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiter) {
    auto& promise = handle_.promise();
    promise.continuation = awaiter;
    promise.starting = true;
    handle_.resume();
    promise.starting = false;
    return !handle_.done();
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() { drop_all(); }

  // Starts it at once; it runs until its first wait.
  void spawn(Task<void> task) { drive(*this, std::move(task)); }

  void post(std::coroutine_handle<> handle) { ready_.push_back(handle); }

  // Until nothing can go on without a further event. Ends: each round consumes wakes, and tasks wait on
  // events.
  void run() {
    while (!ready_.empty()) {
      auto next = ready_.front();
      ready_.pop_front();
      next.resume();
    }
  }

  bool has_ready() const { return !ready_.empty(); }
  std::size_t live() const { return live_; }

  void drop_all() {
    while (roots_ != nullptr) {
      std::coroutine_handle<Root::promise_type>::from_promise(*roots_).destroy();
    }
    ready_.clear();
  }

 private:
  struct Root {
    struct promise_type : detail::PooledFrame {
      explicit promise_type(Runner& owner, Task<void>&) : runner(owner) {
        next = runner.roots_;
        if (next != nullptr) next->previous = this;
        runner.roots_ = this;
        ++runner.live_;
      }
      ~promise_type() {
        (previous != nullptr ? previous->next : runner.roots_) = next;
        if (next != nullptr) next->previous = previous;
        --runner.live_;
      }
      Root get_return_object() noexcept { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { MOOR_UNREACHABLE("an exception left a task"); }
      Runner& runner;
      promise_type* next = nullptr;
      promise_type* previous = nullptr;
    };
  };
  static Root drive(Runner&, Task<void> task) { co_await std::move(task); }

  Root::promise_type* roots_ = nullptr;
  std::size_t live_ = 0;
  std::deque<std::coroutine_handle<>> ready_;
};

}  // namespace moor::block
