// Where work runs. One executor is one thread of events: everything that it owns needs no lock. The real one
// is Loop (loop.h); tests use ManualExecutor, the simulator its own.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"

namespace moor {

class Executor {
 public:
  using Work = std::function<void()>;
  using TimerId = std::uint64_t;

  virtual ~Executor() = default;
  // From any thread. Runs later on the executor, in the order of posting; never inside this call.
  virtual void post(Work work) = 0;
  // The rest only from the executor's own thread.
  virtual TimerId start_timer(TimePoint when, Work work) = 0;
  virtual void stop_timer(TimerId timer) = 0;  // no effect when it already ran
  virtual const Clock& clock() const = 0;
  // Runs the next piece of work, waiting for one if this executor can wait. False: there is none and none
  // will come.
  virtual bool run_one() = 0;
};

// Runs only when told to and on a clock that stands still: the same calls give the same order, every time.
class ManualExecutor final : public Executor {
 public:
  void post(Work work) override { ready_.push_back(std::move(work)); }
  TimerId start_timer(TimePoint when, Work work) override;
  void stop_timer(TimerId timer) override;
  const Clock& clock() const override { return clock_; }
  bool run_one() override;

  // Runs until nothing is ready; timers in the future stay.
  void run_ready();
  // Moves the clock from timer to timer up to now + duration, running what becomes due.
  void advance(Duration duration);
  // For run_one(): when nothing is ready, jump to the next timer instead of giving up (default on).
  void set_auto_advance(bool on) { auto_advance_ = on; }
  ManualClock& manual_clock() { return clock_; }

 private:
  bool fire_next_timer(TimePoint until);

  ManualClock clock_;
  std::deque<Work> ready_;
  std::map<std::pair<TimePoint, TimerId>, Work> timers_;
  TimerId next_timer_ = 1;
  bool auto_advance_ = true;
};

}  // namespace moor
