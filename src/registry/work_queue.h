// Keys to look at, each at most once at a time: so the queue is never longer than there are keys. Several
// workers may take from it. A key whose work failed comes back after a pause that doubles. One executor's
// thread; the queue outlives its workers.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"

namespace moor::registry {

class WorkQueue {
 public:
  explicit WorkQueue(Executor& executor) : executor_(executor) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::string key);
  // Later, because it failed now.
  void retry(std::string key);
  // It went well: the next failure starts with a short pause again.
  void forget(const std::string& key);
  // Waits for a key.
  Task<Result<std::string>> next(CancelToken token);
  std::size_t size() const { return keys_.size(); }

 private:
  struct Pause {
    Duration length{0};
    Executor::TimerId timer = 0;
  };
  Executor& executor_;
  std::deque<std::string> order_;
  std::set<std::string> keys_;
  std::map<std::string, Pause> pauses_;
  std::deque<Completion<bool>> waiting_;
};

}  // namespace moor::registry
