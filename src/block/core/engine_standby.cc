// The destination of a move, before it is activated. Reads go to the active engine, which alone knows what is
// acknowledged; FLUSH is answered at once, as nothing was written here. The first change, or Activate, asks
// for the Grant; from then on everything is held until ActivateConfirm, which lets the link go and runs the
// start rule like any other start. A lost link never activates: reads wait.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

void Machine::begin_standby() {
  stage_ = Stage::standby;
  source_.config.name = kSourceName;
  source_.config.address = config_.source;
  connect_source();
}

void Machine::connect_source() {
  MOOR_ASSERT(source_.link == Link::none && stage_ == Stage::standby);
  ++source_.session;
  source_.link = Link::connecting;
  source_.connect_since = now_;
  act(Connect{kSourceLink, hello(source_.session, HelloMode::forward)});
}

// Reads that were under way wait for the next connection, or for the activation.
void Machine::drop_source(const std::string& why) {
  if (source_.link == Link::none) return;
  const bool was_up = source_.link == Link::up;
  source_.link = Link::none;
  source_.problem = why;
  const std::uint32_t doublings = std::min<std::uint32_t>(source_.failures++, 16);
  source_.retry_at = now_ + std::min(config_.retry_delay * (1u << doublings), config_.source_retry_limit);
  act(Disconnect{kSourceLink, source_.session});
  take_back_forwards();
  if (was_up && stage_ == Stage::standby) note(true, "the source is lost, reads wait: " + why);
}

void Machine::take_back_forwards() {
  std::vector<Operation*> found;
  operations_.each([&](Operation& operation) {
    const bool to_source = operation.kind == OpKind::forward || operation.kind == OpKind::source_state ||
                           operation.kind == OpKind::handover;
    if (to_source) found.push_back(&operation);
  });
  // The oldest last, so that it ends in front.
  std::sort(found.begin(), found.end(), [](const Operation* a, const Operation* b) {
    return std::pair(a->arrived, a->client.cookie) > std::pair(b->arrived, b->client.cookie);
  });
  for (Operation* operation : found) {
    if (operation->kind == OpKind::forward && operation->client.connection != 0) {
      held_requests_.push_front(std::move(operation->client));
    } else if (operation->kind == OpKind::forward) {
      payload_bytes_ -= held_bytes(operation->client);
    }
    operations_.release(*operation);
  }
}

void Machine::source_connected(PeerConnected&& event) {
  if (event.session != source_.session || source_.link != Link::connecting) return;
  source_.link = Link::up;
  source_.failures = 0;
  source_.problem.clear();
  source_.poll_at = now_ + config_.source_poll;
  const bool first = !told_;
  const bool other_life = told_ && (told_->export_id != event.export_id || told_->size > event.answer.size);
  size_ = event.answer.size;
  chain_ = std::move(event.answer.chain);
  head_id_ = std::move(event.answer.head_id);
  membership_.export_id = event.export_id;
  if (other_life) {
    note(true, "the source serves another life of the volume: clients must open it again");
    fail_clients(EIO);
    wanted_.reset();
    act(EndSessions{true});
  }
  if (first || other_life || told_->size != size_) {
    told_ = Serve{membership_.export_id, size_, false, false, true};
    act(*told_);
  }
  note(false, fmt::format("reads go through the source at {}", source_.config.address));
  forward_held();
}

void Machine::source_refused(const PeerRefused& event) {
  if (event.session != source_.session || source_.link != Link::connecting) return;
  drop_source(event.message.empty() ? "cannot be reached" : event.message);
}

void Machine::source_lost(const PeerLost& event) {
  if (event.session != source_.session || source_.link == Link::none) return;
  drop_source(event.message.empty() ? "connection lost" : event.message);
}

