// The degraded rule. From the loss of a member on the gate is closed: nothing is acknowledged until the Grant
// says ERR and every remaining RW member has stored the generation. One change at a time is proposed; what is
// lost meanwhile goes into the next one.
#include <fmt/format.h>
#include <cerrno>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

void Machine::close_gate() {
  if (gate_closed_since_ || MOOR_PLANT("engine-gate-stays-open")) return;
  gate_closed_since_ = now_;
  ++stats_.stalls;
}

void Machine::membership_step() {
  // While members are told a change with its generation, no other change may take that number.
  if (stage_ != Stage::serving || proposal_ || storing_ || telling_) return;
  Membership next = membership_;
  std::string reason;
  const auto because = [&](std::string text) { reason += (reason.empty() ? "" : "; ") + std::move(text); };
  for (const Member& member : members_) {
    if (member.gone) continue;
    if (member.remove_command && (member.leaving || member.mode == MemberMode::err)) {
      next.members.erase(member.config.name);
      because(member.config.name + " is removed");
    } else if (member.leaving) {
      next.members[member.config.name] = MemberMode::err;
      because(fmt::format("{} = ERR ({})", member.config.name, member.problem));
    } else if (member.joining && member.prepared) {
      next.members[member.config.name] = MemberMode::wo;
      because(member.config.name + " = WO");
    }
  }
  if (bump_wanted_) because("the snapshot chain has changed");
  if (!reason.empty()) {
    if (now_ < propose_at_) return;
    proposal_bumps_ = bump_wanted_;
    bump_wanted_ = false;
    next.generation = membership_.generation + 1;
    return propose(std::move(next), std::move(reason));
  }
  if (!gate_closed_since_) return;
  stats_.stall.add(now_ - *gate_closed_since_);
  gate_closed_since_.reset();
  for (Member& member : members_) member.wordless = false;
  note(false, fmt::format("goes on with {} at generation {}", names(writers()), membership_.generation));
}

void Machine::propose(Membership next, std::string reason) {
  MOOR_ASSERT(!proposal_ && next.generation > membership_.generation);
  proposal_ =
      Propose{++last_proposal_, membership_.generation, std::move(next), std::move(reason), config_.epoch};
  act(*proposal_);
}

void Machine::confirmed() {
  membership_ = std::move(proposal_->next);
  proposal_.reset();
  proposal_bumps_ = false;
  // From now on the Grant names who is in sync: a start that begins again goes by it.
  config_.in_sync = InSync::grant;
  fresh_export_ = fresh_export_ || membership_.export_id == config_.fresh_export_id;
  for (Member& member : members_) {
    if (member.gone) continue;
    const auto found = membership_.members.find(member.config.name);
    if (found == membership_.members.end()) {
      if (member.joining) continue;  // the proposal was made before it was prepared
      member.gone = true;
      member.leaving = false;
      if (member.remove_command) command_done(*member.remove_command, 0);
      continue;
    }
    if (member.mode != MemberMode::err && found->second == MemberMode::err) member.leaving = false;
    member.mode = found->second;
    if (member.joining) {
      member.joining = member.prepared = false;
      if (member.add_command) command_done(*member.add_command, 0);
      member.add_command.reset();
    }
  }
  if (stage_ == Stage::committing) return enter(Stage::storing);
  if (stage_ != Stage::serving || MOOR_PLANT("engine-generation-not-told")) return;
  PeerRequest request;
  request.op = PeerOp::store_generation;
  request.argument = membership_.generation;
  broadcast(OpKind::store_generation, readers(), request);
  storing_ = true;
}

void Machine::complete_store(Operation& operation) {
  if (stage_ != Stage::serving) return complete_start(operation);
  storing_ = false;
  const std::string why = "cannot store the generation: " + operation.message;
  const MemberMask failed = operation.failed;
  operations_.release(operation);
  each(failed, [&](MemberIndex index) { lose(index, why); });
}

void Machine::complete_set_rebuilding(Operation& operation) {
  const MemberMask failed = operation.failed;
  each(operation.succeeded, [&](MemberIndex index) { members_[index].prepared = !members_[index].gone; });
  const std::string why = operation.message;
  operations_.release(operation);
  each(failed, [&](MemberIndex index) { lose(index, why); });
}

void Machine::add_member(std::uint64_t command, AddMember add) {
  for (const Member& member : members_) {
    if (!member.gone && member.config.name == add.member.name) {
      return command_done(command, EEXIST, add.member.name + " is a member already");
    }
  }
  if (members_.size() >= kMaxMembers) {
    return command_done(command, ENOSPC, fmt::format("this engine has had {} members", kMaxMembers));
  }
  Member& member = members_.emplace_back();
  member.config = std::move(add.member);
  member.mode = MemberMode::wo;
  member.joining = true;
  member.add_command = command;
  connect(static_cast<MemberIndex>(members_.size() - 1));
}

// A connection that is being opened goes to the old place; one that is open needs no address.
void Machine::member_moved(std::uint64_t command, const MemberMoved& moved) {
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.gone || member.config.name != moved.name) continue;
    member.config.address = moved.address;
    if (stage_ == Stage::gathering && member.link == Link::connecting) disconnect(i, "it listens elsewhere");
    member.retry_at = now_;
    return command_done(command, 0);
  }
  command_done(command, ENOENT, moved.name + " is no member");
}

void Machine::remove_member(std::uint64_t command, const RemoveMember& remove) {
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.gone || member.config.name != remove.name) continue;
    if (member.remove_command) return command_done(command, EALREADY, remove.name + " is being removed");
    if ((readers() & ~bit(i)) == 0) {
      return command_done(command, EBUSY, remove.name + " is the last RW member");
    }
    member.remove_command = command;
    if (member.joining) command_done(command, 0);
    return lose(i, "removed");
  }
  command_done(command, ENOENT, remove.name + " is no member");
}

}  // namespace moor::block::engine
