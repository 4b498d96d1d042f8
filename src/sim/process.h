// A simulated process with tasks: an Executor on the world's queue with a clock of its own. It can be paused,
// and it can die: then nothing of it reaches the world any more, and unwind() lets its tasks end on a private
// clock where nobody sees it. Who owns it cuts off its interfaces before that.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/executor.h"
#include "sim/scheduler.h"

namespace moor::sim {

class SimProcess final : public Executor {
 public:
  // `wall_offset` belongs to the machine and outlives the process.
  SimProcess(Scheduler& scheduler, std::string name, const std::chrono::microseconds& wall_offset)
      : scheduler_(scheduler), name_(std::move(name)), clock_(*this, wall_offset) {}
  ~SimProcess() override;

  void post(Work work) override;
  TimerId start_timer(TimePoint when, Work work) override;
  void stop_timer(TimerId timer) override;
  const Clock& clock() const override { return clock_; }
  bool run_one() override;  // only while it unwinds

  const std::string& name() const { return name_; }
  void pause();
  void resume();
  bool is_paused() const { return paused_; }
  void die();
  // What it had asked of a device: nothing answers any more, and its tasks must be able to end.
  void on_death(Work work) { deaths_.push_back(std::move(work)); }
  bool is_dead() const { return dead_; }
  // After die(): runs what is left until `done`.
  void unwind(const std::function<bool()>& done);

 private:
  class OwnClock final : public Clock {
   public:
    OwnClock(const SimProcess& process, const std::chrono::microseconds& offset)
        : process_(process), offset_(offset) {}
    TimePoint now() const override;
    WallTime wall() const override;

   private:
    const SimProcess& process_;
    const std::chrono::microseconds& offset_;
  };
  struct Timer {
    TimePoint when;
    Work work;
    Scheduler::EventId event = 0;
  };
  void schedule_turn();
  void turn();
  void fire(TimerId timer);

  Scheduler& scheduler_;
  std::string name_;
  OwnClock clock_;
  std::deque<Work> ready_;
  std::vector<Work> deaths_;
  std::map<TimerId, Timer> timers_;
  TimerId next_timer_ = 1;
  bool paused_ = false;
  bool dead_ = false;
  bool turn_scheduled_ = false;
  TimePoint private_now_;
  // An event of ours may be due after we are gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace moor::sim
