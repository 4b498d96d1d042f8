// Structured concurrency: work is started in a group, and the group is joined before it is destroyed, so no
// task outlives what it uses. The first task that fails cancels the others; join() reports that first error.
//
//   TaskGroup group(executor, token);
//   group.spawn(serve(listener, group.token()));
//   group.spawn(heartbeat(store, group.token()));
//   auto result = co_await group.join();
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/cancel.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"

namespace moor {

class TaskGroup {
 public:
  explicit TaskGroup(Executor& executor, CancelToken parent = {});
  ~TaskGroup();  // asserts that nothing runs any more
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts the task on the executor (not inside this call). Allowed while join() waits.
  void spawn(Task<Result<void>> task);
  CancelToken token() const { return source_.token(); }
  void cancel(Error reason = {Errc::cancelled, "cancelled"}) { source_.cancel(std::move(reason)); }
  // All tasks are cancelled with Errc::timed_out at that time.
  void set_deadline(TimePoint when, std::string what) {
    source_.set_deadline(executor_, when, std::move(what));
  }
  std::size_t running() const { return running_; }
  // Waits until no task runs. Once; tasks that end by the group's own cancellation are no error.
  Task<Result<void>> join();

 private:
  static detail::Root run(TaskGroup* group, Task<Result<void>> task);
  void finish(Result<void> result);

  Executor& executor_;
  CancelSource source_;
  std::size_t running_ = 0;
  std::optional<Error> first_error_;
  std::coroutine_handle<> joiner_;
};

}  // namespace moor
