#include "control/runtime/write_turns.h"

namespace moor::control {

const std::string* WriteTurns::take(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto found = turns_.find(key);
    if (found != turns_.end() && found->second.taken) return &key;
  }
  for (const std::string& key : keys) turns_[key].taken = true;
  return nullptr;
}

void WriteTurns::give_back(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    turns_[key].taken = false;
    pass(key);
  }
}

Task<Result<void>> WriteTurns::wait(std::string key, CancelToken token) {
  CO_TRY_VOID(token.check());
  const Completion<bool> called(executor_);
  turns_[key].waiting.push_back(called);
  const CancelCallback on_cancel(token, [called] { called.set(false); });
  if (co_await called) co_return Result<void>();
  co_return token.reason();
}

void WriteTurns::pass(const std::string& key) {
  const auto found = turns_.find(key);
  if (found == turns_.end() || found->second.taken) return;
  // One that was cancelled takes no call: the next one gets it.
  std::deque<Completion<bool>>& waiting = found->second.waiting;
  while (!waiting.empty()) {
    const Completion<bool> next = waiting.front();
    waiting.pop_front();
    if (next.set(true)) return;
  }
  turns_.erase(found);
}

}  // namespace moor::control
