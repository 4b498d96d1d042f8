#include "agent/core/engine_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/core/membership.h"
#include "agent/core/names.h"
#include "base/plant.h"
#include "registry/node_scope.h"

namespace moor::agent {

using model::longhorn::Engine;
using model::longhorn::InstanceState;
using model::mooring::Grant;
using model::mooring::MemberMode;
using State = ProcessFacts::State;

namespace {

bool is_wanted(const Engine* object, const Self& self) {
  return object != nullptr && !object->metadata.is_being_deleted() && object->spec.node_id == self.node &&
         object->spec.desire_state == InstanceState::running;
}

bool wants_device(const Engine& object) {
  return !object.spec.disable_frontend && object.spec.frontend == model::longhorn::Frontend::blockdev;
}

std::string export_of(const DeviceFacts& device) {
  return device.report && !device.report->export_id.empty() ? device.report->export_id : device.export_id;
}

// The device that shows what the engine serves now. One of another export id is of no use any more: what its
// clients had not flushed may be gone.
const DeviceFacts* current_device(const EngineFacts& facts) {
  if (!facts.report) return nullptr;
  for (auto device = facts.devices.rbegin(); device != facts.devices.rend(); ++device) {
    const std::string state = device->report ? device->report->state : "";
    const bool over = device->asked || state == "ended" || state == "removing";
    if (device->process.is_running() && !over && export_of(*device) == facts.report->export_id)
      return &*device;
  }
  return nullptr;
}

struct Choice {
  EngineStep step = EngineStep::nothing;
  std::string device;
  TimePoint again = TimePoint::never();
};

Choice step_or_wait(EngineStep step, const DeviceFacts& device, TimePoint now) {
  if (now < device.retry_at) return {EngineStep::nothing, "", device.retry_at};
  return {step, device.key, TimePoint::never()};
}

Choice step_or_wait(EngineStep step, const EngineFacts& facts, TimePoint now, std::string device = "") {
  if (now < facts.retry_at) return {EngineStep::nothing, "", facts.retry_at};
  return {step, std::move(device), TimePoint::never()};
}

// Devices that shall go, one after the other. `engine_lives`: a device that nobody uses can still write what
// it holds back; without an engine it never will, and nobody must wait for it.
Choice remove_devices(const EngineFacts& facts, const DeviceFacts* keep, bool engine_lives, TimePoint now) {
  Choice wait;
  for (const DeviceFacts& device : facts.devices) {
    if (&device == keep) continue;
    Choice choice;
    const bool over = device.report && device.report->state == "ended";
    if (!device.process.is_running())
      choice = step_or_wait(EngineStep::forget_device, facts, now, device.key);
    else if (!engine_lives)
      choice = step_or_wait(EngineStep::force_remove_device, device, now);
    else if (over && !device.looked)
      choice = step_or_wait(EngineStep::look_at_device, device, now);
    else if (over)
      choice = step_or_wait(
          device.users.empty() ? EngineStep::force_remove_device : EngineStep::look_at_device, device, now);
    else
      // One that agreed to go still waits for whoever has it open.
      choice =
          step_or_wait(device.asked ? EngineStep::look_at_device : EngineStep::remove_device, device, now);
    if (choice.step != EngineStep::nothing) return choice;
    wait.again = std::min(wait.again, choice.again);
  }
  return wait;
}

// Only those whose process is dead: the others wait for the next engine.
Choice forget_dead_devices(const EngineFacts& facts, TimePoint now) {
  for (const DeviceFacts& device : facts.devices)
    if (!device.process.is_running()) return step_or_wait(EngineStep::forget_device, facts, now, device.key);
  return {};
}

// What the Grant and the move ask of a running engine; nothing: it is as they want it.
std::optional<Choice> follow_move(const Engine& object, Granted granted, const Self& self,
                                  const EngineFacts& facts, TimePoint now) {
  if (granted.ahead) return Choice{};
  const bool wanted = is_wanted(&object, self);
  const std::int64_t hold = wanted && !facts.standby ? object.spec.hold_epoch : 0;
  const bool holds = facts.report && facts.report->holding;
  // Held requests would keep the device in use for ever: off before anything else on the way down. Also one
  // that was told to be superseded, which an agent that has just adopted it does before it hears of the hold.
  if (facts.report && !facts.standby &&
      ((hold != facts.holding && !facts.told_superseded) || (hold == 0 && holds)))
    return step_or_wait(EngineStep::set_hold, facts, now);
  const std::int64_t runs_as = facts.report ? facts.report->epoch : facts.epoch;
  if (facts.standby && granted.epoch > 0) {
    if (!granted.standby) return step_or_wait(EngineStep::confirm_activation, facts, now);
    const std::string& source = object.spec.standby_source;
    const bool moved = facts.report && !source.empty() && facts.report->source != member_address(source);
    if (granted.epoch != facts.epoch || runs_as != granted.epoch || moved)
      return step_or_wait(EngineStep::update_standby, facts, now);
    if (wanted && object.spec.ready_epoch == facts.epoch &&
        (facts.activation_wanted || object.spec.activate_requested))
      return step_or_wait(EngineStep::activate, facts, now);
    if (facts.report && !facts.report->ready) {
      const TimePoint ask_at = std::max(facts.ask_at, facts.retry_at);
      if (now >= ask_at) return Choice{EngineStep::ask, "", TimePoint::never()};
      return Choice{EngineStep::nothing, "", std::min(ask_at, now + kAskPause)};
    }
    return std::nullopt;
  }
  const bool mine = granted.epoch > 0 && !granted.standby;
  if (!facts.standby && mine && facts.holding > 0 &&
      (granted.epoch > facts.epoch || (facts.report && runs_as < granted.epoch)))
    return step_or_wait(EngineStep::take_epoch, facts, now);
  if (granted.epoch == facts.epoch && granted.standby == facts.standby) return std::nullopt;
  if (hold > 0 || facts.told_superseded) return std::nullopt;
  return step_or_wait(EngineStep::check_grant, facts, now);
}

// Its object is gone. What it holds back for a move that nobody records any more would keep its device in use
// for ever.
std::optional<Choice> end_move(const EngineFacts& facts, TimePoint now) {
  if (!facts.standby && facts.report && facts.report->holding)
    return step_or_wait(EngineStep::set_hold, facts, now);
  if (facts.standby && !facts.told_superseded) return step_or_wait(EngineStep::check_grant, facts, now);
  return std::nullopt;
}

bool is_usable(const EngineFacts& facts) {
  return facts.report && (facts.report->is_serving() || (facts.report->is_standby() && facts.report->ready));
}

Choice choose_while_running(const Engine* object, Granted granted, const Self& self, const EngineFacts& facts,
                            TimePoint now) {
  const auto move =
      object != nullptr ? follow_move(*object, granted, self, facts, now) : end_move(facts, now);
  if (move) return *move;
  // Also one that shall stop: its device goes only after a last flush.
  if (object != nullptr && facts.report && !moved_members(*object, *facts.report).empty())
    return step_or_wait(EngineStep::tell_addresses, facts, now);
  if (!is_wanted(object, self)) {
    const Choice choice = remove_devices(facts, nullptr, true, now);
    if (choice.step != EngineStep::nothing || !facts.devices.empty()) return choice;
    if (facts.drain_asked || MOOR_PLANT("agent-drain-forgotten")) return {};
    // One that ends by itself has closed its control socket and is not reaped yet: asking again at once, for
    // ever, would keep us from hearing of its end.
    return step_or_wait(EngineStep::drain, facts, now);
  }
  if (!is_usable(facts)) return forget_dead_devices(facts, now);
  const DeviceFacts* current = wants_device(*object) ? current_device(facts) : nullptr;
  // The new device comes before the old one goes: what opens the path now must not find the dead one.
  if (wants_device(*object) && current == nullptr) {
    const Choice dead = forget_dead_devices(facts, now);
    if (dead.step != EngineStep::nothing) return dead;
    if (now >= facts.device_retry_at) return {EngineStep::start_device, "", TimePoint::never()};
    return {EngineStep::nothing, "", facts.device_retry_at};
  }
  return remove_devices(facts, current, true, now);
}

Choice choose_while_stopped(const Engine* object, Granted granted, const Self& self, const EngineFacts& facts,
                            TimePoint now) {
  if (!is_wanted(object, self)) {
    const Choice choice = remove_devices(facts, nullptr, false, now);
    if (choice.step != EngineStep::nothing || !facts.devices.empty()) return choice;
    if (object == nullptr) return {EngineStep::forget, "", TimePoint::never()};
    // Granted, and called back before we heard of it: from now on it cannot be started any more.
    if (object->spec.epoch > facts.epoch && object->spec.node_id == self.node)
      return step_or_wait(EngineStep::use_up, facts, now);
    const bool held =
        object->metadata.is_being_deleted() && object->metadata.has_finalizer(registry::kNodeFinalizer);
    return held ? step_or_wait(EngineStep::let_go, facts, now) : Choice{};
  }
  const Choice dead = forget_dead_devices(facts, now);
  if (dead.step != EngineStep::nothing || granted.epoch <= facts.epoch) return dead;
  if (granted.standby && object->spec.standby_source.empty()) return {};  // its source is not up yet
  if (facts.other_lives) return {};                                       // S11: two would share one device
  return step_or_wait(EngineStep::start, facts, now);
}

InstanceState state_of(const Engine& object, Granted granted, const Self& self, const EngineFacts& facts) {
  const bool wanted = is_wanted(&object, self);
  if (facts.process.is_running()) {
    if (!wanted)
      return MOOR_PLANT("agent-stopped-while-running") ? InstanceState::stopped : InstanceState::stopping;
    if (!is_usable(facts)) return InstanceState::starting;
    if (!wants_device(object)) return InstanceState::running;
    const DeviceFacts* device = current_device(facts);
    return device != nullptr && device->is_up() ? InstanceState::running : InstanceState::starting;
  }
  // Neither there nor known to be gone: `stopped` would be taken as the release of an epoch that is just
  // coming up (S12).
  if (facts.process.state == State::starting)
    return wanted ? InstanceState::starting : InstanceState::stopping;
  if (!wanted) {
    const bool unused = object.spec.epoch > facts.epoch && object.spec.node_id == self.node;
    const bool released = facts.devices.empty() || MOOR_PLANT("agent-stopped-with-device");
    return released && !unused ? InstanceState::stopped : InstanceState::stopping;
  }
  if (granted.epoch > facts.epoch) return InstanceState::starting;
  // However well it ended: `stopped` would say that nothing of it is left here (S12).
  if (!facts.devices.empty()) return InstanceState::error;
  if (facts.process.state == State::ended && !facts.process.clean) return InstanceState::error;
  return InstanceState::stopped;
}

model::longhorn::ReplicaMode mode_of(MemberMode mode) {
  using model::longhorn::ReplicaMode;
  return mode == MemberMode::rw   ? ReplicaMode::rw
         : mode == MemberMode::wo ? ReplicaMode::wo
                                  : ReplicaMode::err;
}

void tell_members(const EngineReport& report, model::longhorn::EngineStatus& status, model::Time wall) {
  const auto before = status.replica_mode_map;
  status.replica_mode_map.clear();
  status.current_replica_address_map.clear();
  for (const MemberReport& member : report.members) {
    status.replica_mode_map[member.name] = mode_of(member.mode);
    status.current_replica_address_map[member.name] =
        member.address.starts_with("tcp:") ? member.address.substr(4) : member.address;
    const auto was = before.find(member.name);
    if (was == before.end() || was->second != mode_of(member.mode))
      status.replica_transition_time_map[member.name] = model::format_rfc3339(wall);
  }
  std::erase_if(status.replica_transition_time_map,
                [&](const auto& one) { return !status.replica_mode_map.contains(one.first); });
}

void tell_snapshots(const EngineReport& report, model::longhorn::EngineStatus& status, model::Time wall) {
  std::map<std::string, std::string> name_of_layer;
  for (const LayerReport& layer : report.chain) name_of_layer[layer.id] = layer.name;
  std::map<std::string, model::longhorn::SnapshotInfo> snapshots;
  std::string newest;
  for (const LayerReport& layer : report.chain) {
    model::longhorn::SnapshotInfo info;
    info.name = layer.name;
    const auto parent = name_of_layer.find(layer.parent);
    if (parent != name_of_layer.end()) info.parent = parent->second;
    info.removed = layer.removed;
    info.user_created = layer.user_created;
    info.created = layer.created;
    info.size = std::to_string(layer.used_bytes);
    info.labels = layer.labels;
    if (!info.parent.empty()) snapshots[info.parent].children[info.name] = true;
    const auto children = snapshots[layer.name].children;
    info.children = children;
    snapshots[layer.name] = info;
    newest = layer.name;
  }
  model::longhorn::SnapshotInfo head;
  head.name = "volume-head";
  head.parent = newest;
  if (!newest.empty()) snapshots[newest].children[head.name] = true;
  snapshots[head.name] = head;
  const auto same = [](const auto& left, const auto& right) {
    return model::encode(left.second) == model::encode(right.second) && left.first == right.first;
  };
  const bool changed =
      !std::equal(snapshots.begin(), snapshots.end(), status.snapshots.begin(), status.snapshots.end(), same);
  if (changed || !status.snapshots_reported_at) status.snapshots_reported_at = wall;
  status.snapshots = std::move(snapshots);
}

void tell_condition(std::vector<model::Condition>& conditions, std::string_view type, bool holds,
                    std::string reason, std::string message, model::Time wall) {
  // What never was true need not be denied.
  if (!holds && find_condition(conditions, type) == nullptr) return;
  set_condition(conditions,
                {std::string(type), holds ? model::ConditionStatus::yes : model::ConditionStatus::no, "", "",
                 std::move(reason), std::move(message)},
                wall);
}

void tell_conditions(const EngineFacts& facts, model::longhorn::EngineStatus& status, model::Time wall) {
  std::string why = facts.problem;
  if (status.current_state == InstanceState::error) why = facts.process.cause;
  if (why.empty() && status.current_state == InstanceState::starting) why = facts.device_problem;
  const bool failed = !why.empty() && status.current_state != InstanceState::running;
  tell_condition(status.conditions, kFailedCondition, failed, failed ? "CannotServe" : "Fine",
                 failed ? why : "", wall);
  std::string users;
  for (const DeviceFacts& device : facts.devices) {
    if (device.users.empty()) continue;
    if (!users.empty()) users += "; ";
    users +=
        fmt::format("{} is in use: {}", device.report ? device.report->device : device.link, device.users);
  }
  tell_condition(status.conditions, kDeviceInUse, !users.empty(), users.empty() ? "NotInUse" : "InUse", users,
                 wall);
}

model::longhorn::EngineStatus status_of(const Engine& object, Granted granted, const Self& self,
                                        const EngineFacts& facts, Moment moment) {
  model::longhorn::EngineStatus status = object.status;
  // What another process said is not the word of this one (S43).
  if (status.epoch != facts.epoch) status.snapshots_reported_at.reset();
  status.owner_id = self.node;
  status.instance_manager_name = self.node;
  status.epoch = facts.epoch;
  status.current_state = state_of(object, granted, self, facts);
  status.started = facts.process.is_running();
  status.endpoint.clear();
  status.nbd_uri.clear();
  status.ip = facts.process.is_running() ? self.address : "";
  status.port = facts.process.is_running() && facts.report ? facts.report->peer_port : 0;
  status.standby = facts.process.is_running() && facts.standby;
  status.holding = facts.process.is_running() ? facts.holding : 0;
  if (status.standby) status.replica_mode_map.clear();
  if (facts.process.is_running() && facts.report) {
    if (is_usable(facts)) {
      status.current_size = facts.report->size;
      status.export_id = facts.report->export_id;
      status.nbd_uri = fmt::format("nbd+unix:///{}?socket={}", object.spec.volume_name, facts.socket);
      if (!facts.standby) tell_members(*facts.report, status, moment.wall);
      tell_snapshots(*facts.report, status, moment.wall);
    }
    const DeviceFacts* device = wants_device(object) ? current_device(facts) : nullptr;
    if (device != nullptr && device->is_up()) status.endpoint = device->link;
  }
  if (!facts.process.is_running()) status.snapshots_reported_at.reset();
  tell_conditions(facts, status, moment.wall);
  return status;
}

}  // namespace

std::map<std::string, std::string> moved_members(const Engine& object, const EngineReport& report) {
  std::map<std::string, std::string> moved;
  if (report.state != "starting") return moved;
  for (const MemberReport& member : report.members) {
    const auto wanted = object.spec.replica_address_map.find(member.name);
    if (wanted == object.spec.replica_address_map.end() || wanted->second.empty()) continue;
    const std::string address = member_address(wanted->second);
    if (address != member.address) moved[member.name] = address;
  }
  return moved;
}

Granted granted_to(const Engine* object, const Grant* grant, const Self& self) {
  if (object == nullptr || grant == nullptr) return {};
  const auto mine = [&](const std::optional<model::mooring::GrantHolder>& holder) {
    return holder && is_holder(holder, self, object->metadata.name, holder->epoch);
  };
  for (const auto* holder : {&grant->spec.active, &grant->spec.standby}) {
    if (!mine(*holder)) continue;
    const bool ahead = object->spec.epoch > 0 && (*holder)->epoch > object->spec.epoch;
    if (ahead) return {0, false, true};
    return {(*holder)->epoch, holder == &grant->spec.standby};
  }
  return {};
}

EnginePlan plan_engine(const Engine* object, const Grant* grant, const Self& self, const EngineFacts& facts,
                       Moment moment) {
  const Granted granted = granted_to(object, grant, self);
  const Choice choice = facts.process.is_running()
                            ? choose_while_running(object, granted, self, facts, moment.now)
                            : choose_while_stopped(object, granted, self, facts, moment.now);
  EnginePlan plan{choice.step, choice.device, granted.epoch, granted.standby, {}, choice.again};
  // A new agent knows nothing better than what the one before it said.
  if (object != nullptr)
    plan.status = facts.unheard ? object->status : status_of(*object, granted, self, facts, moment);
  return plan;
}

std::vector<std::string> engine_arguments(const EngineStart& start) {
  const model::mooring::GrantSpec& grant = start.grant.spec;
  std::vector<std::string> words{"engine",
                                 "--volume",
                                 grant.volume,
                                 "--epoch",
                                 std::to_string(start.standby ? grant.standby->epoch : grant.active->epoch),
                                 "--engine-id",
                                 start.engine.metadata.name,
                                 "--listen",
                                 "unix:" + start.socket,
                                 "--control",
                                 start.control,
                                 "--token-file",
                                 start.token_file,
                                 "--generation",
                                 std::to_string(grant.generation)};
  if (!grant.export_id.empty()) words.insert(words.end(), {"--export-id", grant.export_id});
  if (grant.unproven) words.emplace_back("--unproven");
  const model::longhorn::EngineSpec& spec = start.engine.spec;
  if (spec.peer_listen && !start.peer_host.empty())
    words.insert(words.end(), {"--peer-listen", fmt::format("tcp:{}:0", start.peer_host)});
  if (start.standby)
    words.insert(words.end(), {"--standby", "--source", member_address(spec.standby_source)});
  // A hold that came after the start could come after the fence.
  if (!start.standby && spec.hold_epoch > 0) words.emplace_back("--hold");
  if (!start.standby && spec.last_served > 0)
    words.insert(words.end(), {"--last-served", std::to_string(spec.last_served)});
  for (const auto& [name, mode] : grant.members) {
    const auto address = start.engine.spec.replica_address_map.find(name);
    const bool known = address != start.engine.spec.replica_address_map.end() && !address->second.empty();
    // A member that nobody can reach must still be named, or its mode would be lost from the Grant; port 1
    // refuses at once.
    std::string word = known ? member_address(address->second) : "tcp:127.0.0.1:1";
    word += ",name=" + name;
    word += mode == MemberMode::rw ? ",mode=rw" : mode == MemberMode::wo ? ",mode=wo" : ",mode=err";
    if (std::find(start.local.begin(), start.local.end(), name) != start.local.end()) word += ",local";
    if (!known) word += ",absent";
    words.insert(words.end(), {"--replica", word});
  }
  return words;
}

Json grant_words(const EngineStart& start, std::int64_t epoch) {
  const model::mooring::GrantSpec& grant = start.grant.spec;
  Json members = Json::array();
  for (const auto& [name, mode] : grant.members) {
    Json member = Json::object({{"name", name}, {"mode", to_string(mode)}});
    const auto address = start.engine.spec.replica_address_map.find(name);
    const bool known = address != start.engine.spec.replica_address_map.end() && !address->second.empty();
    if (known) member.set("address", member_address(address->second));
    if (!known) member.set("absent", true);
    if (std::find(start.local.begin(), start.local.end(), name) != start.local.end())
      member.set("local", true);
    members.push_back(std::move(member));
  }
  Json words = Json::object({{"epoch", epoch}, {"generation", grant.generation}});
  words.set("members", std::move(members));
  words.set("export_id", grant.export_id);
  return words;
}

}  // namespace moor::agent
