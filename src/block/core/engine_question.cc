// The end of an engine that has lost its last RW member: is it a fault, or has a newer engine taken over? A
// replica that fences says so as it closes, but that word can get lost: it may not fit into the socket of an
// engine that was stopped, or a reset may drop it. So the members that went without a word are asked once
// more, with a HELLO of the same epoch. Meanwhile nothing is answered and nothing is sent; there is no way
// back to serving, and no second question.
#include <fmt/format.h>
#include <cerrno>

#include "base/assert.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

void Machine::ask(const std::string& why) {
  MemberMask wordless = 0;
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.wordless && !member.gone && member.link == Link::none) wordless |= bit(i);
  }
  if (wordless == 0) return fault(why);
  note(true, fmt::format("{}; asks {} whether a newer engine is there", why, names(wordless)));
  close_gate();
  stage_ = Stage::asking;
  asked_ = wordless;
  ask_deadline_ = now_ + config_.ask_wait;
  fault_why_ = why;
  each(wordless, [this](MemberIndex index) { connect(index); });
}

// Any end of a connection while asking that does not mean superseded. A member that took the HELLO is let go
// at once: it has been asked, not joined, and its answer says nothing about what it was served.
void Machine::answered(MemberIndex index, const std::string& what) {
  MOOR_ASSERT(stage_ == Stage::asking);
  disconnect(index, what);
  forget_outstanding(index);
  if ((asked_ & bit(index)) == 0) return;  // a WO member: it was not asked and decides nothing
  asked_ &= ~bit(index);
  note(false, fmt::format("{} was asked: {}", members_[index].config.name, what));
  if (asked_ == 0) fault(fault_why_);
}

void Machine::check_question() {
  if (now_ >= ask_deadline_) fault(fmt::format("{}; no answer from {}", fault_why_, names(asked_)));
}

// The last RW member holds the only copy that is known to be whole: it stays RW in the Grant, and the start
// rule decides what comes next.
void Machine::fault(const std::string& why) {
  note(true, why);
  operations_.each([&](Operation& operation) {
    // A standby's reads wait: whoever starts next will have the answer.
    if (operation.kind == OpKind::client && !operation.client.forwarded) reply(operation.client, EIO);
  });
  for (const ClientRequest& request : held_requests_) {
    if (!request.forwarded) reply(request, EIO);
  }
  leave(ExitReason::faulted, why);
}

void Machine::become_superseded(const std::string& why) {
  note(true, "superseded: " + why);
  for (MemberIndex i = 0; i < members_.size(); ++i) disconnect(i, "superseded");
  hand_over();
  stage_ = Stage::superseded;
  proposal_.reset();  // nobody will commit it; a controller that still saw it would answer it for ever
  if (!config_.hold_when_superseded) leave(ExitReason::superseded, why);
}

}  // namespace moor::block::engine
