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

// The epoch that this engine may run with here; 0: none.
std::int64_t granted_epoch(const Engine* object, const Grant* grant, const Self& self) {
  if (object == nullptr || grant == nullptr || !grant->spec.active) return 0;
  const std::int64_t epoch = grant->spec.active->epoch;
  return is_holder(grant->spec.active, self, object->metadata.name, epoch) ? epoch : 0;
}

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

// Devices that shall go, one after the other. `engine_lives`: a device that nobody uses can still write what
// it holds back; without an engine it never will, and nobody must wait for it.
Choice remove_devices(const EngineFacts& facts, const DeviceFacts* keep, bool engine_lives, TimePoint now) {
  Choice wait;
  for (const DeviceFacts& device : facts.devices) {
    if (&device == keep) continue;
    Choice choice;
    const bool over = device.report && device.report->state == "ended";
    if (!device.process.is_running())
      choice = {EngineStep::forget_device, device.key, TimePoint::never()};
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
Choice forget_dead_devices(const EngineFacts& facts) {
  for (const DeviceFacts& device : facts.devices)
    if (!device.process.is_running()) return {EngineStep::forget_device, device.key, TimePoint::never()};
  return {};
}

Choice choose_while_running(const Engine* object, std::int64_t granted, const Self& self,
                            const EngineFacts& facts, TimePoint now) {
  if (granted != facts.epoch && object != nullptr && !facts.told_superseded) {
    if (now >= facts.retry_at) return {EngineStep::check_grant, "", TimePoint::never()};
    return {EngineStep::nothing, "", facts.retry_at};
  }
  if (!is_wanted(object, self)) {
    const Choice choice = remove_devices(facts, nullptr, true, now);
    if (choice.step != EngineStep::nothing || !facts.devices.empty()) return choice;
    return {
        facts.drain_asked || MOOR_PLANT("agent-drain-forgotten") ? EngineStep::nothing : EngineStep::drain,
        "", TimePoint::never()};
  }
  if (!facts.report || !facts.report->is_serving()) return forget_dead_devices(facts);
  const DeviceFacts* current = wants_device(*object) ? current_device(facts) : nullptr;
  // The new device comes before the old one goes: what opens the path now must not find the dead one.
  if (wants_device(*object) && current == nullptr) {
    if (const Choice choice = forget_dead_devices(facts); choice.step != EngineStep::nothing) return choice;
    if (now >= facts.device_retry_at) return {EngineStep::start_device, "", TimePoint::never()};
    return {EngineStep::nothing, "", facts.device_retry_at};
  }
  return remove_devices(facts, current, true, now);
}

Choice choose_while_stopped(const Engine* object, std::int64_t granted, const Self& self,
                            const EngineFacts& facts, TimePoint now) {
  if (!is_wanted(object, self)) {
    const Choice choice = remove_devices(facts, nullptr, false, now);
    if (choice.step != EngineStep::nothing || !facts.devices.empty()) return choice;
    if (object == nullptr) return {EngineStep::forget, "", TimePoint::never()};
    const bool held =
        object->metadata.is_being_deleted() && object->metadata.has_finalizer(registry::kNodeFinalizer);
    return {held ? EngineStep::let_go : EngineStep::nothing, "", TimePoint::never()};
  }
  if (const Choice choice = forget_dead_devices(facts); choice.step != EngineStep::nothing) return choice;
  if (granted <= facts.epoch) return {};
  if (now >= facts.retry_at) return {EngineStep::start, "", TimePoint::never()};
  return {EngineStep::nothing, "", facts.retry_at};
}

InstanceState state_of(const Engine& object, std::int64_t granted, const Self& self,
                       const EngineFacts& facts) {
  const bool wanted = is_wanted(&object, self);
  if (facts.process.is_running()) {
    if (!wanted)
      return MOOR_PLANT("agent-stopped-while-running") ? InstanceState::stopped : InstanceState::stopping;
    if (!facts.report || !facts.report->is_serving()) return InstanceState::starting;
    if (!wants_device(object)) return InstanceState::running;
    const DeviceFacts* device = current_device(facts);
    return device != nullptr && device->is_up() ? InstanceState::running : InstanceState::starting;
  }
  // Neither there nor known to be gone: `stopped` would be taken as the release of an epoch that is just
  // coming up (S12).
  if (facts.process.state == State::starting)
    return wanted ? InstanceState::starting : InstanceState::stopping;
  if (!wanted)
    return facts.devices.empty() || MOOR_PLANT("agent-stopped-with-device") ? InstanceState::stopped
                                                                            : InstanceState::stopping;
  if (granted > facts.epoch) return InstanceState::starting;
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

model::longhorn::EngineStatus status_of(const Engine& object, std::int64_t granted, const Self& self,
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
  if (facts.process.is_running() && facts.report) {
    if (facts.report->is_serving()) {
      status.current_size = facts.report->size;
      status.export_id = facts.report->export_id;
      status.nbd_uri = fmt::format("nbd+unix:///{}?socket={}", object.spec.volume_name, facts.socket);
      tell_members(*facts.report, status, moment.wall);
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

EnginePlan plan_engine(const Engine* object, const Grant* grant, const Self& self, const EngineFacts& facts,
                       Moment moment) {
  const std::int64_t granted = granted_epoch(object, grant, self);
  const Choice choice = facts.process.is_running()
                            ? choose_while_running(object, granted, self, facts, moment.now)
                            : choose_while_stopped(object, granted, self, facts, moment.now);
  EnginePlan plan{choice.step, choice.device, granted, {}, choice.again};
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
                                 std::to_string(grant.active->epoch),
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

}  // namespace moor::agent
