// Connections to the members, and what happens when one is lost.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {

// These words mean that a newer engine has been here: there is nothing to wait for.
bool means_superseded(PeerRefusal reason) {
  return reason == PeerRefusal::superseded || reason == PeerRefusal::old_epoch ||
         reason == PeerRefusal::other_engine || reason == PeerRefusal::old_session;
}

std::string text_of(PeerRefusal reason, const std::string& message) {
  if (!message.empty()) return message;
  switch (reason) {
    case PeerRefusal::none: return "connection lost";
    case PeerRefusal::wrong_token: return "wrong token";
    case PeerRefusal::wrong_volume: return "another volume";
    case PeerRefusal::old_epoch: return "a newer epoch is in force";
    case PeerRefusal::other_engine: return "another engine has this epoch";
    case PeerRefusal::old_session: return "a newer session is in force";
    case PeerRefusal::superseded: return "superseded";
    case PeerRefusal::damaged: return "damaged";
    case PeerRefusal::shutting_down: return "shutting down";
  }
  return "refused";
}

}  // namespace

bool Machine::current(MemberIndex member, SessionId session) const {
  return member < members_.size() && members_[member].session == session &&
         members_[member].link != Link::none;
}

void Machine::connect(MemberIndex index) {
  Member& member = members_[index];
  MOOR_ASSERT(member.link == Link::none);
  ++member.session;
  ++member.stats.sessions;
  member.link = Link::connecting;
  member.connect_since = now_;
  act(Connect{index, hello(member.session, HelloMode::active)});
}

Hello Machine::hello(SessionId session, HelloMode mode) const {
  Hello hello;
  hello.volume = config_.volume;
  hello.epoch = config_.epoch;
  hello.engine = config_.engine;
  hello.session = session;
  hello.mode = mode;
  hello.token = config_.token;
  return hello;
}

void Machine::disconnect(MemberIndex index, std::string problem) {
  Member& member = members_[index];
  member.problem = std::move(problem);
  if (member.link == Link::none) return;
  member.link = Link::none;
  member.retry_at = now_ + config_.retry_delay;
  act(Disconnect{index, member.session});
}

void Machine::handle(PeerConnected&& event) {
  if (event.member == kSourceLink) return source_connected(std::move(event));
  if (!current(event.member, event.session)) return;
  Member& member = members_[event.member];
  if (member.link != Link::connecting) return;
  if (stage_ == Stage::asking) return answered(event.member, "no newer engine has been there");
  member.link = Link::up;
  member.problem.clear();
  member.answer = std::move(event.answer);
  // Our own mark of an earlier connection in this start proves nothing that was not known before.
  if (!member.first_served) member.first_served = member.answer.served;
  if (member.answer.served == config_.epoch) member.answer.served = *member.first_served;
  if (stage_ != Stage::serving) return member_answered(event.member);
  MOOR_ASSERT(member.joining);
  if (member.answer.size != size_) {
    return lose(event.member, fmt::format("it has {} bytes, the volume {}", member.answer.size, size_));
  }
  PeerRequest request;
  request.op = PeerOp::set_rebuilding;
  request.argument = 1;
  broadcast(OpKind::set_rebuilding, bit(event.member), request);
}

void Machine::handle(PeerRefused&& event) {
  if (event.member == kSourceLink) return source_refused(event);
  if (!current(event.member, event.session)) return;
  if (means_superseded(event.reason)) {
    return become_superseded(
        fmt::format("{}: {}", members_[event.member].config.name, text_of(event.reason, event.message)));
  }
  if (stage_ == Stage::asking) return answered(event.member, text_of(event.reason, event.message));
  if (stage_ == Stage::serving) return lose(event.member, text_of(event.reason, event.message));
  disconnect(event.member, event.message.empty() ? "cannot be reached" : event.message);
}

void Machine::handle(PeerLost&& event) {
  if (event.member == kSourceLink) return source_lost(event);
  if (!current(event.member, event.session)) return;
  if (means_superseded(event.reason)) {
    if (MOOR_PLANT("engine-superseded-goes-on")) {
      disconnect(event.member, "fenced");
      return forget_outstanding(event.member);
    }
    return become_superseded(
        fmt::format("{}: {}", members_[event.member].config.name, text_of(event.reason, event.message)));
  }
  if (stage_ == Stage::asking) return answered(event.member, text_of(event.reason, event.message));
  members_[event.member].wordless = stage_ == Stage::serving && event.reason == PeerRefusal::none;
  lose(event.member, text_of(event.reason, event.message));
}

