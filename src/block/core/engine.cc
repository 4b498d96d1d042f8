#include "block/core/engine.h"

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

std::string_view to_string(State state) {
  switch (state) {
    case State::standby: return "standby";
    case State::starting: return "starting";
    case State::serving: return "serving";
    case State::stalled: return "stalled";
    case State::superseded: return "superseded";
    case State::ended: return "ended";
  }
  return "unknown";
}

std::string_view to_string(MemberMode mode) {
  switch (mode) {
    case MemberMode::rw: return "RW";
    case MemberMode::wo: return "WO";
    case MemberMode::err: return "ERR";
  }
  return "unknown";
}

std::string_view to_string(ExitReason reason) {
  switch (reason) {
    case ExitReason::drained: return "drained";
    case ExitReason::forced: return "forced";
    case ExitReason::superseded: return "superseded";
    case ExitReason::faulted: return "faulted";
    case ExitReason::refused: return "refused";
  }
  return "unknown";
}

Engine::Engine(Config config, BufferPool& pool)
    : machine_(std::make_unique<Machine>(std::move(config), pool)) {}
Engine::~Engine() = default;
void Engine::step(Event event, Instant now, Actions& actions) {
  machine_->step(std::move(event), now, actions);
}
std::optional<Instant> Engine::next_wake() const {
  return machine_->next_wake();
}
bool Engine::wants_requests() const {
  return machine_->wants_requests();
}
Status Engine::status() const {
  return machine_->status();
}
const MemberConfig& Engine::member(MemberIndex index) const {
  return machine_->member(index);
}
const Propose* Engine::open_proposal() const {
  return machine_->open_proposal();
}

Machine::Machine(Config config, BufferPool& pool) : config_(std::move(config)), pool_(&pool) {
  MOOR_ASSERT(!config_.members.empty() && config_.members.size() <= kMaxMembers);
  for (const MemberConfig& member : config_.members) {
    members_.emplace_back().config = member;
    members_.back().mode = member.mode;
    membership_.members[member.name] = member.mode;
  }
  MOOR_ASSERT(membership_.members.size() == config_.members.size(), "two members have one name");
  membership_.generation = config_.generation;
  membership_.export_id = config_.export_id;
  last_served_ = config_.last_served;
}

void Machine::step(Event event, Instant now, Actions& actions) {
  if (stage_ == Stage::ended) return;
  now_ = std::max(now, now_);
  out_ = &actions;
  std::visit([this](auto&& alternative) { handle(std::move(alternative)); }, std::move(event));
  settle();
  out_ = nullptr;
}

// Each turn works off something that an event or the turn before has queued; what a turn queues is bounded by
// the operations in the table and the members, so this ends.
void Machine::settle() {
  while (stage_ != Stage::ended && stage_ != Stage::superseded && stage_ != Stage::asking) {
    if (!completed_.empty()) {
      Operation* operation = completed_.front();
      completed_.pop_front();
      complete(*operation);
    } else if (!runnable_.empty()) {
      Operation* operation = runnable_.front();
      runnable_.pop_front();
      dispatch(*operation);
    } else {
      const std::size_t before = out_->size();
      const auto marks = std::tuple(stage_, hold_, chain_jobs_.size(), changes_in_flight_, storing_);
      if (stage_ != Stage::serving) start_step();
      membership_step();
      repair_step();
      release_parked();
      chain_step();
      freeze_step();
      shutdown_step();
      admit_held();
      if (out_->size() == before && completed_.empty() && runnable_.empty() &&
          marks == std::tuple(stage_, hold_, chain_jobs_.size(), changes_in_flight_, storing_)) {
        return;
      }
    }
  }
}

void Machine::complete(Operation& operation) {
  MOOR_ASSERT(operation.in_use && operation.outstanding == 0);
  switch (operation.kind) {
    case OpKind::client: return complete_client(operation);
    case OpKind::flush_all: return complete_flush(operation);
    case OpKind::store_generation: return complete_store(operation);
    case OpKind::set_rebuilding: return complete_set_rebuilding(operation);
    case OpKind::clear_dirty: return complete_clear(operation);
    case OpKind::chain_change: return complete_chain_change(operation);
    case OpKind::resync_read: return complete_resync_read(operation);
    case OpKind::resync_write: return complete_resync_write(operation);
    case OpKind::mark_served:
    case OpKind::chain_repair: return complete_start(operation);
    case OpKind::chain_state: return complete_chain_state(operation);
    case OpKind::forward:
    case OpKind::source_state:
    case OpKind::handover: MOOR_UNREACHABLE("answered as it arrives");
  }
}

void Machine::handle(Started&&) {
  MOOR_ASSERT(!begun_, "started twice");
  begun_ = true;
  if (config_.standby) return begin_standby();
  begin_start();
}

void Machine::handle(Tick&&) {
  if (!begun_) return;
  if (stage_ == Stage::asking) return check_question();
  if (stage_ == Stage::standby) return standby_tick();
  if (operations_.count(OpKind::handover) != 0 && now_ >= handover_deadline_) drop_source("no answer");
  connect_due();
  check_timeouts();
  clear_step();
  if ((hold_ & kHoldCommand) != 0 && !freeze_command_ && now_ >= freeze_deadline_) thaw("its time is up");
}

