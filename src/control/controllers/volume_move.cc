// A move of an attached volume: the record, the two engines, and every way in which they end. The attach
// room's move_steps.h says which step; here it is done (docs/decisions/0300).
#include <fmt/format.h>

#include <algorithm>

#include "attach/grant.h"
#include "attach/move_steps.h"
#include "attach/moves.h"
#include "attach/tickets.h"
#include "control/controllers/volume_steps.h"

namespace moor::control {
namespace {

using attach::MoveAction;
using attach::MoveSide;
using lh::InstanceState;
using lh::MovePhase;

const lh::MoveStatus& record_of(const Family& family) {
  return *family.volume->status.move;
}

std::string slot_of(const Family& family, MoveSide side) {
  const lh::MoveStatus& move = record_of(family);
  const std::string source = move.source ? move.source->engine : family.slot_in_use;
  if (side == MoveSide::source) return source;
  return source == family.slot_in_use ? family.free_slot : family.slot_in_use;
}

Seat seat_of(const Family& family, MoveSide side) {
  const lh::MoveStatus& move = record_of(family);
  return {slot_of(family, side), side == MoveSide::source ? move.source_node_id : move.destination_node_id};
}

std::string ticket_on(const Family& family, const std::string& node) {
  if (!family.attachment) return {};
  for (const auto& [id, ticket] : family.attachment->spec.attachment_tickets)
    if (ticket.node_id == node && attach::is_workload(ticket)) return id;
  return {};
}

std::string peer_address(const Family& family) {
  const auto& active = family.grant->spec.active;
  const Edit<lh::Engine>& engine = family.slot(slot_of(family, MoveSide::source));
  if (!active || !engine || engine->status.epoch != active->epoch || engine->status.port == 0 ||
      has_ended(engine->status.current_state))
    return {};
  return fmt::format("{}:{}", engine->status.ip, engine->status.port);
}

void say(Family& family, std::string_view reason, std::string message, bool warning = false) {
  family.plan.note(family.volume.before(), warning ? "Warning" : "Normal", std::string(reason),
                   std::move(message));
}

std::string_view reason_of(MovePhase phase) {
  switch (phase) {
    case MovePhase::preparing: return "MovePreparing";
    case MovePhase::ready: return "MoveReady";
    case MovePhase::activated: return "MoveActivated";
    case MovePhase::confirming: return "MoveConfirming";
    case MovePhase::rolling_back: return "MoveRollingBack";
    default: return "Moving";
  }
}

void tell_phase(Family& family, MovePhase phase, const std::string& message) {
  const lh::MoveStatus& known = record_of(family);
  const bool next = known.phase != phase;
  if (!next && known.message == message) return;
  lh::MoveStatus& move = *family.status().move;
  move.phase = phase;
  move.message = message;
  const std::string text = fmt::format("from node {} to node {}{}{}", move.source_node_id,
                                       move.destination_node_id, message.empty() ? "" : ": ", message);
  if (next) {
    move.phase_since = std::chrono::floor<std::chrono::seconds>(family.view.now());
    say(family, reason_of(phase), fmt::format("volume {} moves {}", family.name, text));
  }
  family.set_condition(lh::kVolumeMoving, true, std::string(reason_of(phase)), text);
}

template <class Part, class Value>
void set_spec(Edit<lh::Engine>& engine, Value Part::*field, const Value& value) {
  if (engine && !(engine->spec.*field == value)) engine.edit().spec.*field = value;
}

// Which holders the sides have now: each new epoch is written down, so that its release can be proven.
void note_holders(Family& family) {
  const mr::GrantSpec& grant = family.grant->spec;
  const auto note = [&](MoveSide side, std::optional<mr::GrantHolder> lh::MoveStatus::*field) {
    const std::string engine = slot_of(family, side);
    for (const auto& holder : {grant.active, grant.standby})
      if (holder && holder->engine == engine && record_of(family).*field != holder)
        (*family.status().move).*field = holder;
  };
  for (const auto& holder : {grant.active, grant.standby})
    if (holder) set_spec(family.slot(holder->engine), &lh::EngineSpec::epoch, holder->epoch);
  note(MoveSide::source, &lh::MoveStatus::source);
  note(MoveSide::destination, &lh::MoveStatus::destination);
  const auto& destination = record_of(family).destination;
  if (destination && record_of(family).destination_epoch != destination->epoch)
    family.status().move->destination_epoch = destination->epoch;
}

mr::ReleaseProof fence(const Family& family, const mr::GrantHolder& holder, std::int64_t epoch,
                       std::string message) {
  mr::ReleaseProof proof;
  proof.type = mr::ProofType::fenced;
  proof.holder = holder;
  proof.fenced_by_epoch = epoch;
  proof.at = model::MicroTime{family.view.now()};
  proof.by = "volume-controller";
  proof.message = std::move(message);
  return proof;
}

// Once the active engine serves, every member that could serve has its epoch: the other side is fenced.
void prove_fence(Family& family, const std::optional<mr::GrantHolder>& holder) {
  const auto& active = family.grant->spec.active;
  if (!holder || !active || holder->epoch >= active->epoch || attach::has_proof(family.grant->spec, *holder))
    return;
  auto proof = proof_of_end(family, *holder, Release::of_node);
  if (!proof) proof = fence(family, *holder, active->epoch, fmt::format("epoch {} serves", active->epoch));
  attach::record_proof(family.grant.edit().spec, *proof);
}

bool is_loser_gone(const Family& family, MoveSide side) {
  const Edit<lh::Engine>& engine = family.slot(slot_of(family, side));
  if (!engine) return true;
  const NodeLife& node = family.life(engine->spec.node_id);
  if (!node.ready) return true;  // fenced: it is not waited for
  return engine->spec.desire_state == InstanceState::stopped &&
         engine->status.current_state == InstanceState::stopped;
}

attach::MoveProgress progress_of_move(const Family& family) {
  attach::MoveProgress progress;
  const mr::GrantSpec& grant = family.grant->spec;
  const bool serves = is_serving(family);
  if (!attach::is_moving(*family.volume)) {
    progress.source_serves = serves && grant.active->node == family.volume->spec.node_id;
    return progress;
  }
  const std::string source = slot_of(family, MoveSide::source);
  const std::string destination = slot_of(family, MoveSide::destination);
  progress.source_active = grant.active && grant.active->engine == source;
  progress.destination_active = grant.active && grant.active->engine == destination;
  progress.source_serves = progress.source_active && serves;
  progress.destination_serves = progress.destination_active && serves;
  progress.standby_granted = grant.standby && grant.standby->engine == destination;
  progress.loser_gone = is_loser_gone(
      family, family.volume->spec.node_id == record_of(family).destination_node_id ? MoveSide::source
                                                                                   : MoveSide::destination);
  if (!progress.standby_granted) return progress;
  progress.standby_ended = proof_of_end(family, *grant.standby, Release::of_process).has_value();
  const Edit<lh::Engine>& standby = family.slot(destination);
  const Edit<lh::Engine>& active = family.slot(source);
  const bool holds = progress.source_active && active && active->status.holding == grant.standby->epoch &&
                     active->status.epoch == grant.active->epoch;
  const bool runs = standby && standby->status.current_state == InstanceState::running &&
                    standby->status.standby && standby->status.epoch == grant.standby->epoch;
  // The word once given stands for that epoch: its agent may be taking over by it just now, and only a write
  // of the Grant keeps it from that. An agent of the source that has just started does not say `holding` at
  // first.
  const bool told = standby && standby->spec.ready_epoch == grant.standby->epoch;
  progress.standby_ready = told || (runs && holds);
  return progress;
}

// A standby never became active, and from this write on it never can.
void burn_standby(Family& family) {
  if (!family.grant->spec.standby) return;
  mr::GrantSpec next = family.grant->spec;
  const std::int64_t burnt = ++next.epoch;
  auto released = attach::release_standby(
      next, fence(family, *next.standby, burnt, "it never became active; its epoch is burnt"));
  if (!released) return family.plan.reasons.push_back(released.error().message);
  family.grant.edit().spec = std::move(*released);
}

void begin(Family& family) {
  burn_standby(family);  // of a move that nobody records any more
  lh::MoveStatus move;
  const lh::VolumeSpec& spec = family.volume->spec;
  move.source_node_id = spec.node_id;
  move.destination_node_id = spec.migration_node_id;
  move.source_ticket = ticket_on(family, spec.node_id);
  move.destination_ticket = ticket_on(family, spec.migration_node_id);
  move.source = family.grant->spec.active;
  move.source_served = move.source->epoch;
  move.started_at = move.phase_since = std::chrono::floor<std::chrono::seconds>(family.view.now());
  move.phase = MovePhase::preparing;
  say(family, reason_of(move.phase),
      fmt::format("volume {} moves from node {} to node {}", family.name, move.source_node_id,
                  move.destination_node_id));
  family.status().move = std::move(move);
}

// What keeps the standby from being granted now; empty: nothing.
std::string objection_to_standby(Family& family) {
  const lh::MoveStatus& move = record_of(family);
  for (const auto& [name, mode] : family.grant->spec.members)
    if (mode == mr::MemberMode::wo) return fmt::format("waits until replica {} is rebuilt", name);
  const Edit<lh::Engine>& engine = family.slot(slot_of(family, MoveSide::destination));
  if (engine && engine->metadata.is_being_deleted())
    return fmt::format("waits until node {} has cleaned up after an earlier move", engine->spec.node_id);
  if (!family.life(move.destination_node_id).ready)
    return fmt::format("node {} is not ready", move.destination_node_id);
  if (move.failures > 0 && move.last_failure_at) {
    const model::Time when = *move.last_failure_at + restart_pause(move.failures);
    if (when > family.view.now()) {
      family.again_at(when);
      return move.message;  // why the last one ended
    }
  }
  return {};
}

void seat_standby(Family& family, const mr::GrantHolder& holder) {
  Edit<lh::Engine>& engine = family.slot(holder.engine);
  if (!engine) {
    engine.edit().metadata = metadata_of_engine(family, holder.engine);
    engine.edit().spec.volume_name = family.name;
    engine.edit().spec.data_engine = family.volume->spec.data_engine;
  }
  const Edit<lh::Engine>& source = family.slot(slot_of(family, MoveSide::source));
  seat_engine(family, {holder.engine, holder.node}, source->spec.replica_address_map);
  lh::EngineSpec& spec = engine.edit().spec;
  spec.active = false;
  spec.peer_listen = true;
  spec.ready_epoch = spec.last_served = spec.hold_epoch = 0;
  spec.activate_requested = false;
  spec.standby_source = peer_address(family);
}

// The first standby epoch of the move, or the next one when its process has ended.
std::string grant_standby(Family& family) {
  mr::GrantSpec next = family.grant->spec;
  const auto ended = next.standby ? proof_of_end(family, *next.standby, Release::of_process) : std::nullopt;
  if (ended) {
    const Edit<lh::Engine>& engine = family.slot(next.standby->engine);
    const model::Condition* failed =
        engine ? model::find_condition(engine->status.conditions, "Failed") : nullptr;
    auto released = attach::release_standby(next, *ended);
    if (!released) return released.error().message;
    next = std::move(*released);
    lh::MoveStatus& move = *family.status().move;
    ++move.failures;
    move.last_failure_at = std::chrono::floor<std::chrono::seconds>(family.view.now());
    move.message = failed != nullptr ? failed->message : "its process ended";
    family.grant.edit().spec = next;
  }
  if (std::string why = objection_to_standby(family); !why.empty()) return why;
  const Seat seat = seat_of(family, MoveSide::destination);
  const NodeLife& node = family.life(seat.node);
  auto granted = attach::set_standby(next, {seat.engine, seat.node, node.incarnation});
  if (!granted) return granted.error().message;
  family.grant.edit().spec = std::move(*granted);
  seat_standby(family, *family.grant->spec.standby);
  return "";
}

// The source was started again, above the standby: the standby goes on one above that.
void lift_standby(Family& family) {
  mr::GrantSpec next = family.grant->spec;
  if (!next.standby || !next.active || next.standby->epoch > next.active->epoch) return;
  const mr::GrantHolder old = *next.standby;
  auto released = attach::release_standby(
      next, fence(family, old, next.active->epoch, "it goes on in a higher epoch, above its source"));
  if (!released) return family.plan.reasons.push_back(released.error().message);
  auto granted = attach::set_standby(*released, {old.engine, old.node, old.incarnation});
  if (!granted) {
    // A member is being rebuilt: no standby until it is done.
    family.grant.edit().spec = std::move(*released);
    return;
  }
  family.grant.edit().spec = std::move(*granted);
}

std::int64_t standby_epoch(const Family& family) {
  const auto& standby = family.grant->spec.standby;
  return standby ? standby->epoch : 0;
}

void keep_side(Family& family, MoveSide side) {
  const auto& active = family.grant->spec.active;
  const Seat seat = seat_of(family, side);
  if (!active || active->engine != seat.engine) return;
  const std::int64_t before = active->epoch;
  keep_open(family, seat);
  lift_standby(family);
  const MovePhase phase = record_of(family).phase;
  const bool restarted = family.grant->spec.active && family.grant->spec.active->epoch != before;
  if (restarted && side == MoveSide::source && phase != MovePhase::rolling_back)
    family.status().move->source_served = family.grant->spec.active->epoch;
}

// What both agents must know besides the Grant.
void tell_agents(Family& family, MovePhase phase) {
  const mr::GrantSpec& grant = family.grant->spec;
  const bool open = phase == MovePhase::preparing || phase == MovePhase::ready ||
                    phase == MovePhase::activated || phase == MovePhase::rolling_back;
  Edit<lh::Engine>& source = family.slot(slot_of(family, MoveSide::source));
  Edit<lh::Engine>& destination = family.slot(slot_of(family, MoveSide::destination));
  // The number says for which standby: the word of an earlier move counts for nothing.
  const auto& standby = record_of(family).destination;
  set_spec(source, &lh::EngineSpec::hold_epoch, open && standby ? standby->epoch : std::int64_t{0});
  if (!destination || !grant.standby) return;
  const std::string peer = peer_address(family);
  if (!peer.empty()) set_spec(destination, &lh::EngineSpec::standby_source, peer);
  if (source) set_spec(destination, &lh::EngineSpec::replica_address_map, source->spec.replica_address_map);
  set_spec(destination, &lh::EngineSpec::ready_epoch,
           phase == MovePhase::ready ? grant.standby->epoch : std::int64_t{0});
  bool asked = false;
  if (family.attachment)
    for (const auto& [id, ticket] : family.attachment->spec.attachment_tickets) {
      const auto parameter = ticket.parameters.find(std::string(lh::kParameterActivate));
      asked = asked || (ticket.node_id == record_of(family).destination_node_id &&
                        parameter != ticket.parameters.end() && parameter->second == "true");
    }
  if (phase == MovePhase::ready) set_spec(destination, &lh::EngineSpec::activate_requested, asked);
}

// A start above all others on that side; the other side is fenced when it serves.
std::string grant_side(Family& family, MoveSide side) {
  const Seat seat = seat_of(family, side);
  const NodeLife& node = family.life(seat.node);
  if (const auto ended = proof_of_release(family, Release::of_node))
    attach::record_proof(family.grant.edit().spec, *ended);
  auto granted = attach::grant_over(family.grant->spec, {seat.engine, seat.node, node.incarnation});
  if (!granted) return granted.error().message;
  family.grant.edit().spec = std::move(*granted);
  seat_engine(family, seat, member_addresses(family, family.slot(seat.engine)));
  return "";
}

std::string swap(Family& family) {
  const mr::GrantSpec& grant = family.grant->spec;
  const Seat seat = seat_of(family, MoveSide::destination);
  if (!family.slot(seat.engine)) {
    mr::GrantHolder holder{0, seat.engine, seat.node, 0};
    seat_standby(family, holder);
  }
  if (grant.standby && !proof_of_end(family, *grant.standby, Release::of_process)) {
    auto swapped = attach::activate_standby(grant);
    if (!swapped) return swapped.error().message;
    family.grant.edit().spec = std::move(*swapped);
    return "";
  }
  if (!family.life(seat.node).ready) return fmt::format("node {} is not ready", seat.node);
  return grant_side(family, MoveSide::destination);
}

std::string take_back(Family& family) {
  // The destination has nothing that could write later: there is nothing to be above of.
  const auto& destination = record_of(family).destination;
  const auto& active = family.grant->spec.active;
  const bool here = active && active->engine == slot_of(family, MoveSide::source);
  if (here && (!destination || attach::has_proof(family.grant->spec, *destination))) return "";
  std::string why = grant_side(family, MoveSide::source);
  Edit<lh::Engine>& source = family.slot(slot_of(family, MoveSide::source));
  set_spec(source, &lh::EngineSpec::last_served, record_of(family).source_served);
  return why;
}

void stop_side(Family& family, MoveSide side) {
  Edit<lh::Engine>& engine = family.slot(slot_of(family, side));
  set_spec(engine, &lh::EngineSpec::desire_state, InstanceState::stopped);
  set_spec(engine, &lh::EngineSpec::hold_epoch, std::int64_t{0});
}

void finish(Family& family, MoveSide winner) {
  const lh::MoveStatus move = record_of(family);
  const MoveSide loser = winner == MoveSide::source ? MoveSide::destination : MoveSide::source;
  prove_fence(family, winner == MoveSide::source ? move.destination : move.source);
  const Seat lost = seat_of(family, loser);
  const Seat won = seat_of(family, winner);
  Edit<lh::Engine>& engine = family.slot(lost.engine);
  if (engine && engine.before() && !engine->metadata.is_being_deleted()) family.plan.remove(engine.before());
  engine = {};
  Edit<lh::Engine>& kept = family.slot(won.engine);
  set_spec(kept, &lh::EngineSpec::active, true);
  set_spec(kept, &lh::EngineSpec::hold_epoch, std::int64_t{0});
  set_spec(kept, &lh::EngineSpec::activate_requested, false);
  set_spec(kept, &lh::EngineSpec::standby_source, std::string());
  set_spec(kept, &lh::EngineSpec::ready_epoch, std::int64_t{0});
  set_spec(kept, &lh::EngineSpec::last_served, std::int64_t{0});
  for (auto& [name, replica] : family.replicas)
    if (replica->spec.engine_name != won.engine) replica.edit().spec.engine_name = won.engine;
  return_place(family, lost.node);
  say(family, winner == MoveSide::source ? "MoveUndone" : "Moved",
      fmt::format("volume {} is on node {}", family.name, won.node));
  family.status().move.reset();
  family.set_condition(lh::kVolumeMoving, false, "", "");
}

void set_places(Family& family, const attach::MoveStep& step) {
  family.set(&lh::VolumeStatus::current_node_id, step.current_node_id);
  family.set(&lh::VolumeStatus::current_migration_node_id, step.current_migration_node_id);
}

std::string message_for(const Family& family, const attach::MoveStep& step) {
  const lh::MoveStatus& move = record_of(family);
  switch (step.phase) {
    case MovePhase::preparing: return fmt::format("the standby on node {} starts", move.destination_node_id);
    case MovePhase::confirming:
      return step.action == MoveAction::stop_loser
                 ? fmt::format("the engine on node {} stops", move.source_node_id)
                 : fmt::format("the engine on node {} takes over", move.destination_node_id);
    case MovePhase::rolling_back:
      return fmt::format("the engine on node {} takes the volume back", move.source_node_id);
    default: return "";
  }
}

}  // namespace

bool may_move(const Family& family) {
  if (family.volume->spec.migratable) return true;
  if (!family.attachment) return false;
  const auto& tickets = family.attachment->spec.attachment_tickets;
  return std::any_of(tickets.begin(), tickets.end(),
                     [&](const auto& one) { return one.second.owner && attach::is_workload(one.second); });
}

bool follow_move(Family& family) {
  // More than any move needs in one go.
  constexpr int kMostSteps = 4;
  bool handled = false;
  for (int i = 0; i < kMostSteps; ++i) {
    attach::MoveStep step = attach::next_move_step(*family.volume, progress_of_move(family));
    if (step.action == MoveAction::begin) {
      begin(family);
      handled = true;
      continue;
    }
    if (!step.handled) return handled;
    handled = true;
    const MovePhase before = record_of(family).phase;
    std::string why;
    if (step.action == MoveAction::grant_standby) why = grant_standby(family);
    if (step.action == MoveAction::swap) why = swap(family);
    if (step.action == MoveAction::take_back) why = take_back(family);
    // No rollback: the source was started again, and its clients with it.
    if (step.action == MoveAction::take_back && step.phase == MovePhase::preparing &&
        family.grant->spec.active)
      family.status().move->source_served = family.grant->spec.active->epoch;
    if (step.action == MoveAction::finish) {
      set_places(family, step);
      finish(family, step.keep);
      return true;
    }
    if (step.phase == MovePhase::rolling_back) stop_side(family, MoveSide::destination);
    if (step.action == MoveAction::stop_loser && step.keep == MoveSide::destination)
      stop_side(family, MoveSide::source);
    const std::int64_t standby = standby_epoch(family);
    keep_side(family, step.keep);
    if (step.phase == MovePhase::ready && standby_epoch(family) != standby) step = attach::not_ready(step);
    if (step.phase == MovePhase::ready && record_of(family).failures > 0) family.status().move->failures = 0;
    set_places(family, step);
    if (is_serving(family) && step.keep == MoveSide::destination)
      prove_fence(family, record_of(family).source);
    note_holders(family);
    tell_agents(family, step.phase);
    tell_phase(family, step.phase, why.empty() ? message_for(family, step) : why);
    if (step.phase == before && step.action != MoveAction::swap && step.action != MoveAction::take_back)
      return true;
  }
  return true;
}

void close_other_side(Family& family) {
  burn_standby(family);
  for (Edit<lh::Engine>* engine : {&family.engine, &family.other}) {
    if (!*engine) continue;
    set_spec(*engine, &lh::EngineSpec::hold_epoch, std::int64_t{0});
    const auto& active = family.grant->spec.active;
    const bool named = active && active->engine == (*engine)->metadata.name;
    if (!named) set_spec(*engine, &lh::EngineSpec::desire_state, InstanceState::stopped);
  }
  if (!attach::is_moving(*family.volume)) return;
  for (const auto& holder : {record_of(family).source, record_of(family).destination}) {
    const auto& active = family.grant->spec.active;
    if (!holder || (active && *active == *holder) || attach::has_proof(family.grant->spec, *holder)) continue;
    if (const auto proof = proof_of_end(family, *holder, Release::of_node))
      attach::record_proof(family.grant.edit().spec, *proof);
  }
}

bool is_other_side_released(const Family& family) {
  const auto& active = family.grant->spec.active;
  if (attach::is_moving(*family.volume))
    for (const auto& holder : {record_of(family).source, record_of(family).destination})
      if (holder && !(active && *active == *holder) && !attach::has_proof(family.grant->spec, *holder))
        return false;
  if (family.grant->spec.standby) return false;
  for (const Edit<lh::Engine>* engine : {&family.engine, &family.other}) {
    if (!*engine || (active && active->engine == (*engine)->metadata.name)) continue;
    const InstanceState state = (*engine)->status.current_state;
    // In `error` its device is still there (S12); an epoch that its agent has not heard of may be starting
    // just now, and the agent says `stopped` of it once it is called back.
    const bool taken_up = (*engine)->spec.epoch <= (*engine)->status.epoch;
    if (taken_up && (state == InstanceState::none || state == InstanceState::stopped)) continue;
    if (family.life((*engine)->spec.node_id).ready) return false;
  }
  return true;
}

void clean_up_after_moves(Family& family) {
  const lh::MoveStatus* move = attach::is_moving(*family.volume) ? &record_of(family) : nullptr;
  if (move != nullptr) {
    const bool both = !ticket_on(family, move->source_node_id).empty() &&
                      !ticket_on(family, move->destination_node_id).empty();
    if (attach::record_may_go(*family.volume, both) && is_other_side_released(family)) {
      family.status().move.reset();
      family.set_condition(lh::kVolumeMoving, false, "", "");
      move = nullptr;
    }
  }
  if (move == nullptr) burn_standby(family);
  const bool detached = family.volume->status.state == lh::VolumeState::detached;
  Edit<lh::Engine>& other = family.other;
  if (!other || !other.before() || (move != nullptr && !detached)) return;
  const mr::GrantSpec& grant = family.grant->spec;
  const auto names = [&](const auto& holder) { return holder && holder->engine == other->metadata.name; };
  if (names(grant.active) || names(grant.standby)) return;  // S25
  const NodeLife& node = family.life(other->spec.node_id);
  if (other->metadata.is_being_deleted()) {
    // Its agent cleans up when it is back; without the object it stops what it finds.
    if (node.ready || !other->metadata.has_finalizer(lh::kFinalizer)) return;
    std::erase(other.edit().metadata.finalizers, std::string(lh::kFinalizer));
    return;
  }
  set_spec(other, &lh::EngineSpec::desire_state, InstanceState::stopped);
  const InstanceState state = other->status.current_state;
  if (node.ready && state != InstanceState::stopped && state != InstanceState::none) return;
  family.plan.remove(other.before());
  other = {};
}

}  // namespace moor::control
