#include "base/clock.h"

namespace moor {

void ManualClock::advance(Duration duration) {
  now_ = now_ + duration;
  wall_.since_epoch += std::chrono::duration_cast<std::chrono::microseconds>(duration);
}

}  // namespace moor
