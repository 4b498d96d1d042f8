// Time comes in through here, never by asking the system: a simulator hands in its own.
#pragma once

#include <chrono>
#include <cstdint>

namespace moor {

using Duration = std::chrono::nanoseconds;

// A point on the monotonic clock of one process: for time-outs and ages, never stored.
struct TimePoint {
  Duration since_start{0};
  auto operator<=>(const TimePoint&) const = default;
  TimePoint operator+(Duration duration) const { return {since_start + duration}; }
  TimePoint operator-(Duration duration) const { return {since_start - duration}; }
  Duration operator-(TimePoint other) const { return since_start - other.since_start; }
  static constexpr TimePoint never() { return {Duration::max()}; }
};

// Time as people write it; can step in either direction. For timestamps in objects, never for time-outs.
struct WallTime {
  std::chrono::microseconds since_epoch{0};
  auto operator<=>(const WallTime&) const = default;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

class RealClock final : public Clock {
 public:
  TimePoint now() const override;
  WallTime wall() const override;
};

// A clock that stands still until told otherwise.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall() const override { return wall_; }
  void advance(Duration duration);
  void step_wall(std::chrono::microseconds by) { wall_.since_epoch += by; }

 private:
  TimePoint now_{std::chrono::seconds(1)};
  WallTime wall_{std::chrono::seconds(1'700'000'000)};
};

}  // namespace moor
