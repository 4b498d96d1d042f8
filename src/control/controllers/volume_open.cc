#include <fmt/format.h>

#include <algorithm>

#include "attach/grant.h"
#include "attach/moves.h"
#include "base/plant.h"
#include "control/controllers/volume_steps.h"

namespace moor::control {
namespace {

using lh::InstanceState;
using lh::Robustness;
using mr::MemberMode;
using std::chrono::seconds;

constexpr seconds kServiceThatCounts = std::chrono::minutes(10);

std::string why_it_ended(const lh::Engine& engine) {
  const model::Condition* failed = model::find_condition(engine.status.conditions, "Failed");
  if (failed != nullptr && failed->status == model::ConditionStatus::yes && !failed->message.empty())
    return failed->message;
  return engine.status.current_state == InstanceState::error ? "the engine failed" : "the engine ended";
}

bool has_failed(const lh::Replica& replica) {
  return model::is_condition_true(replica.status.conditions, "Failed");
}

// Why a member does not run, for people.
std::string objection_of(const lh::Replica& replica, const NodeLife& node) {
  if (!node.exists) return fmt::format("{}: node {} is unknown", replica.metadata.name, replica.spec.node_id);
  if (!node.ready)
    return fmt::format("{}: node {} is not ready", replica.metadata.name, replica.spec.node_id);
  const model::Condition* failed = model::find_condition(replica.status.conditions, "Failed");
  return fmt::format("{} on node {}: {}", replica.metadata.name, replica.spec.node_id,
                     has_failed(replica) ? failed->message : "not running yet");
}

// The members that an engine may start from, and what is still missing.
struct Readiness {
  std::map<std::string, std::string> addresses;  // of RW members that run
  std::vector<std::string> awaited;              // RW members on ready nodes that do not run yet
  std::vector<std::string> absent;               // RW members whose node is not ready
  std::vector<std::string> failing;              // those of the awaited that say what is wrong
};

Readiness readiness_of(const Family& family) {
  Readiness ready;
  for (const auto& [name, mode] : family.grant->spec.members) {
    if (mode == MemberMode::err) continue;
    const auto found = family.replicas.find(name);
    if (found == family.replicas.end()) {
      ready.absent.push_back(name + ": its Replica is gone");
      continue;
    }
    const lh::Replica& replica = *found->second;
    const NodeLife& node = family.life(replica.spec.node_id);
    const bool runs = node.ready && replica.spec.desire_state == InstanceState::running &&
                      replica.status.current_state == InstanceState::running && replica.status.port > 0;
    if (runs)
      ready.addresses[name] = fmt::format("{}:{}", replica.status.ip, replica.status.port);
    else if (mode == MemberMode::rw)
      (node.ready ? ready.awaited : ready.absent).push_back(objection_of(replica, node));
    if (!runs && node.ready && mode == MemberMode::rw && has_failed(replica))
      ready.failing.push_back(ready.awaited.back());
  }
  return ready;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

void start_replicas(Family& family) {
  for (const auto& [name, mode] : family.grant->spec.members) {
    const auto found = family.replicas.find(name);
    if (found == family.replicas.end() || mode == MemberMode::err) continue;
    if (found->second->spec.desire_state != InstanceState::running &&
        !found->second->metadata.is_being_deleted())
      found->second.edit().spec.desire_state = InstanceState::running;
  }
}

// One transaction: the epoch, its holder, and the engine that shall run with it.
void grant_epoch(Family& family, const Seat& seat, const Readiness& ready, const NodeLife& node,
                 const std::optional<mr::ReleaseProof>& proof) {
  mr::GrantSpec next = family.grant->spec;
  if (proof) {
    auto released = attach::release_active(next, *proof);
    if (!released) return family.plan.reasons.push_back(released.error().message);
    next = std::move(*released);
  }
  auto granted = attach::grant_start(next, {seat.engine, seat.node, node.incarnation});
  if (!granted) return family.plan.reasons.push_back(granted.error().message);
  family.grant.edit().spec = std::move(*granted);
  if (MOOR_PLANT("control-grant-alone")) return;
  seat_engine(family, seat, ready.addresses);
  family.slot(seat.engine).edit().spec.epoch = family.grant->spec.epoch;
  family.plan.reasons.push_back(fmt::format("epoch {} for node {}", family.grant->spec.epoch, seat.node));
}

void count_restart(Family& family, std::string cause) {
  const std::int32_t before = restarts_in_a_row(family);
  lh::RestartStatus& restarts = family.status().restarts;
  restarts.count = before + 1;
  restarts.last_at = std::chrono::floor<seconds>(family.view.now());
  restarts.cause = std::move(cause);
}

// Absent: it may start now. Otherwise how long to wait, or for ever.
bool must_pause(Family& family) {
  const std::int32_t count = restarts_in_a_row(family);
  if (count >= family.view.settings().engine_restart_limit()) return true;
  const auto& last = family.volume->status.restarts.last_at;
  // In the future: the clock went back, or the leader before us had another. Better too early than ten
  // minutes late.
  if (!last || count == 0 || *last > family.view.now()) return false;
  const model::Time when = *last + restart_pause(count);
  if (when <= family.view.now()) return false;
  family.again_at(when);
  return true;
}

void fault(Family& family, const Readiness& ready) {
  std::vector<std::string> all = ready.awaited;
  all.insert(all.end(), ready.absent.begin(), ready.absent.end());
  count_restart(family, fmt::format("no replica that holds all data can serve ({})", join(all)));
  family.set(&lh::VolumeStatus::robustness, Robustness::faulted);
}

void start_engine(Family& family, const Seat& seat, const std::optional<mr::ReleaseProof>& proof) {
  const NodeLife& node = family.life(seat.node);
  const Readiness ready = readiness_of(family);
  const bool restart = proof.has_value();
  const auto since = family.holds_since(lh::kVolumeOpening);
  const seconds wait = family.view.settings().replica_start_wait();
  const model::Time limit = since.value_or(family.view.now()) + wait;
  const bool waited = since && limit <= family.view.now();
  if (!node.ready && !MOOR_PLANT("control-starts-on-dead-node"))
    return family.set_condition(lh::kVolumeOpening, true, "NodeNotReady",
                                fmt::format("node {} is not ready", seat.node));
  if (!ready.awaited.empty() && !waited && !MOOR_PLANT("control-ignores-awaited")) {
    family.again_at(limit);
    // Named are those with trouble: a list that shrinks with each start would be a write for each.
    return family.set_condition(lh::kVolumeOpening, true, "WaitingForReplicas",
                                ready.failing.empty() ? "replicas are being started" : join(ready.failing));
  }
  if (ready.addresses.empty()) {
    family.set_condition(lh::kVolumeOpening, true, "WaitingForReplicas", join(ready.absent));
    if (family.grant->spec.members.empty()) return;  // nothing is placed: the condition Scheduled says why
    if (waited) return fault(family, ready);
    return family.again_at(limit);
  }
  if (must_pause(family))
    return family.set_condition(lh::kVolumeOpening, true, "EngineFailing",
                                family.volume->status.restarts.cause);
  if (restart && !MOOR_PLANT("control-restart-not-counted"))
    count_restart(family, why_it_ended(*family.slot(seat.engine)));
  grant_epoch(family, seat, ready, node, proof);
}

// Serving for long enough ends a row of restarts.
void forget_restarts(Family& family) {
  const auto& restarts = family.volume->status.restarts;
  if (restarts.count == 0 || !restarts.last_at) return;
  const model::Time when = *restarts.last_at + kServiceThatCounts;
  if (when <= family.view.now()) {
    family.status().restarts = {};
  } else {
    family.again_at(when);
  }
}

}  // namespace

bool has_ended(InstanceState state) {
  return state == InstanceState::stopped || state == InstanceState::error;
}

void seat_engine(Family& family, const Seat& seat, const std::map<std::string, std::string>& addresses) {
  const lh::Volume& volume = *family.volume;
  lh::EngineSpec& engine = family.slot(seat.engine).edit().spec;
  engine.node_id = seat.node;
  engine.desire_state = InstanceState::running;
  engine.volume_size = volume.spec.size;
  engine.frontend = volume.spec.frontend;
  engine.disable_frontend = volume.spec.disable_frontend;
  engine.peer_listen = engine.peer_listen || may_move(family);
  if (!addresses.empty()) engine.replica_address_map = addresses;
}

std::map<std::string, std::string> member_addresses(const Family& family, const Edit<lh::Engine>& engine) {
  std::map<std::string, std::string> addresses = readiness_of(family).addresses;
  if (!engine) return addresses;
  for (const auto& [name, address] : engine->spec.replica_address_map) {
    const auto mode = family.grant->spec.members.find(name);
    const auto replica = family.replicas.find(name);
    if (mode == family.grant->spec.members.end() || mode->second != MemberMode::rw ||
        replica == family.replicas.end() || !family.life(replica->second->spec.node_id).ready)
      continue;
    addresses.emplace(name, address);
  }
  return addresses;
}

seconds restart_pause(std::int32_t count) {
  if (count <= 0) return seconds(0);
  return seconds(std::min<std::int64_t>(60, std::int64_t{1} << std::min(count - 1, 6)));
}

std::int32_t restarts_in_a_row(const Family& family) {
  const lh::RestartStatus& restarts = family.volume->status.restarts;
  if (restarts.count == 0 || !restarts.last_at || !family.attachment) return restarts.count;
  for (const auto& [id, ticket] : family.attachment->spec.attachment_tickets)
    if (ticket.requested_at && ticket.requested_at->at > *restarts.last_at + seconds(1)) return 0;
  return restarts.count;
}

std::optional<mr::ReleaseProof> proof_of_release(const Family& family, Release what) {
  if (!family.grant || !family.grant->spec.active) return std::nullopt;
  return proof_of_end(family, *family.grant->spec.active, what);
}

std::optional<mr::ReleaseProof> proof_of_end(const Family& family, const mr::GrantHolder& holder,
                                             Release what) {
  const Edit<lh::Engine>& engine = family.slot(holder.engine);
  // An engine in `error` has ended and left its device: the next one on that node takes it over, and whoever
  // has it open goes on. Only `stopped` says that the device is gone as well (S12).
  const auto released = [&](InstanceState state) {
    return state == InstanceState::stopped ||
           (state == InstanceState::error &&
            (what == Release::of_process || MOOR_PLANT("control-error-releases-node")));
  };
  if (engine && (engine->status.epoch == holder.epoch || MOOR_PLANT("control-old-epoch-proves")) &&
      released(engine->status.current_state)) {
    mr::ReleaseProof proof;
    proof.type = mr::ProofType::unmounted;
    proof.holder = holder;
    proof.at = model::MicroTime{family.view.now()};
    proof.by = fmt::format("agent of {}", holder.node);
    return proof;
  }
  const NodeLife& node = family.life(holder.node);
  return attach::incarnation_proof(holder, node.incarnation, family.view.now());
}

bool is_serving(const Family& family) {
  const auto& active = family.grant->spec.active;
  if (!active) return false;
  const Edit<lh::Engine>& engine = family.slot(active->engine);
  if (!engine) return false;
  const lh::EngineStatus& status = engine->status;
  const bool runs = status.current_state == InstanceState::running && status.epoch == active->epoch;
  const bool any_rw = std::any_of(status.replica_mode_map.begin(), status.replica_mode_map.end(),
                                  [](const auto& one) { return one.second == lh::ReplicaMode::rw; });
  // What a node said in an earlier life speaks of a process that is gone (S13).
  const bool lives = family.life(active->node).incarnation <= active->incarnation;
  return runs && !status.standby && any_rw && lives && engine->spec.desire_state == InstanceState::running;
}

attach::Progress progress_of(const Family& family) {
  attach::Progress progress;
  const mr::GrantSpec& grant = family.grant->spec;
  progress.standby_stopped = !grant.standby;
  progress.held = grant.active.has_value();
  if (grant.active) {
    progress.opened = is_serving(family) && grant.active->node == family.volume->spec.node_id;
    return progress;
  }
  progress.held = !is_other_side_released(family);
  if (progress.held) return progress;
  progress.stopped = std::all_of(family.replicas.begin(), family.replicas.end(), [&](const auto& one) {
    const lh::Replica& replica = *one.second;
    const InstanceState state = replica.status.current_state;
    if (state == InstanceState::none || has_ended(state) || replica.spec.node_id.empty()) return true;
    // Without an engine a replica's process does nothing; one on a node that does not answer is not waited
    // for.
    return !family.life(replica.spec.node_id).ready;
  });
  return progress;
}

void follow_addresses(Family& family) {
  Edit<lh::Engine>& engine = family.slot(family.grant->spec.active->engine);
  if (!engine) return;
  for (const auto& [name, address] : readiness_of(family).addresses) {
    const auto& known = engine->spec.replica_address_map;
    const auto found = known.find(name);
    if ((found == known.end() || found->second != address) && !MOOR_PLANT("control-addresses-stay"))
      engine.edit().spec.replica_address_map[name] = address;
  }
}

void keep_open(Family& family, const Seat& seat) {
  start_replicas(family);
  if (is_serving(family)) return forget_restarts(family);
  if (const auto proof = proof_of_release(family, Release::of_process))
    return start_engine(family, seat, proof);
  if (family.grant->spec.active) follow_addresses(family);
}

void open(Family& family) {
  start_replicas(family);
  const mr::GrantSpec& grant = family.grant->spec;
  const Seat seat{family.slot_in_use, family.volume->spec.node_id};
  if (progress_of(family).opened) return forget_restarts(family);
  if (!grant.active) {
    // What is left of a move that was cut off goes first.
    close_other_side(family);
    if (is_other_side_released(family)) start_engine(family, seat, std::nullopt);
    return;
  }
  const bool stays = grant.active->node == family.volume->spec.node_id;
  if (const auto proof = proof_of_release(family, stays ? Release::of_process : Release::of_node))
    return start_engine(family, seat, proof);
  if (stays) return follow_addresses(family);  // it is starting, or its node is away
  if (family.engine->spec.desire_state != InstanceState::stopped)
    family.engine.edit().spec.desire_state = InstanceState::stopped;
}

namespace {
// The mirror of an epoch waits for the write that tells how the start went: until then the Engine, which gets
// its epoch together with the Grant, has it as well.
bool is_told_soon(const Family& family) {
  const auto& active = family.grant->spec.active;
  return family.volume->status.state == lh::VolumeState::attaching && active &&
         active->epoch == family.grant->spec.epoch && family.slot(active->engine) &&
         family.slot(active->engine)->spec.epoch == active->epoch;
}
}  // namespace

void tell_robustness(Family& family, const attach::Progress& progress) {
  const mr::GrantSpec& grant = family.grant->spec;
  if (family.volume->status.epoch != grant.epoch && !is_told_soon(family))
    attach::mirror_grant(grant, family.status());
  for (auto& [name, replica] : family.replicas) {
    const auto mode = grant.members.find(name);
    if (mode != grant.members.end() && mode->second == MemberMode::err && replica->spec.failed_at.empty()) {
      lh::ReplicaSpec& spec = replica.edit().spec;
      spec.failed_at = spec.last_failed_at = model::format_rfc3339(family.view.now());
      spec.healthy_at.clear();
    }
  }
  if (family.volume->status.robustness == Robustness::faulted) return;
  const bool attached = family.volume->status.state == lh::VolumeState::attached;
  const bool serves = progress.opened || (attach::is_moving(*family.volume) && is_serving(family));
  if (!attached || !serves) return family.set(&lh::VolumeStatus::robustness, Robustness::unknown);
  const auto in_step = std::count_if(grant.members.begin(), grant.members.end(),
                                     [](const auto& one) { return one.second == MemberMode::rw; });
  const bool healthy =
      in_step >= (MOOR_PLANT("control-robustness-wrong") ? 1 : family.volume->spec.number_of_replicas);
  if (!healthy && family.volume->status.robustness != Robustness::degraded)
    family.status().last_degraded_at = model::format_rfc3339(family.view.now());
  family.set(&lh::VolumeStatus::robustness, healthy ? Robustness::healthy : Robustness::degraded);
  family.set(&lh::VolumeStatus::frontend_disabled, family.engine->spec.disable_frontend);
  const std::string& known = family.volume->status.export_id;
  if (!grant.export_id.empty() && known != grant.export_id) {
    // Clients of another export may have lost what they had not flushed: they must open again.
    if (!known.empty()) family.status().remount_requested_at = model::format_rfc3339(family.view.now());
    family.status().export_id = grant.export_id;
  }
  family.set_condition(lh::kVolumeOpening, false, "", "");
}

void lift_fault(Family& family) {
  const lh::VolumeStatus& status = family.volume->status;
  if (status.robustness != Robustness::faulted || status.state != lh::VolumeState::detached) return;
  const bool any = std::any_of(family.grant->spec.members.begin(), family.grant->spec.members.end(),
                               [&](const auto& member) {
                                 const auto found = family.replicas.find(member.first);
                                 return member.second == MemberMode::rw && found != family.replicas.end() &&
                                        family.life(found->second->spec.node_id).ready;
                               });
  if (!any || must_pause(family) || MOOR_PLANT("control-fault-forever")) return;
  family.status().robustness = Robustness::unknown;
  family.status().last_auto_salvaged_at = model::format_rfc3339(family.view.now());
}

}  // namespace moor::control
