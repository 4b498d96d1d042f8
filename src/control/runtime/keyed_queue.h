// Keys to look at: each waits at most once and is worked on by one worker at a time. A key that is added
// while it is worked on comes again afterwards. Work that failed comes back after a pause that doubles; work
// that asked to be looked at later comes back then. One executor's thread; the queue outlives its workers.
//
// What is begun is finished before more is begun: only so many keys are at work on something new at a time,
// the others are held back in the order of coming. Of a thousand volumes that are asked for at once the first
// are then there while the last still wait, instead of all at the end. Nobody is held back for long by work
// that gets stuck: it counts for a moment only.
#pragma once

#include <deque>
#include <limits>
#include <map>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "control/runtime/view.h"

namespace moor::control {

class KeyedQueue {
 public:
  struct Limits {
    std::size_t begun_at_once = std::numeric_limits<std::size_t>::max();
    Duration begun_counts_for = std::chrono::seconds(1);
  };
  explicit KeyedQueue(Executor& executor) : KeyedQueue(executor, Limits()) {}
  KeyedQueue(Executor& executor, Limits limits);
  ~KeyedQueue();
  KeyedQueue(const KeyedQueue&) = delete;
  KeyedQueue& operator=(const KeyedQueue&) = delete;

  void add(const Key& key);
  // For something new: held back while enough is begun. A later add() lets the key in all the same.
  void add_new(const Key& key);
  // At the latest after that time.
  void add_later(const Key& key, Duration after);
  // Waits for a key. The worker ends its work with exactly one of done() and failed().
  Task<Result<Key>> next(CancelToken token);
  // `unfinished`: what was begun for the key goes on elsewhere.
  void done(const Key& key, std::optional<Duration> again_after, bool unfinished = false);
  void failed(const Key& key, Duration shortest_pause);
  std::size_t waiting() const { return order_.size() + held_count_; }

 private:
  struct Item {
    bool waiting = false;
    bool held = false;  // not let in yet
    bool running = false;
    bool again = false;  // added while running
    Duration pause{0};
    Executor::TimerId timer = 0;
    TimePoint due{};  // of the timer
  };
  void start_timer(const Key& key, Item& item, Duration after);
  void stop_timer(Item& item);
  void finish(const Key& key);
  void let_in(const Key& key, Item& item);
  void let_in_held();
  void forget_old_begun();

  Executor& executor_;
  Limits limits_;
  std::map<Key, Item> items_;
  std::deque<Key> order_;
  std::deque<Key> held_;  // some of them let in since
  std::size_t held_count_ = 0;
  std::map<Key, TimePoint> begun_;                      // since when
  std::deque<std::pair<TimePoint, Key>> begun_oldest_;  // some of them finished since
  Executor::TimerId begun_timer_ = 0;
  std::deque<Completion<bool>> idle_;
};

}  // namespace moor::control
