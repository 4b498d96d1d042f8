// Whose turn it is to write an object. Two plans of one runtime that write the same object cannot both come
// true: the one that comes second is not even tried, but waits until the first is written and is made anew.
// Without this every plan for a busy object (the Ledger of a node, while many volumes are made) fails against
// every other. Who waits is called in the order of coming. One executor's thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"

namespace moor::control {

class WriteTurns {
 public:
  explicit WriteTurns(Executor& executor) : executor_(executor) {}

  // Takes all of these objects, or none: then it answers the first that somebody else is writing.
  const std::string* take(const std::vector<std::string>& keys);
  void give_back(const std::vector<std::string>& keys);
  // Until whoever writes the object has given it back. Who was called must take it or pass() it on.
  Task<Result<void>> wait(std::string key, CancelToken token);
  void pass(const std::string& key);

 private:
  struct Turn {
    bool taken = false;
    std::deque<Completion<bool>> waiting;
  };
  Executor& executor_;
  std::map<std::string, Turn> turns_;
};

}  // namespace moor::control
