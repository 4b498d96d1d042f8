// What an agent does next for one replica, and what it says about it. Pure: the object, what is known of its
// process and directory, and the time go in; one step and a status come out. Asked again after every step.
#pragma once

#include "agent/core/facts.h"
#include "model/longhorn/replica.h"
#include "model/time.h"

namespace moor::agent {

struct ReplicaFacts {
  ProcessFacts process;
  bool stop_asked = false;
  bool unheard = false;   // found running, and it has not said anything yet
  std::int32_t port = 0;  // 0: not serving yet
  std::int64_t epoch = 0;
  std::int64_t generation = 0;
  std::int64_t used_bytes = 0;
  std::string problem;  // why it cannot be started: the disk, the directory, the token
  int failures = 0;     // in a row
  TimePoint retry_at;
  bool directory_gone = false;  // removed because the object is being deleted
};

enum class ReplicaStep {
  nothing,
  start,   // the directory, if it may be made, and the process
  stop,    // flush and end
  clear,   // the object is being deleted: the directory goes
  let_go,  // the finalizer goes
  forget,  // nothing is left of it here
};

struct ReplicaPlan {
  ReplicaStep step = ReplicaStep::nothing;
  model::longhorn::ReplicaStatus status;
  TimePoint again = TimePoint::never();  // look again then, if nothing happens before
};

struct Moment {
  TimePoint now;
  model::Time wall;
};

inline constexpr std::string_view kFailedCondition = "Failed";

// `object` null: there is none (any more).
ReplicaPlan plan_replica(const model::longhorn::Replica* object, const Self& self, const ReplicaFacts& facts,
                         Moment moment);
// How long to wait after that many failures in a row: 100 ms doubling to 30 s.
Duration replica_pause(int failures);

}  // namespace moor::agent
