// Keys to look at: each waits at most once and is worked on by one worker at a time. A key that is added
// while it is worked on comes again afterwards. Work that failed comes back after a pause that doubles; work
// that asked to be looked at later comes back then. One executor's thread; the queue outlives its workers.
#pragma once

#include <deque>
#include <map>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "control/runtime/view.h"

namespace moor::control {

class KeyedQueue {
 public:
  explicit KeyedQueue(Executor& executor) : executor_(executor) {}
  ~KeyedQueue();
  KeyedQueue(const KeyedQueue&) = delete;
  KeyedQueue& operator=(const KeyedQueue&) = delete;

  void add(const Key& key);
  // At the latest after that time.
  void add_later(const Key& key, Duration after);
  // Waits for a key. The worker ends its work with exactly one of done() and failed().
  Task<Result<Key>> next(CancelToken token);
  void done(const Key& key, std::optional<Duration> again_after);
  void failed(const Key& key, Duration shortest_pause);
  std::size_t waiting() const { return order_.size(); }

 private:
  struct Item {
    bool waiting = false;
    bool running = false;
    bool again = false;  // added while running
    Duration pause{0};
    Executor::TimerId timer = 0;
    TimePoint due{};  // of the timer
  };
  void start_timer(const Key& key, Item& item, Duration after);
  void stop_timer(Item& item);
  void finish(const Key& key);

  Executor& executor_;
  std::map<Key, Item> items_;
  std::deque<Key> order_;
  std::deque<Completion<bool>> idle_;
};

}  // namespace moor::control
