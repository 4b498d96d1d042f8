// Loop: the real executor, one thread of events on Asio. http/ reaches the io_context to hang its sockets
// into the same thread; nobody else needs to know what is inside.
#pragma once

#include <memory>

#include "base/executor.h"

namespace boost::asio {
class io_context;
}

namespace moor {

class Loop final : public Executor {
 public:
  Loop();
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(Work work) override;
  TimerId start_timer(TimePoint when, Work work) override;
  void stop_timer(TimerId timer) override;
  const Clock& clock() const override { return clock_; }
  bool run_one() override;

  // Runs until stop(); the thread that calls it is the executor's thread.
  void run();
  void stop();  // from any thread
  boost::asio::io_context& context();

 private:
  struct Inside;
  RealClock clock_;
  std::unique_ptr<Inside> inside_;
};

}  // namespace moor
