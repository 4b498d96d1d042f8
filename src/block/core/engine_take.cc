// The source of a move that is rolled back. While the move is recorded a superseded engine keeps its clients
// and their requests. TakeEpoch lets it go on under an epoch above all: the whole start rule, then every
// request without an acknowledgement goes to every member again, whatever they answered in the old epoch: a
// destination's resync may have undone it since. If anybody else has written meanwhile, or no member is
// continuous, the clients' sessions end under a new export id instead.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <set>

#include "base/assert.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

std::optional<std::string> Machine::cannot_adopt(const GrantView& grant) const {
  if (grant.generation < membership_.generation) {
    return fmt::format("generation {} is older than {}, which this engine has seen committed",
                       grant.generation, membership_.generation);
  }
  std::size_t known = members_.size();
  std::set<std::string> names;
  for (const MemberConfig& wanted : grant.members) {
    if (wanted.name.empty() || !names.insert(wanted.name).second) return "a member without a name of its own";
    const bool is_known = std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
      return !member.gone && member.config.name == wanted.name;
    });
    if (is_known) continue;
    if (wanted.address.empty()) return "the address of " + wanted.name + " is not known";
    ++known;
  }
  if (names.empty()) return "the Grant names no member";
  if (known > kMaxMembers) return fmt::format("this engine has had {} members", kMaxMembers);
  return std::nullopt;
}

void Machine::adopt(const GrantView& grant) {
  membership_.members.clear();
  membership_.generation = grant.generation;
  if (grant.export_id) membership_.export_id = *grant.export_id;
  for (Member& member : members_) {
    member.gone =
        member.gone || std::none_of(grant.members.begin(), grant.members.end(),
                                    [&](const MemberConfig& w) { return w.name == member.config.name; });
  }
  for (const MemberConfig& wanted : grant.members) {
    membership_.members[wanted.name] = wanted.mode;
    auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
      return !member.gone && member.config.name == wanted.name;
    });
    if (found == members_.end()) {
      members_.emplace_back().config = wanted;
      members_.back().mode = wanted.mode;
      continue;
    }
    found->mode = wanted.mode;
    if (wanted.address.empty()) continue;
    found->config = wanted;
  }
}

void Machine::hold_clients(std::uint64_t id, bool on) {
  config_.hold_when_superseded = on;
  command_done(id, 0);
  if (on || stage_ != Stage::superseded) return;
  fail_clients(EIO);
  leave(ExitReason::superseded, "not held any more");
}

void Machine::take_epoch(std::uint64_t id, TakeEpoch& take) {
  if (stage_ == Stage::standby) return command_done(id, EINVAL, "a standby takes epochs by standby.update");
  if (taken_ && take.epoch == config_.epoch) return command_done(id, 0);  // asked again
  if (take.epoch <= config_.epoch) {
    return command_done(id, ESTALE, fmt::format("epoch {} is not above {}", take.epoch, config_.epoch));
  }
  if (!shutdown_commands_.empty()) return command_done(id, EAGAIN, "the engine ends");
  if (take.grant) {
    if (const auto problem = cannot_adopt(*take.grant)) return command_done(id, EINVAL, *problem);
  } else if (!config_.by_hand) {
    return command_done(id, EINVAL, "the Grant's members and generation are missing");
  }
  command_done(id, 0);
  note(true, fmt::format("takes epoch {} after {}", take.epoch, config_.epoch));
  for (MemberIndex i = 0; i < members_.size(); ++i) disconnect(i, "a new epoch");
  drop_source("a new epoch");
  end_forwards(PeerRefusal::shutting_down, "the engine begins again");
  handed_over_.reset();
  abandon_jobs();
  forget_answers();
  config_.in_sync = take.grant ? InSync::grant : InSync::highest_generation;
  if (take.grant) adopt(*take.grant);
  for (Member& member : members_) {
    member.leaving = member.wordless = member.given_up = false;
    member.first_served.reset();
    member.start_losses = member.reads_in_flight = 0;
    member.retry_at = Instant(0);
  }
  if (last_served_ == 0) last_served_ = take.last_served;
  use_epoch(take.epoch);
  taken_ = true;
  overdue_ = fresh_export_ = false;
  nobody_yet_ = true;
  begin_start();
}

