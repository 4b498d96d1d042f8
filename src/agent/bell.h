// A bell: ring() wakes the one task that waits, or lets its next wait() through at once. Many rings before
// that are one. One executor's thread.
#pragma once

#include <optional>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"

namespace moor::agent {

class Bell {
 public:
  explicit Bell(Executor& executor) : executor_(executor) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() {
    rung_ = true;
    if (waiter_) waiter_->set(true);
  }
  // Until it rings or that time has come. An error: cancelled.
  Task<Result<void>> wait(CancelToken token, TimePoint until = TimePoint::never()) {
    CO_TRY_VOID(token.check());
    if (!rung_) {
      waiter_.emplace(executor_);
      const Completion<bool> waiter = *waiter_;
      const CancelCallback on_cancel(token, [waiter] { waiter.set(false); });
      Executor::TimerId timer = 0;
      if (until != TimePoint::never()) timer = executor_.start_timer(until, [waiter] { waiter.set(false); });
      (void)co_await waiter;
      if (timer != 0) executor_.stop_timer(timer);
      waiter_.reset();
    }
    rung_ = false;
    co_return token.check();
  }

 private:
  Executor& executor_;
  bool rung_ = false;
  std::optional<Completion<bool>> waiter_;
};

}  // namespace moor::agent
