// Keeps one engine and its device as the Engine and the Grant want them: asks core/engine_plan.h what to do
// next, does it, commits the engine's changes of members in the Grant, tells the status. Lives until it has
// nothing to keep. One executor's thread.
//
// Three tasks, so that a server that does not answer never holds up an engine's I/O longer than it must:
// run() acts, commit_members() answers proposals, write_statuses() tells.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/bell.h"
#include "agent/child.h"
#include "agent/core/engine_plan.h"
#include "agent/core/membership.h"
#include "agent/env.h"

namespace moor::agent {

class EngineKeeper {
 public:
  struct Callbacks {
    // Names of this node's replicas of a volume: reads prefer them.
    std::function<std::vector<std::string>(const std::string& space, const std::string& volume)>
        local_replicas;
    // Whether another keeper has something of this volume on this node; it tells when that is gone.
    std::function<bool(const EngineKeeper& asks)> other_lives = [](const EngineKeeper&) { return false; };
    std::function<void(const EngineKeeper& tells)> is_gone = [](const EngineKeeper&) {};
  };
  EngineKeeper(Env& env, TaskGroup& group, std::string key, Callbacks callbacks);

  void set_object(std::shared_ptr<const Json> object);  // null: it is gone
  void set_grant(std::shared_ptr<const Json> grant);    // null: none names this node
  void adopt(FoundProcess found);                       // of the engine, or of one of its devices
  const std::string& space() const { return space_; }
  const std::string& volume() const { return volume_; }
  // A process, or a device, or one of them may come to be.
  bool has_something() const;
  void look_again() { bell_.ring(); }

  Task<Result<void>> run(CancelToken token);
  Task<Result<void>> commit_members(CancelToken token);
  Task<Result<void>> write_statuses(CancelToken token);

 private:
  struct Device {
    std::unique_ptr<Child> child;
    DeviceFacts facts;
    int refusals = 0;
  };
  EnginePlan plan() const;
  void notice();
  void heard(const Control::Event& event);
  Task<Result<void>> perform(EnginePlan plan);
  Task<Result<void>> start(model::longhorn::Engine engine, std::int64_t epoch, bool standby);
  Task<Result<void>> check_grant();
  Task<Result<void>> tell_addresses();
  // engine_move.cc
  Task<Result<void>> use_up();
  Task<Result<void>> set_hold();
  Task<Result<void>> update_standby();
  Task<Result<void>> activate();
  Task<Result<void>> confirm_activation();
  Task<Result<void>> tell_activation(model::mooring::Grant grant);
  Task<Result<void>> take_epoch();
  Task<Result<void>> record_epoch(std::int64_t epoch);
  EngineStart start_words(const model::longhorn::Engine& engine, const model::mooring::Grant& grant,
                          const std::vector<std::string>& local, bool standby) const;
  Json record_for(std::int64_t epoch, bool standby) const;
  Task<Result<void>> drain();
  Task<Result<void>> start_device();
  Task<Result<void>> remove_device(std::string key);
  Task<Result<void>> look_at_device(std::string key);
  Command removal_of(const Device& device) const;
  Task<Result<void>> force_remove_device(std::string key);
  Task<Result<void>> forget_device(std::string key);
  Task<Result<void>> let_go();
  Task<Result<void>> finish();
  Task<Result<bool>> answer(Proposal proposal);  // true: the engine knows
  Task<Result<model::mooring::Grant>> read_grant();
  Device* find_device(const std::string& key);
  std::unique_ptr<Child> make_device_child(const std::string& key);
  void failed(EngineStep step, const Error& error);
  Moment moment() const;

  Env& env_;
  TaskGroup& group_;
  std::string key_;
  Callbacks callbacks_;
  std::string space_;
  std::string name_;
  std::string uid_;
  std::string volume_;
  Bell bell_;
  Bell status_bell_;
  Bell proposal_bell_;
  std::shared_ptr<const Json> json_;
  std::optional<model::longhorn::Engine> object_;
  std::optional<model::mooring::Grant> grant_;
  std::shared_ptr<const Json> grant_json_;  // as last watched
  Child child_;
  EngineFacts facts_;
  std::optional<Proposal> proposal_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::uint64_t next_device_ = 1;
  std::string token_;  // of the volume, once it was read: it never changes while its engine lives
  int failures_ = 0;
  bool had_something_ = false;
};

}  // namespace moor::agent
