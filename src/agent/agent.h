// The agent of one node: watches the Engines, Replicas and Grants of this node, keeps what they want, tells
// what is. It has no thread and no socket of its own: the registry and the host are given, so that the
// simulator runs the same code.
//
// Processes outlive it: a new agent finds and adopts them, and nothing that serves notices.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/engine_keeper.h"
#include "agent/env.h"
#include "agent/node_keeper.h"
#include "agent/replica_keeper.h"
#include "registry/client/informer.h"

namespace moor::agent {

class Agent {
 public:
  Agent(Executor& executor, registry::Registry& registry, Host& host, AgentOptions options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until cancelled. `ready` is called when the node is introduced and everything found has been looked at.
  Task<Result<void>> run(CancelToken token, std::function<void()> ready);

 private:
  Task<Result<void>> work(TaskGroup& group, std::function<void()> ready);
  void see_engine(const registry::Informer::Event& event);
  void see_replica(const registry::Informer::Event& event);
  void see_grant(const registry::Informer::Event& event);
  // As far as this node is told: while it is active or standby there.
  registry::Informer::Object grant_of(const std::string& space, const std::string& volume) const;
  EngineKeeper& engine(const std::string& key);
  ReplicaKeeper& replica(const std::string& key);
  Task<Result<void>> keep_engine(std::string key);
  Task<Result<void>> keep_replica(std::string key);
  void adopt(FoundProcess found);
  // The other keepers of that volume: of an earlier object, or of the other side of a move.
  void each_other_of(const EngineKeeper& one, const std::function<void(EngineKeeper&)>& visit) const;
  std::vector<std::string> local_replicas(const std::string& space, const std::string& volume) const;

  AgentOptions options_;
  Env env_;
  NodeKeeper node_;
  std::unique_ptr<registry::Informer> nodes_;
  std::unique_ptr<registry::Informer> engines_;
  std::unique_ptr<registry::Informer> replicas_;
  std::unique_ptr<registry::Informer> grants_;    // this node is active
  std::unique_ptr<registry::Informer> standbys_;  // this node is the destination of a move
  TaskGroup* group_ = nullptr;
  bool listening_ = false;  // the first lists are in, and what runs is known
  // A keeper with the tasks that work for it; it goes when the last of them has ended.
  template <class Keeper>
  struct Kept {
    template <class... More>
    Kept(Env& env, CancelToken token, const std::string& key, More... more)
        : group(env.executor, std::move(token)), keeper(env, group, key, std::move(more)...) {}
    TaskGroup group;
    Keeper keeper;
  };
  std::map<std::string, std::unique_ptr<Kept<EngineKeeper>>> engine_keepers_;
  std::map<std::string, std::unique_ptr<Kept<ReplicaKeeper>>> replica_keepers_;
};

}  // namespace moor::agent
