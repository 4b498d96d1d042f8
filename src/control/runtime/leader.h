// Leader election: of several servers on one store, one runs the controllers. The Lease `mooring-controllers`
// says who leads and is renewed; beside it lies a record of the term that changes only when a new leader
// takes over, in the same transaction. Whoever leads conditions all its writes on that record: a leader that
// was cut off and replaced cannot write, whatever it believes (S39).
//
// Whether a lease has run out is judged by how long this process has seen it unchanged, never by comparing
// clocks of two machines.
#pragma once

#include <string>

#include "base/cancel.h"
#include "base/task.h"
#include "registry/local_registry.h"

namespace moor::control {

// What the leader does. Runs until cancelled; ends early only with an error.
class Duty {
 public:
  virtual ~Duty() = default;
  virtual Task<Result<void>> lead(registry::Guard term, CancelToken token) = 0;
};

struct LeaderOptions {
  std::string identity;  // of this process: no two that run at once share one
  std::string space = "longhorn-system";
  std::string name = "mooring-controllers";
  Duration lease = std::chrono::seconds(15);
  Duration renew = std::chrono::seconds(5);
  Duration retry = std::chrono::seconds(2);
  // The store belongs to this process alone (embedded, memory): a lease of an earlier process means nothing.
  bool alone = false;
};

class LeaderElection {
 public:
  LeaderElection(registry::LocalRegistry& registry, Duty& duty, LeaderOptions options);
  // Until cancelled.
  Task<Result<void>> run(CancelToken token);
  bool is_leader() const { return leading_; }

 private:
  // The term's guard, once this process leads; absent: somebody else does.
  Task<registry::Answer<std::optional<registry::Guard>>> acquire();
  Task<Result<void>> renew(CancelToken token);
  Task<Result<void>> release();
  bool may_take(const Json* lease);
  registry::ResourceName lease_name(bool term) const;
  Json lease_object(const Json* before, std::int64_t transitions) const;

  registry::LocalRegistry& registry_;
  Duty& duty_;
  LeaderOptions options_;
  bool leading_ = false;
  std::string seen_version_;  // of somebody else's lease
  TimePoint seen_at_{};
};

}  // namespace moor::control
