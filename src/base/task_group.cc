#include "base/task_group.h"

namespace moor {

TaskGroup::TaskGroup(Executor& executor, CancelToken parent) : executor_(executor), source_(parent) {}

TaskGroup::~TaskGroup() {
  MOOR_ASSERT(running_ == 0, "{} tasks still run: join the group first", running_);
}

void TaskGroup::spawn(Task<Result<void>> task) {
  ++running_;
  // std::function must be copyable and a Task only moves; the box is opened exactly once.
  auto box = std::make_shared<Task<Result<void>>>(std::move(task));
  executor_.post([this, box] { run(this, std::move(*box)); });
}

detail::Root TaskGroup::run(TaskGroup* group, Task<Result<void>> task) {
  auto result = co_await std::move(task);
  group->finish(std::move(result));
}

void TaskGroup::finish(Result<void> result) {
  const bool by_us = !result && source_.token().is_cancelled() && result.error() == source_.token().reason();
  if (!result && !first_error_ && (!by_us || result.error().code == Errc::timed_out)) {
    first_error_ = result.error();
    source_.cancel(Error{Errc::cancelled, "cancelled: " + result.error().message});
  }
  --running_;
  if (running_ == 0 && joiner_) {
    const auto joiner = std::exchange(joiner_, nullptr);
    executor_.post([joiner] { joiner.resume(); });
  }
}

Task<Result<void>> TaskGroup::join() {
  struct Empty {
    TaskGroup* group;
    bool await_ready() const { return group->running_ == 0; }
    void await_suspend(std::coroutine_handle<> joiner) const {
      MOOR_ASSERT(!group->joiner_, "a group is joined once");
      group->joiner_ = joiner;
    }
    void await_resume() const {}
  };
  // A task may be spawned between the last one's end and our turn: look again.
  while (running_ > 0) co_await Empty{this};
  if (first_error_) co_return *first_error_;
  co_return Result<void>();
}

}  // namespace moor
