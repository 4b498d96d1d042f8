// How much is begun at once. What is begun is finished before more is begun: only so many keys are at work on
// something new at a time, the others wait in the order of coming, in whichever queue they are. Of a thousand
// volumes that are asked for at once the first are then there while the last still wait, instead of all at
// the end. Nobody is held back for long by work that gets stuck: it counts for a moment only. One executor's
// thread.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <unordered_map>

#include "base/executor.h"
#include "control/runtime/view.h"

namespace moor::control {

class Gate {
 public:
  struct Limits {
    std::size_t begun_at_once = std::numeric_limits<std::size_t>::max();
    Duration begun_counts_for = std::chrono::seconds(1);
  };
  Gate(Executor& executor, Limits limits);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  bool is_begun(const Key& key) const { return begun_.contains(key); }
  // Begun, now or before; false: there is no room for it.
  bool begin(const Key& key);
  // Calls `let_in` once, when there is room, perhaps at once; false: it is no longer wanted and takes none.
  using LetIn = std::function<bool()>;
  void wait(const Key& key, LetIn let_in);
  void finish(const Key& key);

 private:
  struct Waiting {
    Key key;
    LetIn let_in;
  };
  void let_in_waiting();
  void forget_old();
  void note(const Key& key);

  Executor& executor_;
  Limits limits_;
  std::unordered_map<Key, TimePoint, KeyHash> begun_;  // since when
  std::deque<std::pair<TimePoint, Key>> oldest_;       // some of them finished since
  std::deque<Waiting> waiting_;
  Executor::TimerId timer_ = 0;
};

}  // namespace moor::control