// Whatever this engine was about to do under the old epoch. A change of members that it had asked for is
// either in the Grant that came with the new epoch, or can never be committed: the Grant has moved on.
void Machine::abandon_jobs() {
  for (const ChainJob& job : chain_jobs_) command_done(job.command, EAGAIN, "the engine begins again");
  chain_jobs_.clear();
  if ((hold_ & kHoldCommand) != 0) thaw("the engine begins again");
  hold_ = 0;
  for (Member& member : members_) {
    if (member.add_command) command_done(*member.add_command, EAGAIN, "the engine begins again");
    if (member.remove_command) command_done(*member.remove_command, EAGAIN, "the engine begins again");
    member.add_command.reset();
    member.remove_command.reset();
    member.gone = member.gone || member.joining;
    member.joining = member.prepared = false;
  }
  proposal_.reset();
  propose_at_ = Instant(0);
  proposal_bumps_ = bump_wanted_ = storing_ = telling_ = polling_ = false;
  freeze_flushing_ = clear_busy_ = false;
  gate_closed_since_.reset();
  asked_ = 0;
  resync_ = Resync{};
  plan_.reset();
}

void Machine::forget_answers() {
  completed_.clear();
  runnable_.clear();
  parked_.clear();
  repairs_.clear();
  std::vector<Operation*> ours;
  operations_.each([&](Operation& operation) {
    if (operation.kind != OpKind::client) return ours.push_back(&operation);
    operation.outstanding = operation.succeeded = operation.failed = 0;
    operation.error = 0;
    operation.message.clear();
    operation.dispatched = operation.parked = false;
    operation.extents.clear();
    if (operation.client.op == ClientOp::read) operation.client.payload = {};
  });
  for (Operation* operation : ours) {
    freed_.clear();
    if (operation->ordered) operations_.unorder(*operation, freed_);
    operations_.release(*operation);
  }
}

// Serving begins: what came under an earlier epoch and has no answer. In its old order: what waited for
// another request still does.
void Machine::resend() {
  std::size_t again = 0;
  operations_.each([&](Operation& operation) {
    if (operation.kind != OpKind::client) return;
    MOOR_ASSERT(!operation.dispatched && operation.outstanding == 0);
    ++again;
    if (operation.changes_data) {
      recent_.insert_range(operation.client.offset, operation.client.length);
      dirty_.insert_range(operation.client.offset, operation.client.length);
    }
    if (operation.blockers == 0) runnable_.push_back(&operation);
  });
  if (again != 0) note(false, fmt::format("sends {} requests again", again));
}

// Not only under the destination's last epoch: it may have written, died and come back with another one.
void Machine::look_for_foreign_writes() {
  if (last_served_ == 0) return;
  for (const Member& member : members_) {
    if (member.gone || member.link != Link::up || member.answer.wrote <= last_served_) continue;
    if (foreign_writes_) continue;
    foreign_writes_ = true;
    note(true, fmt::format("{} was written to in epoch {}, after clients were last served in {}",
                           member.config.name, member.answer.wrote, last_served_));
  }
}

void Machine::fail_clients(std::uint32_t error) {
  std::vector<Operation*> clients;
  operations_.each([&](Operation& operation) {
    if (operation.kind == OpKind::client || operation.kind == OpKind::forward) clients.push_back(&operation);
  });
  for (Operation* operation : clients) {
    // A standby's read is not answered by our trouble: it asks again.
    const std::uint32_t reason = operation->client.forwarded ? ESHUTDOWN : error;
    if (operation->kind == OpKind::client) {
      finish(*operation, reason);
    } else {
      payload_bytes_ -= held_bytes(operation->client);
      reply(operation->client, reason);
      operations_.release(*operation);
    }
  }
  runnable_.clear();
  completed_.clear();
  parked_.clear();
  repairs_.clear();
  for (const ClientRequest& request : std::exchange(held_requests_, {})) {
    payload_bytes_ -= held_bytes(request);
    reply(request, request.forwarded ? ESHUTDOWN : error);
  }
}

}  // namespace moor::block::engine