void Machine::forget_outstanding(MemberIndex index) {
  const MemberMask mask = bit(index);
  operations_.each([&](Operation& operation) {
    if ((operation.outstanding & mask) == 0) return;
    operation.outstanding &= ~mask;
    if (operation.outstanding == 0) completed_.push_back(&operation);
  });
  members_[index].reads_in_flight = 0;
}

void Machine::lose(MemberIndex index, const std::string& why) {
  if (stage_ == Stage::asking) return;  // the rest of a loop that lost the last RW member
  if (stage_ != Stage::serving) return lose_in_start(index, why, false);
  Member& member = members_[index];
  if (member.leaving || member.gone) return;
  disconnect(index, why);
  if (resync_.active && ((resync_.targets | bit(resync_.source)) & bit(index)) != 0) resync_.broken = true;
  forget_outstanding(index);
  if (member.joining) {  // never was in the Grant: nothing depends on it
    member.gone = true;
    if (member.add_command)
      command_done(*member.add_command, EIO, fmt::format("{}: {}", member.config.name, why));
    member.add_command.reset();
    return;
  }
  if (member.mode == MemberMode::err) return;
  if (member.mode == MemberMode::rw && readers() == 0 && !MOOR_PLANT("engine-last-member-out")) {
    return ask(fmt::format("the last RW member {} is lost: {}", member.config.name, why));
  }
  note(true, fmt::format("member {} is lost: {}", member.config.name, why));
  member.leaving = !MOOR_PLANT("engine-loss-not-proposed");
  close_gate();
}

void Machine::connect_due() {
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (stage_ == Stage::gathering && member.link == Link::none && awaited(member) &&
        now_ >= member.retry_at) {
      connect(i);
    }
  }
}

// A connection that is open and silent is as good as lost, but only where going on without it is possible:
// the last RW member is waited for without limit.
void Machine::check_timeouts() {
  if (config_.peer_timeout.count() == 0) return;
  MemberMask silent = 0;
  operations_.each([&](const Operation& operation) {
    if (operation.kind == OpKind::chain_change) return;  // a purge may take its time
    if (operation.outstanding != 0 && now_ - operation.sent >= config_.peer_timeout)
      silent |= operation.outstanding;
  });
  const std::string why = fmt::format("no answer for {} s", config_.peer_timeout / std::chrono::seconds(1));
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.link == Link::connecting && now_ - member.connect_since >= config_.peer_timeout) {
      if (member.joining) {
        lose(i, why);
      } else {
        disconnect(i, why);
      }
    } else if ((silent & bit(i)) != 0 && member.link == Link::up && (readers() & ~bit(i)) != 0) {
      lose(i, why);
    }
  }
}

MemberMask Machine::readers() const {
  MemberMask mask = 0;
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const bool in_step = member.mode == MemberMode::rw || MOOR_PLANT("engine-wo-is-rw");
    if (member.link == Link::up && in_step && !member.leaving) mask |= bit(i);
  }
  return mask;
}

MemberMask Machine::writers() const {
  MemberMask mask = readers();
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.link == Link::up && member.mode == MemberMode::wo && !member.leaving && !member.joining) {
      mask |= bit(i);
    }
  }
  return mask;
}

bool Machine::all_rw() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.gone || (member.mode == MemberMode::rw && !member.leaving && member.link == Link::up);
  });
}

void Machine::send(MemberIndex index, PeerRequest request, Slice payload) {
  act(SendPeer{index, members_[index].session, std::move(request), std::move(payload)});
}

Operation& Machine::broadcast(OpKind kind, MemberMask to, const PeerRequest& request) {
  MOOR_ASSERT(to != 0);
  Operation& operation = operations_.open(kind, now_);
  operation.outstanding = to;
  operation.dispatched = true;
  operation.sent = now_;
  each(to, [&](MemberIndex index) {
    PeerRequest copy = request;
    copy.id = operation.id;
    send(index, std::move(copy), {});
  });
  return operation;
}

std::string Machine::names(MemberMask mask) const {
  std::string text;
  each(mask, [&](MemberIndex index) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", members_[index].config.name);
  });
  return text;
}

}  // namespace moor::block::engine
