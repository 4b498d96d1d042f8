#include "control/testing/stage.h"

#include <fmt/format.h>

#include "attach/grant.h"
#include "model/coordination/lease.h"
#include "model/core/node.h"
#include "model/longhorn/setting.h"
#include "registry/namespaces.h"
#include "registry/prepare.h"

namespace moor::control {
namespace {

using model::coordination::Lease;
constexpr Duration kBeat = std::chrono::seconds(2);
constexpr int kMostRounds = 10'000;

registry::WriteOptions as(const registry::Identity& who) {
  registry::WriteOptions options;
  options.identity = who;
  options.field_manager = who.node.empty() ? "test" : "agent";
  return options;
}

}  // namespace

bool Witness::handles(const model::KindInfo& kind) const {
  return &kind == &kind_of<lh::Volume>() || &kind == &kind_of<mr::Grant>();
}

registry::Answer<void> Witness::validate(const registry::AdmissionRequest& request, const Json& object) {
  if (request.before == nullptr) return {};
  if (request.kind == &kind_of<mr::Grant>()) {
    const auto before = model::decode<mr::Grant>(*request.before);
    const auto after = model::decode<mr::Grant>(object);
    EXPECT_GE(after->spec.epoch, before->spec.epoch) << "S2";
    if (before->spec.active && after->spec.active != before->spec.active) {
      // The other side of a move takes over by its epoch; else whoever goes is proven to have gone.
      const bool moved = after->spec.active && after->spec.active->engine != before->spec.active->engine &&
                         after->spec.active->epoch > before->spec.active->epoch;
      const bool undone = after->spec.active && before->spec.standby && !after->spec.standby &&
                          after->spec.active->engine == before->spec.active->engine &&
                          after->spec.active->node == before->spec.active->node;
      EXPECT_TRUE(moved || undone || attach::has_proof(after->spec, *before->spec.active)) << "S12";
    }
    return {};
  }
  const auto before = model::decode<lh::Volume>(*request.before);
  const auto after = model::decode<lh::Volume>(object);
  const std::string& from = before->spec.node_id;
  const std::string& to = after->spec.node_id;
  const bool confirmed = before->spec.migration_node_id == to && before->status.move &&
                         (before->status.move->phase == lh::MovePhase::ready ||
                          before->status.move->phase == lh::MovePhase::activated);
  EXPECT_TRUE(from == to || from.empty() || to.empty() || confirmed) << "S9: " << from << " to " << to;
  if (before->status.current_node_id != after->status.current_node_id) {
    using State = lh::VolumeState;
    const State state = after->status.state;
    if (after->status.current_node_id.empty()) {
      EXPECT_TRUE(state == State::detached || state == State::deleting || state == State::attaching) << "S10";
    } else {
      EXPECT_EQ(state, State::attached) << "S10";
    }
  }
  return {};
}

Stage::Stage(StageOptions options)
    : store_(store::make_memory_store(executor)),
      admission_(executor.clock(), random),
      registry_(std::make_unique<registry::LocalRegistry>(executor, *store_, random)),
      collector_(std::make_unique<registry::GarbageCollector>(*registry_)),
      group_(executor) {
  executor.set_auto_advance(false);
  registry_->add_admission(admission_);
  registry_->add_admission(witness_);
  group_.spawn(registry_->run(group_.token()));
  group_.spawn(collector_->run(group_.token()));
  EXPECT_TRUE(wait(registry::ensure_namespaces(*registry_)).ok());
  for (std::size_t i = 1; i <= options.nodes; ++i) {
    const std::string name = fmt::format("node-{}", i);
    agents_[name] = std::make_unique<ImaginedAgent>(*this, name);
    agents_[name]->join(options.disk_bytes);
  }
  start_controllers();
  settle();
}

Stage::~Stage() {
  stop_controllers();
  group_.cancel();
  EXPECT_TRUE(wait(group_.join()).ok());
}

void Stage::start_controllers() {
  RuntimeOptions checked;
  checked.check_settled = true;
  runtime = std::make_unique<Runtime>(*registry_, make_controllers(), nullptr, checked);
  LeaderOptions options;
  options.identity = fmt::format("server-{}", ++generation_);
  options.alone = true;
  election_ = std::make_unique<LeaderElection>(*registry_, *runtime, options);
  controllers_ = std::make_unique<TaskGroup>(executor);
  controllers_->spawn(election_->run(controllers_->token()));
}

void Stage::stop_controllers() {
  if (controllers_ == nullptr) return;
  controllers_->cancel();
  EXPECT_TRUE(wait(controllers_->join()).ok());
  controllers_.reset();
  election_.reset();
  runtime.reset();
}

void Stage::restart_controllers() {
  stop_controllers();
  start_controllers();
}

void Stage::settle() {
  for (int round = 0; round < kMostRounds; ++round) {
    executor.run_ready();
    bool acted = false;
    for (auto& [name, agent] : agents_) acted |= agent->up && agent->step();
    // A plan that lost against an agent's write comes again after a short pause.
    if (!acted) executor.advance(std::chrono::milliseconds(40));
    for (auto& [name, agent] : agents_) acted |= agent->up && agent->step();
    if (!acted && (runtime == nullptr || runtime->is_idle())) return;
  }
  ADD_FAILURE() << "it never settles";
}

bool Stage::nudge(std::size_t pieces) {
  for (std::size_t i = 0; i < pieces; ++i) {
    if (executor.run_one()) continue;
    bool acted = false;
    for (auto& [name, agent] : agents_) acted |= agent->up && agent->step();
    if (!acted) return false;
  }
  return true;
}

void Stage::pass(Duration duration) {
  const TimePoint end = executor.clock().now() + duration;
  while (executor.clock().now() < end) {
    executor.advance(std::min<Duration>(kBeat, end - executor.clock().now()));
    for (auto& [name, agent] : agents_)
      if (agent->up) agent->heartbeat();
    settle();
  }
}

registry::Answer<registry::Written> Stage::write(const model::KindInfo& kind, const Json& object,
                                                 std::string_view subresource,
                                                 const registry::Identity& who) {
  const std::string space = kind.namespaced ? registry::metadata_text(object, "namespace") : "";
  const std::string name = registry::metadata_text(object, "name");
  registry::ResourceName what{&kind, space, name, std::string(subresource)};
  const bool there = registry_->find(kind, space, name) != nullptr;
  if (!there) what.name.clear();
  auto done =
      there ? wait(registry_->update(what, object, as(who))) : wait(registry_->create(what, object, as(who)));
  return done;
}

void Stage::create_volume(const std::string& name, const std::string& spec) {
  const auto object = parse_json(fmt::format(
      R"({{"metadata":{{"name":"{}","namespace":"longhorn-system"}},"spec":{{{}}}}})", name, spec));
  ASSERT_TRUE(object.ok());
  const auto made = write(kind_of<lh::Volume>(), *object, "", {"admin", {}, ""});
  ASSERT_TRUE(made.ok()) << made.error().error.message;
  if (!hold) settle();
}

void Stage::add_ticket(const std::string& volume, const std::string& id, const std::string& type,
                       const std::string& node, const std::string& more) {
  const auto patch = parse_json(
      fmt::format(R"({{"spec":{{"attachmentTickets":{{"{}":{{"id":"{}","type":"{}","nodeID":"{}"{}}}}}}}}})",
                  id, id, type, node, more));
  ASSERT_TRUE(patch.ok());
  const auto done = wait(registry_->patch({&kind_of<lh::VolumeAttachment>(), "longhorn-system", volume, ""},
                                          registry::PatchType::merge, *patch, as({"admin", {}, ""})));
  ASSERT_TRUE(done.ok()) << done.error().error.message;
  if (!hold) settle();
}

void Stage::remove_ticket(const std::string& volume, const std::string& id) {
  const auto patch = parse_json(fmt::format(R"({{"spec":{{"attachmentTickets":{{"{}":null}}}}}})", id));
  const auto done = wait(registry_->patch({&kind_of<lh::VolumeAttachment>(), "longhorn-system", volume, ""},
                                          registry::PatchType::merge, *patch, as({"admin", {}, ""})));
  ASSERT_TRUE(done.ok()) << done.error().error.message;
  if (!hold) settle();
}

void Stage::set_setting(const std::string& name, const std::string& value) {
  const auto object = parse_json(fmt::format(
      R"({{"metadata":{{"name":"{}","namespace":"longhorn-system"}},"value":"{}"}})", name, value));
  const auto done = write(kind_of<lh::Setting>(), *object, "", {"admin", {}, ""});
  ASSERT_TRUE(done.ok()) << done.error().error.message;
  if (!hold) settle();
}

std::string Stage::try_remove(const model::KindInfo& kind, const std::string& name,
                              const registry::Identity& who) {
  registry::DeleteOptions options;
  options.identity = who;
  const std::string space = kind.namespaced ? "longhorn-system" : "";
  const auto done = wait(registry_->remove({&kind, space, name, ""}, options));
  return done ? "" : done.error().error.message;
}

void Stage::remove(const model::KindInfo& kind, const std::string& name) {
  ASSERT_EQ(try_remove(kind, name, {"admin", {}, ""}), "");
  if (!hold) settle();
}

std::string Stage::state_of(const std::string& volume) {
  const auto found = get<lh::Volume>(volume);
  if (!found) return "gone";
  const lh::VolumeStatus& status = found->status;
  return fmt::format("{} {} {}", to_string(status.state),
                     status.current_node_id.empty() ? "-" : status.current_node_id,
                     to_string(status.robustness));
}

std::string Stage::move_of(const std::string& volume) {
  const auto found = get<lh::Volume>(volume);
  if (!found || !found->status.move) return "-";
  const lh::MoveStatus& move = *found->status.move;
  return fmt::format("{} {} {}", to_string(move.phase), move.source_node_id, move.destination_node_id);
}

bool Stage::is_satisfied(const std::string& volume, const std::string& ticket) {
  const auto book = get<lh::VolumeAttachment>(volume);
  if (!book) return false;
  const auto found = book->status.attachment_ticket_statuses.find(ticket);
  return found != book->status.attachment_ticket_statuses.end() && found->second.satisfied;
}

std::string Stage::blockers_of(const std::string& volume, const std::string& ticket) {
  const auto book = get<lh::VolumeAttachment>(volume);
  if (!book) return "no book";
  const auto found = book->status.attachment_ticket_statuses.find(ticket);
  if (found == book->status.attachment_ticket_statuses.end()) return "no status";
  std::string text;
  for (const lh::Blocker& blocker : found->second.blockers)
    text += (text.empty() ? "" : ",") + std::string(to_string(blocker.type));
  return text;
}

std::uint64_t Stage::revision() {
  return wait(store_->status())->revision;
}

// ---- the imagined agent

void ImaginedAgent::join(std::int64_t disk_bytes) {
  model::core::Node machine;
  machine.metadata.name = node_;
  stage_.write(kind_of<model::core::Node>(), model::encode(machine)).value();
  lh::Node node;
  node.metadata.name = node_;
  node.metadata.space = std::string(lh::kDefaultNamespace);
  node.spec.name = node_;
  node.spec.allow_scheduling = true;
  node.spec.disks["default"] = {lh::DiskType::filesystem, "/disks/" + node_, "", true, false, 0, {}};
  stage_.write(kind_of<lh::Node>(), model::encode(node)).value();
  const auto made = stage_.get<lh::Node>(node_);
  lh::Node next = *made;
  next.status.incarnation = incarnation;
  lh::DiskStatus& disk = next.status.disk_status["default"];
  disk.disk_uuid = "disk-of-" + node_;
  disk.storage_maximum = disk.storage_available = disk_bytes;
  disk.conditions = {{"Ready", model::ConditionStatus::yes, "", "", "", ""}};
  EXPECT_TRUE(stage_.update(made, next, "status", {node_, {}, node_}));
  heartbeat();
}

void ImaginedAgent::heartbeat() {
  const auto known = stage_.get<Lease>(node_, "mooring-node-lease");
  Lease lease = known ? *known : Lease{};
  lease.metadata.name = node_;
  lease.metadata.space = "mooring-node-lease";
  lease.spec.holder_identity = node_;
  lease.spec.renew_time = model::MicroTime{model::Time(stage_.executor.clock().wall().since_epoch)};
  if (known) {
    stage_.update(known, lease);
  } else {
    stage_.write(kind_of<Lease>(), model::encode(lease)).value();
  }
}

bool ImaginedAgent::step() {
  bool acted = false;
  for (const auto& replica : stage_.all<lh::Replica>())
    if (replica->spec.node_id == node_) acted |= step_replica(replica);
  for (const auto& engine : stage_.all<lh::Engine>())
    if (engine->spec.node_id == node_) acted |= step_engine(engine);
  return acted;
}

template <class T>
bool ImaginedAgent::let_go(const Object<T>& object) {
  T freed = *object;
  std::erase(freed.metadata.finalizers, std::string(lh::kFinalizer));
  return stage_.update(object, freed);
}

bool ImaginedAgent::step_replica(const Object<lh::Replica>& replica) {
  auto& processes = stage_.reality.replicas;
  const std::string& name = replica->metadata.name;
  const bool wanted =
      replica->spec.desire_state == lh::InstanceState::running && !replica->metadata.is_being_deleted();
  if (wanted && !processes.contains(name)) processes[name] = {node_, 0, stage_.reality.next_port++};
  if (!wanted) processes.erase(name);
  if (!wanted && replica->metadata.is_being_deleted()) return let_go(replica);
  lh::Replica next = *replica;
  next.status.current_state = wanted ? lh::InstanceState::running : lh::InstanceState::stopped;
  next.status.ip = wanted ? "10.0.0.1" : "";
  next.status.port = wanted ? processes[name].port : 0;
  next.status.owner_id = node_;
  return stage_.update(replica, next, "status", {node_, {}, node_});
}

bool ImaginedAgent::tell(const Object<lh::Engine>& engine, lh::InstanceState state, std::int64_t epoch,
                         const std::string& why) {
  lh::Engine next = *engine;
  next.status.current_state = state;
  next.status.epoch = epoch;
  next.status.endpoint = state == lh::InstanceState::running ? "/dev/mooring/x" : "";
  const auto process = stage_.reality.engines.find(here(engine->metadata.name));
  const bool runs = process != stage_.reality.engines.end();
  next.status.standby = runs && process->second.standby;
  next.status.holding = runs && !next.status.standby ? engine->spec.hold_epoch : 0;
  next.status.ip = runs ? node_ : "";
  next.status.port = runs ? process->second.port : 0;
  next.status.conditions.clear();
  if (!why.empty())
    next.status.conditions.push_back({"Failed", model::ConditionStatus::yes, "", "", "CannotServe", why});
  next.status.replica_mode_map.clear();
  const auto grant = stage_.get<mr::Grant>(engine->spec.volume_name);
  if (grant && state == lh::InstanceState::running && !next.status.standby)
    for (const auto& [name, mode] : grant->spec.members)
      next.status.replica_mode_map[name] = mode == mr::MemberMode::rw   ? lh::ReplicaMode::rw
                                           : mode == mr::MemberMode::wo ? lh::ReplicaMode::wo
                                                                        : lh::ReplicaMode::err;
  return stage_.update(engine, next, "status", {node_, {}, node_});
}

bool ImaginedAgent::start_engine(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant) {
  const std::string& name = engine->metadata.name;
  const bool standby = !grant->spec.active || grant->spec.active->engine != name;
  const std::int64_t epoch = standby ? grant->spec.standby->epoch : grant->spec.active->epoch;
  epochs_[name] = epoch;  // recorded before the start: at most once
  failures_.erase(name);
  ++stage_.reality.starts[fmt::format("{}/{}", name, epoch)];
  if (broken_engines) {
    failures_[name] = "the program cannot be executed";
    return true;
  }
  const std::int32_t port = engine->spec.peer_listen ? stage_.reality.next_port++ : 0;
  stage_.reality.engines[here(name)] = {node_, epoch, port, standby, false};
  if (!standby) watch_members(engine, grant);
  return true;
}

// Members that do not answer are ERR in the Grant before the engine serves; with none left it ends.
bool ImaginedAgent::watch_members(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant) {
  mr::Grant next = *grant;
  std::size_t left = 0;
  bool lost = false;
  for (auto& [name, mode] : next.spec.members) {
    if (mode != mr::MemberMode::rw) continue;
    const auto process = stage_.reality.replicas.find(name);
    const auto address = engine->spec.replica_address_map.find(name);
    const bool answers = process != stage_.reality.replicas.end() &&
                         address != engine->spec.replica_address_map.end() &&
                         address->second.ends_with(fmt::format(":{}", process->second.port));
    if (answers) {
      ++left;
    } else {
      mode = mr::MemberMode::err;
      lost = true;
    }
  }
  if (!lost) return false;
  if (left == 0) {
    failures_[engine->metadata.name] = "the last replica is lost";
    stage_.reality.engines.erase(here(engine->metadata.name));
    return true;
  }
  ++next.spec.generation;
  return stage_.update(grant, next, "", {node_, {}, node_});
}

// What the Grant says of a running engine by now; the ways of 0300.
bool ImaginedAgent::follow_grant(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant) {
  const std::string& name = engine->metadata.name;
  const auto mine = [&](const std::optional<mr::GrantHolder>& holder) {
    return holder && holder->engine == name && holder->node == node_ && holder->incarnation == incarnation;
  };
  Reality::Process& process = stage_.reality.engines.at(here(name));
  if (process.standby && mine(grant->spec.standby)) {
    const std::int64_t epoch = grant->spec.standby->epoch;
    if (epoch != process.epoch) {  // its source was started again
      ++stage_.reality.starts[fmt::format("{}/{}", name, epoch)];
      epochs_[name] = process.epoch = epoch;
      return true;
    }
    if (engine->spec.ready_epoch != epoch || !(process.wants || engine->spec.activate_requested))
      return false;
    mr::Grant next = *grant;
    next.spec.active = next.spec.standby;
    next.spec.standby.reset();
    return stage_.update(grant, next, "", {node_, {}, node_});
  }
  if (mine(grant->spec.active)) {
    const std::int64_t epoch = grant->spec.active->epoch;
    if (!process.standby && process.epoch == epoch) return watch_members(engine, grant);
    // It becomes active, or takes the volume back: the start rule either way.
    if (process.epoch != epoch) ++stage_.reality.starts[fmt::format("{}/{}", name, epoch)];
    process.standby = process.wants = false;
    epochs_[name] = process.epoch = epoch;
    watch_members(engine, grant);
    return true;
  }
  if (!process.standby && engine->spec.hold_epoch > 0) return false;
  // Superseded, or a standby that never will be active.
  failures_[name] = "superseded";
  stage_.reality.engines.erase(here(name));
  return true;
}

bool ImaginedAgent::step_engine(const Object<lh::Engine>& engine) {
  const std::string& name = engine->metadata.name;
  auto& processes = stage_.reality.engines;
  const bool wanted =
      engine->spec.desire_state == lh::InstanceState::running && !engine->metadata.is_being_deleted();
  const auto grant = stage_.get<mr::Grant>(engine->spec.volume_name);
  std::int64_t granted = 0;
  if (grant)
    for (const auto& holder : {grant->spec.standby, grant->spec.active})
      if (holder && holder->engine == name && holder->node == node_ && holder->incarnation == incarnation)
        granted = holder->epoch;
  if (!wanted) {
    processes.erase(here(name));
    epochs_[name] = std::max(epochs_[name], engine->spec.epoch);  // used up without a start
    if (engine->metadata.is_being_deleted()) return let_go(engine);
    return tell(engine, lh::InstanceState::stopped, epochs_[name]);
  }
  if (!processes.contains(here(name)) && granted > epochs_[name]) return start_engine(engine, grant);
  if (!processes.contains(here(name)))
    return tell(engine, lh::InstanceState::error, epochs_[name],
                failures_.contains(name) ? failures_[name] : "killed by signal 9");
  if (grant && follow_grant(engine, grant)) return true;
  return tell(engine, lh::InstanceState::running, epochs_[name]);
}

}  // namespace moor::control
