// SIGTERM and SIGINT, handed to the loop. Make it before any other thread, so that all of them inherit the
// mask; the second signal ends the process at once, for when stopping hangs.
#pragma once

#include <functional>
#include <thread>

#include "base/executor.h"

namespace moor::cmd {

class StopSignals {
 public:
  StopSignals(Executor& executor, std::function<void(int)> on_stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::thread thread_;
};

}  // namespace moor::cmd
