// Threads for work that blocks (fsync, getaddrinfo, a library's synchronous calls). The result comes back to
// the executor as an awaited value. The destructor lets what was started finish.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/completion.h"
#include "base/executor.h"
#include "base/task.h"

namespace moor {

class Pool {
 public:
  Pool(Executor& executor, std::size_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Runs `function` on a thread of the pool. Awaited from the executor's thread.
  template <class Function>
  Task<std::invoke_result_t<Function>> run(Function function) {
    const Completion<std::invoke_result_t<Function>> done(executor_);
    enqueue([done, function = std::move(function)]() mutable { done.set(function()); });
    co_return co_await done;
  }

 private:
  void enqueue(std::function<void()> work);
  void work();

  Executor& executor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace moor
