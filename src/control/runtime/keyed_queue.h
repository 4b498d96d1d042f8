// Keys to look at: each waits at most once and is worked on by one worker at a time. A key that is added
// while it is worked on comes again afterwards. Work that failed comes back after a pause that doubles; work
// that asked to be looked at later comes back then. One executor's thread; the queue outlives its workers.
//
// What may ask for something new waits at the queue's gate, if it has one.
#pragma once

#include <deque>
#include <memory>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "control/runtime/gate.h"
#include "control/runtime/view.h"

namespace moor::control {

class KeyedQueue {
 public:
  // The gate outlives the queue; null: nothing is held back.
  explicit KeyedQueue(Executor& executor, Gate* gate = nullptr);
  ~KeyedQueue();
  KeyedQueue(const KeyedQueue&) = delete;
  KeyedQueue& operator=(const KeyedQueue&) = delete;

  void add(const Key& key);
  // For something new: held back while enough is begun. A later add() lets the key in all the same.
  void add_new(const Key& key);
  // At the latest after that time.
  void add_later(const Key& key, Duration after);
  // Waits for a key. The worker ends its work with exactly one of done(), failed() and put_back().
  Task<Result<Key>> next(CancelToken token);
  // This key out of turn, if it neither waits nor is worked on, and may begin something.
  bool try_take(const Key& key);
  // It was not looked at after all.
  void put_back(const Key& key) { finish(key); }
  // `unfinished`: what was begun for the key goes on elsewhere.
  void done(const Key& key, std::optional<Duration> again_after, bool unfinished = false);
  void failed(const Key& key, Duration shortest_pause);
  std::size_t waiting() const { return order_.size() + held_count_; }

 private:
  struct Item {
    bool waiting = false;
    bool held = false;  // waits at the gate
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
  bool let_in_held(const Key& key);

  Executor& executor_;
  Gate* gate_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what waits at the gate
  FlatMap<Key, Item, KeyHash> items_;
  std::deque<Key> order_;
  std::size_t held_count_ = 0;
  std::deque<Completion<bool>> idle_;
};

}  // namespace moor::control