void Machine::source_replied(PeerReplied&& event) {
  if (event.session != source_.session || source_.link != Link::up) return;
  Operation* operation = operations_.find(event.reply.id);
  if (operation == nullptr || operation->outstanding != bit(kSourceLink)) return;
  if (operation->kind == OpKind::source_state) {
    if (event.reply.error != 0) return drop_source("the source ends");
    if (event.reply.state) {
      chain_ = std::move(event.reply.state->chain);
      head_id_ = std::move(event.reply.state->head_id);
    }
    return operations_.release(*operation);
  }
  if (operation->kind == OpKind::handover) {
    handed_over_ = std::move(event.reply.unsettled);
    return drop_source("activated");
  }
  // The source ends, or is full: that is no answer to what our client asked.
  if (event.reply.error == ESHUTDOWN || event.reply.error == ENOMEM) {
    return drop_source(event.reply.error == ESHUTDOWN ? "the source ends" : "the source is busy");
  }
  const ClientRequest& request = operation->client;
  OpStats& stats = stats_.ops[static_cast<std::size_t>(request.op)];
  stats.latency.add(now_ - operation->arrived);
  stats.bytes += event.reply.error == 0 ? request.length : 0;
  stats.errors += event.reply.error != 0 ? 1 : 0;
  payload_bytes_ -= held_bytes(request);
  reply(request, event.reply.error, std::move(event.payload), std::move(event.reply.extents));
  operations_.release(*operation);
}

void Machine::standby_request(ClientRequest request) {
  const std::uint32_t error = told_ ? refusal(request) : 0;
  if (error != 0) return reply(request, error);
  const bool flush = request.op == ClientOp::flush;
  if (!wanted_ && flush) return reply(request, 0);
  if (!flush && request.length == 0) return reply(request, 0);
  if (!wanted_ && !changes(request.op) && source_.link == Link::up) return forward(std::move(request));
  if (held_requests_.size() >= config_.max_operations) return reply(request, ENOMEM);
  const bool first_change = changes(request.op);
  payload_bytes_ += held_bytes(request);
  held_requests_.push_back(std::move(request));
  if (first_change) want_activation("a client writes");
}

void Machine::forward(ClientRequest request) {
  Operation& operation = operations_.open(OpKind::forward, now_);
  operation.client = std::move(request);
  operation.outstanding = bit(kSourceLink);
  operation.dispatched = true;
  operation.sent = now_;
  payload_bytes_ += held_bytes(operation.client);
  act(SendPeer{kSourceLink, source_.session, peer_request(operation), {}});
}

void Machine::forward_held() {
  if (wanted_) return;
  std::deque<ClientRequest> waiting = std::exchange(held_requests_, {});
  for (ClientRequest& request : waiting) {
    payload_bytes_ -= held_bytes(request);
    MOOR_ASSERT(!changes(request.op), "a change that does not want the activation");
    standby_request(std::move(request));
  }
}

void Machine::standby_tick() {
  if (source_.link == Link::none && now_ >= source_.retry_at) return connect_source();
  const Instant limit = config_.peer_timeout;
  if (source_.link == Link::connecting && limit.count() != 0 && now_ - source_.connect_since >= limit) {
    return drop_source("no answer to HELLO");
  }
  if (source_.link != Link::up) return;
  bool silent = false;
  operations_.each([&](const Operation& operation) {
    silent = silent || (limit.count() != 0 && operation.outstanding != 0 && now_ - operation.sent >= limit);
  });
  if (silent) return drop_source("no answer");
  if (now_ < source_.poll_at) return;
  source_.poll_at = now_ + config_.source_poll;
  if (operations_.count(OpKind::source_state) != 0) return;
  Operation& operation = operations_.open(OpKind::source_state, now_);
  operation.outstanding = bit(kSourceLink);
  operation.sent = now_;
  PeerRequest request;
  request.id = operation.id;
  request.op = PeerOp::chain;
  act(SendPeer{kSourceLink, source_.session, std::move(request), {}});
}

std::optional<Instant> Machine::standby_wake() const {
  const Instant soon = now_ + Instant(1);
  if (source_.link == Link::none) return std::max(source_.retry_at, soon);
  if (source_.link == Link::up) return std::max(source_.poll_at, soon);
  if (config_.peer_timeout.count() == 0) return std::nullopt;
  return std::max(source_.connect_since + config_.peer_timeout, soon);
}

void Machine::want_activation(std::string reason) {
  if (wanted_) return;
  note(false, "wants to be activated: " + reason);
  wanted_ = std::move(reason);
  act(WantActivation{config_.epoch, *wanted_});
}

