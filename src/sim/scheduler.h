// The one queue of everything that will happen, ordered by time and then by number, and the one source of
// chance. Nothing in the world happens outside an event of it. Also keeps the hash of what has happened.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace moor::sim {

class Scheduler {
 public:
  using Work = std::function<void()>;
  using EventId = std::uint64_t;

  explicit Scheduler(std::uint64_t seed) : random_(seed) {}
  TimePoint now() const { return now_; }
  Random& random() { return random_; }
  std::uint64_t steps() const { return steps_; }

  EventId at(TimePoint when, Work work);
  EventId after(Duration delay, Work work) { return at(now_ + delay, std::move(work)); }
  // Behind everything that is due now.
  void soon(Work work) { ready_.push_back(std::move(work)); }
  void cancel(EventId event);
  // False: nothing will ever happen again.
  bool run_one();
  // When the next event is due.
  TimePoint next_due();

  // Uniform between the two.
  Duration between(Duration low, Duration high) {
    return Duration(random_.between(low.count(), high.count()));
  }

  void mix(std::uint64_t value) {
    hash_ ^= value + 0x9e3779b97f4a7c15ull + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccdull;
    hash_ ^= hash_ >> 33;
  }
  void mix(std::string_view text);
  std::uint64_t hash() const { return hash_; }

 private:
  struct Slot {
    Work work;
    std::uint32_t use = 0;
    bool taken = false;
  };
  struct Due {
    TimePoint when;
    std::uint64_t number;
    EventId event;
    bool operator>(const Due& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  void drop_cancelled();

  SeededRandom random_;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t steps_ = 0;
  std::uint64_t next_number_ = 0;
  std::uint64_t hash_ = 0x6d6f6f72;
  std::deque<Work> ready_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> heap_;
};

}  // namespace moor::sim
