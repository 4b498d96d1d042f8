#include "base/clock.h"

namespace moor {

TimePoint RealClock::now() const {
  return {std::chrono::steady_clock::now().time_since_epoch()};
}

WallTime RealClock::wall() const {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch())};
}

}  // namespace moor