void Machine::handle(PeerReplied&& event) {
  if (event.member == kSourceLink) return source_replied(std::move(event));
  if (!current(event.member, event.session)) return;
  Operation* operation = operations_.find(event.reply.id);
  const MemberMask mask = bit(event.member);
  if (operation == nullptr || (operation->outstanding & mask) == 0) return;
  operation->outstanding &= ~mask;
  const bool failed = event.reply.error != 0;
  count_member(event.member, *operation, failed);
  if (failed) {
    operation->failed |= mask;
    if (operation->error == 0) {
      operation->error = event.reply.error;
      operation->message = fmt::format("{}: {}", members_[event.member].config.name, event.reply.message);
    }
  } else {
    operation->succeeded |= mask;
    if (operation->kind == OpKind::resync_read) {
      resync_.chunks[operation->chunk].bytes[event.member] = std::move(event.payload);
    } else if (operation->kind == OpKind::client && operation->client.op == ClientOp::read) {
      operation->client.payload = std::move(event.payload);
    } else {
      operation->extents = std::move(event.reply.extents);
    }
    operation->state = std::move(event.reply.state);
  }
  if (MOOR_PLANT("engine-one-answer-is-enough") && operation->kind == OpKind::client)
    operation->succeeded |= std::exchange(operation->outstanding, 0);
  if (operation->outstanding == 0) completed_.push_back(operation);
}

void Machine::handle(MembershipConfirmed&& event) {
  if (proposal_ && proposal_->proposal == event.proposal) confirmed();
}

void Machine::handle(MembershipRefused&& event) {
  if (!proposal_ || proposal_->proposal != event.proposal) return;
  note(true, fmt::format("the Grant refused {}: {}", proposal_->reason, event.message));
  bump_wanted_ = bump_wanted_ || proposal_bumps_;
  proposal_.reset();
  propose_at_ = now_ + config_.propose_delay;
  if (stage_ == Stage::committing) enter(Stage::gathering);
}

void Machine::handle(Superseded&& event) {
  if (event.epoch != 0 && event.epoch != config_.epoch) return;
  if (stage_ != Stage::superseded) become_superseded(event.message);
}

void Machine::handle(Commanded&& event) {
  const auto named = [](std::string name) {
    SnapshotCommand snapshot;
    snapshot.name = std::move(name);
    return snapshot;
  };
  const std::uint64_t id = event.id;
  if (auto* stop = std::get_if<Shutdown>(&event.command)) return shutdown(id, stop->force);
  if (auto* moved = std::get_if<MemberMoved>(&event.command)) return member_moved(id, *moved);
  if (standby_command(id, event.command)) return;
  if (auto* hold = std::get_if<HoldClients>(&event.command)) return hold_clients(id, hold->on);
  if (auto* take = std::get_if<TakeEpoch>(&event.command)) return take_epoch(id, *take);
  if (stage_ != Stage::serving || shutting_down_) {
    return command_done(id, EAGAIN, fmt::format("the engine is not serving: {}", detail()));
  }
  if (auto* create = std::get_if<SnapshotCreate>(&event.command)) {
    SnapshotCommand snapshot = named(std::move(create->name));
    snapshot.created = std::move(create->created);
    snapshot.labels = std::move(create->labels);
    snapshot.user_created = create->user_created;
    add_chain_job(id, PeerOp::snapshot_create, std::move(snapshot));
  } else if (auto* removed = std::get_if<SnapshotMarkRemoved>(&event.command)) {
    add_chain_job(id, PeerOp::snapshot_mark_removed, named(std::move(removed->name)));
  } else if (auto* purge = std::get_if<SnapshotPurge>(&event.command)) {
    add_chain_job(id, PeerOp::snapshot_purge, named(std::move(purge->name)));
  } else if (auto* revert = std::get_if<SnapshotRevert>(&event.command)) {
    add_chain_job(id, PeerOp::snapshot_revert, named(std::move(revert->name)));
  } else if (auto* ice = std::get_if<Freeze>(&event.command)) {
    freeze(id, ice->limit);
  } else if (std::get_if<Thaw>(&event.command) != nullptr) {
    if ((hold_ & kHoldCommand) != 0) thaw("asked to");
    command_done(id, 0);
  } else if (auto* add = std::get_if<AddMember>(&event.command)) {
    add_member(id, std::move(*add));
  } else if (auto* remove = std::get_if<RemoveMember>(&event.command)) {
    remove_member(id, *remove);
  }
}

void Machine::command_done(std::uint64_t id, std::uint32_t error, std::string message) {
  act(CommandDone{id, error, std::move(message)});
}