bool Machine::standby_command(std::uint64_t id, Command& command) {
  if (std::get_if<Activate>(&command) != nullptr) {
    if (stage_ == Stage::standby) want_activation("asked to");
    // Asked of an engine that took over long ago: it has what it wants.
    const bool never = stage_ != Stage::standby && !activated_;
    command_done(id, never ? EINVAL : 0, never ? "this engine is no standby" : "");
  } else if (auto* confirm = std::get_if<ActivateConfirm>(&command)) {
    confirm_activation(id, *confirm);
  } else if (auto* refuse = std::get_if<ActivateRefuse>(&command)) {
    if (stage_ != Stage::standby) {
      command_done(id, ESTALE, "this engine is no standby, or has been activated");
      return true;
    }
    command_done(id, 0);
    note(true, "will not be activated: " + refuse->message);
    fail_clients(EIO);
    leave(ExitReason::refused, refuse->message);
  } else if (auto* update = std::get_if<StandbyUpdate>(&command)) {
    update_standby(id, *update);
  } else {
    return false;
  }
  return true;
}

// The epoch in the message counts: the Grant may have given another one than this process was started with.
void Machine::confirm_activation(std::uint64_t id, ActivateConfirm& confirm) {
  if (stage_ != Stage::standby) {
    const bool again = activated_ && confirm.epoch == config_.epoch;
    return command_done(id, again ? 0 : ESTALE, again ? "" : "no activation under that epoch waits here");
  }
  if (confirm.epoch < config_.epoch) {
    return command_done(id, ESTALE, fmt::format("this standby has epoch {} by now", config_.epoch));
  }
  if (!confirm.grant && !config_.by_hand) {
    return command_done(id, EINVAL, "the Grant's members and generation are missing");
  }
  if (confirm.grant) {
    if (const auto problem = cannot_adopt(*confirm.grant)) return command_done(id, EINVAL, *problem);
    adopt(*confirm.grant);
    config_.in_sync = InSync::grant;
  }
  use_epoch(confirm.epoch);
  stage_ = Stage::gathering;
  ask_for_handover();
  activated_ = true;
  wanted_.reset();
  note(false, fmt::format("is activated with epoch {}", config_.epoch));
  command_done(id, 0);
  begin_start();
}

// Asked before the members hear of us, so that the answer is there when they have stored our epoch. Without
// one the start compares every dirty region, which keeps clients waiting in proportion to what was written
// lately.
void Machine::ask_for_handover() {
  if (source_.link != Link::up) return drop_source("activated");
  take_back_forwards();
  handover_deadline_ = now_ + config_.handover_wait;
  Operation& operation = operations_.open(OpKind::handover, now_);
  operation.outstanding = bit(kSourceLink);
  operation.sent = now_;
  PeerRequest request;
  request.id = operation.id;
  request.op = PeerOp::unsettled;
  act(SendPeer{kSourceLink, source_.session, std::move(request), {}});
}

// What to compare at this start instead of dirty regions. Only where every member was served by the engine
// that said so, and none has to catch up with its chain: anything else was not its to know.
std::optional<std::vector<Extent>> Machine::unsettled_extents() const {
  if (!handed_over_ || !plan_->repairs.empty()) return std::nullopt;
  for (const MemberIndex index : plan_->stay) {
    if (members_[index].answer.served != handed_over_->served) return std::nullopt;
  }
  std::vector<Extent> extents;
  for (const Extent& extent : handed_over_->extents) {
    if (extent.end() > size_) return std::nullopt;
    const std::uint64_t begin = extent.offset / kBlockSize * kBlockSize;
    const std::uint64_t end = std::min((extent.end() + kBlockSize - 1) / kBlockSize * kBlockSize, size_);
    extents.push_back({begin, end - begin});
  }
  return extents;
}

void Machine::update_standby(std::uint64_t id, StandbyUpdate& update) {
  if (stage_ != Stage::standby) {
    return command_done(id, ESTALE, "this engine is no standby, or has been activated");
  }
  if (update.epoch != 0 && update.epoch < config_.epoch) {
    return command_done(id, ESTALE, fmt::format("this standby has epoch {} by now", config_.epoch));
  }
  const bool other_epoch = update.epoch != 0 && update.epoch != config_.epoch;
  if (update.epoch != 0) use_epoch(update.epoch);
  if (update.source) source_.config.address = *update.source;
  command_done(id, 0);
  // The source is another process, or will hear another epoch from us: either way a new connection.
  if (other_epoch || update.source) {
    drop_source("the source has changed");
    source_.failures = 0;
    source_.retry_at = now_;
    connect_source();
  }
  if (other_epoch && wanted_) act(WantActivation{config_.epoch, *wanted_});
}

void Machine::use_epoch(Epoch epoch) {
  if (epoch == config_.epoch) return;
  config_.epoch = epoch;
  config_.fresh_export_id = fmt::format("{}-{}", config_.volume, epoch);
}

}  // namespace moor::block::engine
