#include "agent/agent.h"

#include <fmt/format.h>

#include "agent/core/names.h"
#include "base/log.h"
#include "base/plant.h"
#include "registry/prepare.h"

namespace moor::agent {
namespace {

using model::longhorn::Engine;
using model::longhorn::Replica;
using model::mooring::Grant;
using registry::Informer;

std::unique_ptr<Informer> watch(Env& env, const model::KindInfo& kind, const std::string& fields,
                                std::string space = "") {
  registry::InformerOptions options;
  options.fields = *registry::FieldSelector::parse(fields);
  options.longest_pause = std::chrono::seconds(2);
  registry::ResourceName what{&kind, std::move(space), "", ""};
  return std::make_unique<Informer>(env.executor, env.registry, std::move(what), std::move(options));
}

std::string uid_of(const Informer::Event& event) {
  return registry::metadata_text(event.after != nullptr ? *event.after : *event.before, "uid");
}

}  // namespace

Agent::Agent(Executor& executor, registry::Registry& registry, Host& host, AgentOptions options)
    : options_(std::move(options)), env_{executor, registry, host, options_, {}, {}, {}}, node_(env_, [this] {
        for (const auto& [key, kept] : replica_keepers_) kept->keeper.wake();
      }) {
  const std::string& name = options_.node.name;
  nodes_ = watch(env_, kind_of<model::longhorn::Node>(), "metadata.name=" + name, std::string(kNodeSpace));
  engines_ = watch(env_, kind_of<Engine>(), "spec.nodeID=" + name);
  replicas_ = watch(env_, kind_of<Replica>(), "spec.nodeID=" + name);
  grants_ = watch(env_, kind_of<Grant>(), "spec.active.node=" + name);
  standbys_ = watch(env_, kind_of<Grant>(), "spec.standby.node=" + name);
  nodes_->listen([this](const Informer::Event& event) { node_.set_object(event.after); });
  engines_->listen([this](const Informer::Event& event) { see_engine(event); });
  replicas_->listen([this](const Informer::Event& event) { see_replica(event); });
  grants_->listen([this](const Informer::Event& event) { see_grant(event); });
  standbys_->listen([this](const Informer::Event& event) { see_grant(event); });
}

Agent::~Agent() = default;

std::vector<std::string> Agent::local_replicas(const std::string& space, const std::string& volume) const {
  std::vector<std::string> names;
  replicas_->for_each([&](const Informer::Object& object) {
    const Json* owner = object->find_path({"spec", "volumeName"});
    const bool same = registry::metadata_text(*object, "namespace") == space;
    if (same && owner != nullptr && owner->is_string() && owner->as_string() == volume)
      names.push_back(registry::metadata_text(*object, "name"));
    return true;
  });
  return names;
}

void Agent::each_other_of(const EngineKeeper& one, const std::function<void(EngineKeeper&)>& visit) const {
  for (const auto& [key, kept] : engine_keepers_) {
    EngineKeeper& other = kept->keeper;
    if (&other != &one && other.volume() == one.volume() && other.space() == one.space()) visit(other);
  }
}

EngineKeeper& Agent::engine(const std::string& key) {
  auto& kept = engine_keepers_[key];
  if (kept == nullptr) {
    EngineKeeper::Callbacks callbacks;
    callbacks.local_replicas = [this](const std::string& space, const std::string& volume) {
      return local_replicas(space, volume);
    };
    callbacks.other_lives = [this](const EngineKeeper& asks) {
      bool lives = false;
      each_other_of(asks, [&](const EngineKeeper& other) { lives = lives || other.has_something(); });
      return lives;
    };
    callbacks.is_gone = [this](const EngineKeeper& tells) {
      each_other_of(tells, [](EngineKeeper& other) { other.look_again(); });
    };
    kept = std::make_unique<Kept<EngineKeeper>>(env_, group_->token(), key, std::move(callbacks));
    group_->spawn(keep_engine(key));
  }
  return kept->keeper;
}

ReplicaKeeper& Agent::replica(const std::string& key) {
  auto& kept = replica_keepers_[key];
  if (kept == nullptr) {
    kept = std::make_unique<Kept<ReplicaKeeper>>(env_, group_->token(), key);
    group_->spawn(keep_replica(key));
  }
  return kept->keeper;
}

Task<Result<void>> Agent::keep_engine(std::string key) {
  Kept<EngineKeeper>& kept = *engine_keepers_.at(key);
  kept.group.spawn(kept.keeper.commit_members(kept.group.token()));
  kept.group.spawn(kept.keeper.write_statuses(kept.group.token()));
  (void)co_await kept.keeper.run(kept.group.token());
  kept.group.cancel();
  (void)co_await kept.group.join();
  engine_keepers_.erase(key);
  if (group_->token().is_cancelled()) co_return Result<void>();
  // It left this node, and came back while the last of it was put away.
  engines_->for_each([&](const Informer::Object& object) {
    const bool same = engine_key(registry::metadata_text(*object, "uid")) == key;
    if (same) see_engine({nullptr, object});
    return !same;
  });
  co_return Result<void>();
}

Task<Result<void>> Agent::keep_replica(std::string key) {
  Kept<ReplicaKeeper>& kept = *replica_keepers_.at(key);
  kept.group.spawn(kept.keeper.write_statuses(kept.group.token()));
  (void)co_await kept.keeper.run(kept.group.token());
  kept.group.cancel();
  (void)co_await kept.group.join();
  replica_keepers_.erase(key);
  if (group_->token().is_cancelled()) co_return Result<void>();
  replicas_->for_each([&](const Informer::Object& object) {
    const bool same = replica_key(registry::metadata_text(*object, "uid")) == key;
    if (same) see_replica({nullptr, object});
    return !same;
  });
  co_return Result<void>();
}

void Agent::see_engine(const Informer::Event& event) {
  if (!listening_) return;
  EngineKeeper& keeper = engine(engine_key(uid_of(event)));
  const bool is_new = event.before == nullptr;
  keeper.set_object(event.after);
  if (!is_new || event.after == nullptr) return;
  const std::string space = registry::metadata_text(*event.after, "namespace");
  keeper.set_grant(grant_of(space, keeper.volume()));
}

void Agent::see_replica(const Informer::Event& event) {
  if (!listening_) return;
  replica(replica_key(uid_of(event))).set_object(event.after);
}

void Agent::see_grant(const Informer::Event& event) {
  if (!listening_) return;
  const Json& grant = event.after != nullptr ? *event.after : *event.before;
  const std::string volume = registry::metadata_text(grant, "name");
  const std::string space = registry::metadata_text(grant, "namespace");
  for (const auto& [key, kept] : engine_keepers_)
    if (kept->keeper.volume() == volume && kept->keeper.space() == space)
      kept->keeper.set_grant(grant_of(space, volume));
}

// One that was activated leaves one watch and enters the other, in any order: the newer view counts.
Informer::Object Agent::grant_of(const std::string& space, const std::string& volume) const {
  const Informer::Object active = grants_->find(space, volume);
  const Informer::Object standby = standbys_->find(space, volume);
  if (active == nullptr || standby == nullptr) return active == nullptr ? standby : active;
  return is_newer(*standby, *active) ? standby : active;
}

void Agent::adopt(FoundProcess found) {
  const auto kind = found.record.get_string("kind").value_or("");
  const std::string uid(found.record.get_string("uid").value_or(""));
  if (kind == "replica") {
    replica(found.key).adopt(std::move(found));
  } else if ((kind == "engine" || kind == "device") && !uid.empty()) {
    engine(engine_key(uid)).adopt(std::move(found));
  } else {
    log_warn("a record of no known kind is left alone", {{"process", found.key}});
  }
}

Task<Result<void>> Agent::work(TaskGroup& group, std::function<void()> ready) {
  CO_TRY_VOID(co_await node_.introduce(group.token()));
  log_info("node introduced", {{"node", env_.self.node}, {"incarnation", env_.self.incarnation}});
  // What runs is known before anything is wanted: nothing may be started a second time.
  CO_TRY(std::vector<FoundProcess> found, co_await env_.host.find_all());
  group.spawn(node_.renew_lease(group.token()));
  group.spawn(node_.run(group.token()));
  // The lists come in while no keeper exists, so that each begins with its object and its Grant; without an
  // object a keeper would stop what it finds.
  listening_ = false;
  for (const auto& informer : {nodes_.get(), engines_.get(), replicas_.get(), grants_.get(), standbys_.get()})
    group.spawn(informer->run(group.token()));
  for (const auto& informer : {nodes_.get(), engines_.get(), replicas_.get(), grants_.get(), standbys_.get()})
    if (!MOOR_PLANT("agent-acts-before-list")) CO_TRY_VOID(co_await informer->wait_synced(group.token()));
  for (FoundProcess& one : found) adopt(std::move(one));
  listening_ = true;
  engines_->for_each([this](const Informer::Object& object) {
    see_engine({nullptr, object});
    return true;
  });
  replicas_->for_each([this](const Informer::Object& object) {
    see_replica({nullptr, object});
    return true;
  });
  ready();
  co_return Result<void>();
}

Task<Result<void>> Agent::run(CancelToken token, std::function<void()> ready) {
  TaskGroup group(env_.executor, token);
  group_ = &group;
  group.spawn(work(group, std::move(ready)));
  Result<void> joined = co_await group.join();
  group_ = nullptr;
  co_return joined;
}

}  // namespace moor::agent
