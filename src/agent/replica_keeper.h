// Keeps one replica as its object wants it: asks core/replica_plan.h what to do next, does it, tells the
// status. Lives until it has nothing to keep (is_done()). One executor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/bell.h"
#include "agent/child.h"
#include "agent/core/replica_plan.h"
#include "agent/env.h"

namespace moor::agent {

class ReplicaKeeper {
 public:
  ReplicaKeeper(Env& env, TaskGroup& group, std::string key);

  // null: it is gone. Wakes the keeper.
  void set_object(std::shared_ptr<const Json> object);
  void adopt(FoundProcess found);
  // Something outside has changed that it may have waited for (a disk is back).
  void wake() { bell_.ring(); }
  const std::string& name() const { return name_; }

  // Until done or cancelled; in the group, beside write_statuses().
  Task<Result<void>> run(CancelToken token);
  Task<Result<void>> write_statuses(CancelToken token);

 private:
  ReplicaPlan plan() const;
  void notice();
  Task<Result<void>> perform(ReplicaStep step);
  // With a copy of the object: the one here may change or go while they wait.
  Task<Result<void>> start(model::longhorn::Replica object);
  Task<Result<std::string>> prepare_directory(model::longhorn::Replica object);
  Task<Result<void>> create_directory(model::longhorn::Replica object, std::string path);
  Task<Result<void>> clear(model::longhorn::Replica object);
  Result<std::string> directory(const model::longhorn::Replica& object) const;
  void failed(const Error& error);
  Moment moment() const;
  registry::ResourceName resource() const;

  Env& env_;
  std::string key_;
  std::string name_;
  Bell bell_;
  Bell status_bell_;
  std::shared_ptr<const Json> json_;
  std::optional<model::longhorn::Replica> object_;
  Child child_;
  ReplicaFacts facts_;
  std::int32_t port_wanted_ = 0;  // the one it had: whoever knows the address need not learn another
  std::optional<TimePoint> running_since_;
};

}  // namespace moor::agent
