// Lets the executor's other ready work run first: `co_await Yield{executor};`
#pragma once

#include <coroutine>

#include "base/executor.h"

namespace moor {

struct Yield {
  Executor& executor;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) const {
    executor.post([waiter] { waiter.resume(); });
  }
  void await_resume() const {}
};

}  // namespace moor