std::optional<Instant> Machine::next_wake() const {
  if (!begun_ || stage_ == Stage::ended || stage_ == Stage::superseded) return std::nullopt;
  if (stage_ == Stage::asking) return std::max(ask_deadline_, now_ + Instant(1));
  if (stage_ == Stage::standby) return standby_wake();
  std::optional<Instant> wake;
  const auto at = [&](Instant when) { wake = wake ? std::min(*wake, when) : when; };
  for (const Member& member : members_) {
    if (member.link == Link::none && (stage_ == Stage::gathering && awaited(member))) at(member.retry_at);
    if (member.link == Link::connecting && config_.peer_timeout.count() != 0) {
      at(member.connect_since + config_.peer_timeout);
    }
  }
  // One that has passed has been seen: what holds the start up since then tells us by an event of its own.
  if (stage_ == Stage::gathering && gather_deadline_ > now_) at(gather_deadline_);
  if (propose_at_ > now_) at(propose_at_);
  if (operations_.count(OpKind::handover) != 0) at(handover_deadline_);
  if (!chain_jobs_.empty() && chain_jobs_.front().stage == ChainStage::purging && !polling_) at(poll_at_);
  if ((hold_ & kHoldCommand) != 0) at(freeze_deadline_);
  if (stage_ == Stage::serving && config_.clear_interval.count() != 0) at(clear_at_);
  // A coarse look is enough: a quarter of the limit late at most.
  if (operations_.in_use() != 0 && config_.peer_timeout.count() != 0) at(now_ + config_.peer_timeout / 4);
  if (wake) wake = std::max(*wake, now_ + Instant(1));
  return wake;
}

bool Machine::wants_requests() const {
  const std::uint64_t most = acknowledging() && hold_ == 0 ? config_.soft_bytes : config_.stalled_bytes;
  return payload_bytes_ < most && operations_.in_use() + held_requests_.size() < config_.max_operations / 2;
}

std::string Machine::detail() const {
  switch (stage_) {
    case Stage::standby:
      if (wanted_) return "waits to be activated: " + *wanted_;
      if (source_.link == Link::up) return "forwards reads to " + source_.config.address;
      return fmt::format("waits for the source {}{}", source_.config.address,
                         source_.problem.empty() ? "" : ": " + source_.problem);
    case Stage::gathering: {
      if (proposal_) return "waits for the Grant: " + proposal_->reason;
      std::string waiting;
      for (const Member& member : members_) {
        if (!awaited(member) || member.link == Link::up) continue;
        waiting += fmt::format("{}{}{}", waiting.empty() ? "" : ", ", member.config.name,
                               member.problem.empty() ? "" : " (" + member.problem + ")");
      }
      if (overdue_ && nobody_yet_) return "faulted: no RW member can be reached: " + waiting;
      return "waits for " + waiting;
    }
    case Stage::committing:
      return proposal_ ? "waits for the Grant: " + proposal_->reason : "waits for the Grant";
    case Stage::storing: return "members store the generation";
    case Stage::repairing: return "members catch up with the last snapshot operation";
    case Stage::resyncing:
      return fmt::format("resyncs {} of {} bytes", resync_.done_bytes, resync_.total_bytes);
    case Stage::flushing: return "flushes after the resync";
    case Stage::clearing: return "clears the dirty-region log";
    case Stage::marking: return "tells the members that it serves";
    case Stage::serving:
      if (gate_closed_since_)
        return proposal_ ? "waits for the Grant: " + proposal_->reason : "members store the generation";
      return shutting_down_ ? "drains" : "";
    case Stage::asking:
      return fmt::format("{}; asks {} whether a newer engine is there", fault_why_, names(asked_));
    case Stage::superseded: return "another engine holds the volume; keeps its clients";
    case Stage::ended: return "";
  }
  return "";
}

Status Machine::status() const {
  Status status;
  switch (stage_) {
    case Stage::standby: status.state = State::standby; break;
    case Stage::serving: status.state = gate_closed_since_ ? State::stalled : State::serving; break;
    case Stage::asking: status.state = State::stalled; break;
    case Stage::superseded: status.state = State::superseded; break;
    case Stage::ended: status.state = State::ended; break;
    default: status.state = State::starting;
  }
  status.detail = detail();
  status.epoch = config_.epoch;
  status.holding = config_.hold_when_superseded;
  status.forwards = forwards_.size();
  if (stage_ == Stage::standby) {
    status.standby =
        StandbyStatus{source_.link == Link::up, source_.config.address, source_.problem, wanted_};
  }
  status.frozen = (hold_ & (kHoldCommand | kHoldChain)) != 0;
  status.size = size_;
  status.membership = membership_;
  for (const Member& member : members_) {
    if (member.gone) continue;
    status.members.push_back({.config = member.config,
                              .mode = member.mode,
                              .connected = member.link == Link::up,
                              .leaving = member.leaving,
                              .problem = member.problem,
                              .stats = &member.stats});
  }
  status.chain = chain_;
  status.head_id = head_id_;
  status.resync_done_bytes = resync_.done_bytes;
  status.resync_total_bytes = resync_.total_bytes;
  status.operations = operations_.in_use() + held_requests_.size();
  status.dirty_regions = dirty_.count();
  if (proposal_) status.open_proposal = proposal_->proposal;
  status.stats = &stats_;
  return status;
}

}  // namespace moor::block::engine
