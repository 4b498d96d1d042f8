// Waiting for each other among the tasks of one Runner: all first come, first served, so that none starves
// and a run is repeatable. Holds are objects in the waiting task's frame; leaving the scope lets go.
//
//   AsyncMutex::Hold hold(mutex_);      co_await hold;
//   Gate::Hold inside(gate_, Gate::shared);  co_await inside;
//   RangeLock::Hold blocks(ranges_, first, last);  co_await blocks;
#pragma once

#include <cstdint>
#include <vector>

#include "block/core/task.h"

namespace moor::block {

// Everyone who waits goes on after the next notify_all. Waiters re-check what they wait for.
class Signal {
 public:
  explicit Signal(Runner& runner) : runner_(runner) {}

  auto wait() {
    struct Awaiter {
      Signal& signal;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> handle) { signal.waiters_.push_back(handle); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

  void notify_all() {
    for (auto handle : waiters_) runner_.post(handle);
    waiters_.clear();
  }

 private:
  Runner& runner_;
  std::vector<std::coroutine_handle<>> waiters_;
};

namespace detail {

// A queue of holds, oldest first. `blocks(earlier, later)` of the Rule says who must wait for whom.
template <class Rule>
class HoldQueue {
 public:
  explicit HoldQueue(Runner& runner) : runner_(runner) {}
  HoldQueue(const HoldQueue&) = delete;
  HoldQueue& operator=(const HoldQueue&) = delete;

  class Hold : public Rule {
   public:
    template <class... Args>
    explicit Hold(HoldQueue& queue, Args... args) : Rule{args...}, queue_(queue) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { release(); }

    bool await_ready() {
      queue_.append(*this);
      granted_ = queue_.may_go(*this);
      return granted_;
    }
    void await_suspend(std::coroutine_handle<> handle) { waiter_ = handle; }
    void await_resume() const noexcept {}

    void release() {
      if (!linked_) return;
      queue_.remove(*this);
    }

   private:
    friend class HoldQueue;
    HoldQueue& queue_;
    Hold* next_ = nullptr;
    Hold* previous_ = nullptr;
    std::coroutine_handle<> waiter_;
    bool linked_ = false;
    bool granted_ = false;
  };

  bool empty() const { return first_ == nullptr; }

  template <class Predicate>
  bool any(Predicate predicate) const {
    for (const Hold* hold = first_; hold != nullptr; hold = hold->next_) {
      if (predicate(static_cast<const Rule&>(*hold))) return true;
    }
    return false;
  }

 private:
  void append(Hold& hold) {
    MOOR_ASSERT(!hold.linked_, "a hold is taken twice");
    hold.linked_ = true;
    hold.previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = &hold;
    last_ = &hold;
  }

  bool may_go(const Hold& hold) const {
    for (const Hold* earlier = first_; earlier != &hold; earlier = earlier->next_) {
      if (Rule::blocks(*earlier, hold)) return false;
    }
    return true;
  }

  void remove(Hold& hold) {
    Hold* after = hold.next_;
    (hold.previous_ != nullptr ? hold.previous_->next_ : first_) = hold.next_;
    (hold.next_ != nullptr ? hold.next_->previous_ : last_) = hold.previous_;
    hold.linked_ = false;
    for (; after != nullptr; after = after->next_) {
      if (after->granted_ || !Rule::blocks(hold, *after) || !may_go(*after)) continue;
      after->granted_ = true;
      runner_.post(after->waiter_);
    }
  }

  Runner& runner_;
  Hold* first_ = nullptr;
  Hold* last_ = nullptr;
};

struct MutexRule {
  static bool blocks(const MutexRule&, const MutexRule&) { return true; }
};

enum class GateMode : std::uint8_t { shared, exclusive };

struct GateRule {
  GateMode mode;
  static bool blocks(const GateRule& earlier, const GateRule& later) {
    return earlier.mode == GateMode::exclusive || later.mode == GateMode::exclusive;
  }
};

struct RangeRule {
  std::uint64_t first;
  std::uint64_t last;  // inclusive
  static bool blocks(const RangeRule& earlier, const RangeRule& later) {
    return earlier.first <= later.last && later.first <= earlier.last;
  }
};

}  // namespace detail

using AsyncMutex = detail::HoldQueue<detail::MutexRule>;
using GateMode = detail::GateMode;
// Many in shared mode, or one in exclusive mode; who waits for exclusive holds up those who come later.
using Gate = detail::HoldQueue<detail::GateRule>;
// Overlapping ranges go one after the other, in the order in which they came.
using RangeLock = detail::HoldQueue<detail::RangeRule>;

}  // namespace moor::block
