// Cancellation: a CancelSource says stop, the CancelTokens given out from it hear it. Sources form a tree (a
// source made from a token is cancelled with it) and may carry a deadline. All of it belongs to one
// executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"

namespace moor {

class CancelToken {
 public:
  CancelToken() = default;  // never cancelled
  bool is_cancelled() const { return state_ != nullptr && state_->cancelled; }
  // Errc::cancelled or Errc::timed_out, once cancelled.
  Error reason() const;
  // An error once cancelled, for TRY_VOID at the top of a loop.
  Result<void> check() const;

 private:
  friend class CancelSource;
  friend class CancelCallback;
  struct State {
    bool cancelled = false;
    Error reason{Errc::cancelled, "cancelled"};
    std::uint64_t next_id = 1;
    std::map<std::uint64_t, std::function<void()>> callbacks;  // ordered: they run as registered
  };
  explicit CancelToken(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Runs a function when the token is cancelled, at once if it already is; forgotten when destroyed.
class CancelCallback {
 public:
  CancelCallback(const CancelToken& token, std::function<void()> callback);
  ~CancelCallback();
  CancelCallback(const CancelCallback&) = delete;
  CancelCallback& operator=(const CancelCallback&) = delete;

 private:
  std::weak_ptr<CancelToken::State> state_;
  std::uint64_t id_ = 0;
};

class CancelSource {
 public:
  CancelSource();
  explicit CancelSource(const CancelToken& parent);
  ~CancelSource();
  CancelSource(const CancelSource&) = delete;
  CancelSource& operator=(const CancelSource&) = delete;

  CancelToken token() const { return CancelToken(state_); }
  void cancel(Error reason = {Errc::cancelled, "cancelled"});
  // Cancels with Errc::timed_out at that time; `what` names what was waited for.
  void set_deadline(Executor& executor, TimePoint when, std::string what);

 private:
  static void cancel_state(CancelToken::State& state, Error reason);
  std::shared_ptr<CancelToken::State> state_;
  std::unique_ptr<CancelCallback> parent_;
  Executor* executor_ = nullptr;
  Executor::TimerId timer_ = 0;
};

// Waits; ends early with the token's reason.
Task<Result<void>> sleep_for(Executor& executor, Duration duration, CancelToken token = {});

}  // namespace moor
