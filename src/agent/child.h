// One supervised process: started here or found running, followed over its control socket until it ends. Its
// owner is told by `changed` and looks; nothing is decided here. One executor's thread; tasks run in the
// owner's group, and the child outlives them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/core/facts.h"
#include "agent/host.h"
#include "base/task_group.h"

namespace moor::agent {

class Child {
 public:
  struct Listener {
    std::function<void()> changed;                          // state or status is new
    std::function<void(const Control::Event&)> heard = {};  // before `changed`
  };
  Child(Executor& executor, Host& host, TaskGroup& group, std::string key, Listener listener)
      : executor_(executor),
        host_(host),
        group_(group),
        key_(std::move(key)),
        listener_(std::move(listener)) {}
  ~Child() { *alive_ = false; }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Task<Result<void>> start(std::vector<std::string> arguments, Json record);
  // One that ran before we came.
  void adopt(std::unique_ptr<Process> process);

  // Counts as one that has ended: it could not be started, and will not be.
  void never_started(std::string why) {
    facts_ = {ProcessFacts::State::ended, false, std::move(why)};
    status_ = Json();
  }

  const std::string& key() const { return key_; }
  const ProcessFacts& facts() const { return facts_; }
  // The last answer to `status`; null before the first.
  const Json& status() const { return status_; }
  // Found running, and silent since: for a while nobody knows better than whoever knew it before.
  bool is_unheard() const {
    return facts_.is_running() && found_at_ && !status_.is_object() &&
           executor_.clock().now() < *found_at_ + kPatience;
  }
  void signal(int number) {
    if (process_) process_->signal(number);
  }
  // unavailable: not connected.
  Task<Result<Json>> call(std::string op, Json arguments);
  // Asks for the status again.
  Task<Result<void>> refresh();
  // It was told to end, so its end is no failure.
  void expect_end() { expected_ = true; }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(10);
  void begin(std::unique_ptr<Process> process);
  Task<Result<void>> await_end(std::shared_ptr<bool> alive);
  Task<Result<void>> look_later(std::shared_ptr<bool> alive);
  Task<Result<void>> follow(std::shared_ptr<bool> alive);
  Task<Result<void>> listen(std::shared_ptr<bool> alive, std::shared_ptr<Control> control, CancelToken token);
  Task<Result<void>> first_status(std::shared_ptr<bool> alive, std::shared_ptr<Control> control,
                                  CancelToken token);

  Executor& executor_;
  Host& host_;
  TaskGroup& group_;
  std::string key_;
  Listener listener_;
  ProcessFacts facts_;
  Json status_;
  std::string last_word_;  // of the event `stopping`
  bool clean_word_ = false;
  bool expected_ = false;
  std::uint64_t heard_ = 0;  // events
  std::optional<TimePoint> found_at_;
  // Shared with calls under way, which may outlive the connection.
  std::shared_ptr<Process> process_;
  std::shared_ptr<Control> control_;
  std::unique_ptr<CancelSource> life_;  // cancelled when the process has ended
  // Tasks that wake after their child has gone must not touch it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace moor::agent
