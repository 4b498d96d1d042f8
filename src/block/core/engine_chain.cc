// Snapshots and freezing. A change of the chain is one job at a time: stop admitting where bytes are
// concerned, drain, flush, tell every member, commit the generation, go on. A member that fails becomes ERR.
#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/assert.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {
constexpr std::size_t kMaxChainJobs = 64;
constexpr Instant kPurgePoll = std::chrono::milliseconds(200);
}  // namespace

void Machine::add_chain_job(std::uint64_t command, PeerOp op, SnapshotCommand snapshot) {
  if (chain_jobs_.size() >= kMaxChainJobs) {
    return command_done(command, EBUSY, fmt::format("{} snapshot operations are waiting", kMaxChainJobs));
  }
  ChainJob job;
  job.command = command;
  job.op = op;
  job.snapshot = std::move(snapshot);
  chain_jobs_.push_back(std::move(job));
}

// What every member would refuse is refused before anything is frozen for it.
bool Machine::check_chain_job(ChainJob& job) const {
  const auto layer = std::find_if(chain_.begin(), chain_.end(),
                                  [&](const Layer& l) { return l.snapshot == job.snapshot.name; });
  const bool found = layer != chain_.end();
  if (job.snapshot.name.empty()) {
    job.error = EINVAL;
    job.message = "a snapshot needs a name";
  } else if (job.op == PeerOp::snapshot_create) {
    job.error = found ? EEXIST : 0;
    job.message = found ? "there is a snapshot of that name" : "";
  } else if (!found) {
    job.error = ENOENT;
    job.message = "there is no snapshot of that name";
  } else if (job.op == PeerOp::snapshot_purge && !layer->removed) {
    job.error = EINVAL;
    job.message = "the snapshot is not marked removed";
  } else if (job.op == PeerOp::snapshot_revert && layer->removed) {
    job.error = EINVAL;
    job.message = "the snapshot is marked removed";
  }
  return job.error == 0;
}

// Epoch and count make them unique for the volume's life, and equal on all members.
void Machine::name_identities(ChainJob& job) {
  const auto identity = [&](std::string_view kind) {
    return fmt::format("{}{}.{}.{}", kind, config_.volume, config_.epoch, ++identities_);
  };
  if (job.op == PeerOp::snapshot_create) {
    job.snapshot.layer_id = identity(kSnapshotIdentity);
    job.snapshot.head_id = identity(kSnapshotIdentity);
  } else if (job.op == PeerOp::snapshot_purge) {
    job.snapshot.layer_id = identity(kPurgeIdentity);
  } else if (job.op == PeerOp::snapshot_revert) {
    job.snapshot.head_id = fmt::format("{}{}{}", identity(kRevertIdentity), kRevertTarget, job.snapshot.name);
  }
}

void Machine::chain_step() {
  if (stage_ != Stage::serving || chain_jobs_.empty()) return;
  ChainJob& job = chain_jobs_.front();
  switch (job.stage) {
    case ChainStage::waiting:
      if (!settled() || clear_busy_ || operations_.count(OpKind::chain_state) != 0) return;
      if (!check_chain_job(job)) return end_chain_job();
      name_identities(job);
      if (!job.freezes_writes()) return tell_members(job);
      hold_ |= kHoldChain | (job.freezes_reads() ? kHoldChainReads : 0);
      job.stage = ChainStage::draining;
      [[fallthrough]];
    case ChainStage::draining:
      if (changes_in_flight_ != 0 || !acknowledging()) return;
      if (job.freezes_reads() && operations_.count(OpKind::client) != 0) return;
      job.stage = ChainStage::flushing;
      flush_members(writers(), FlushFor::chain);
      return;
    case ChainStage::flushing: return;  // complete_flush() goes on
    case ChainStage::settling:
      if (settled()) tell_members(job);
      return;
    case ChainStage::telling: return;  // complete_chain_change() goes on
    case ChainStage::purging: return poll_purge(job);
    case ChainStage::committing:
      if (settled() && operations_.count(OpKind::chain_state) == 0) end_chain_job();
      return;
  }
}

void Machine::tell_members(ChainJob& job) {
  job.stage = ChainStage::telling;
  // A change under a freeze carries its generation, so that a crash in the middle leaves a trace of it. The
  // others may overlap with the loss of a member, which takes the next number, so they carry none; the
  // chain's new generation is committed when they are done.
  telling_ = job.freezes_writes();
  job.snapshot.generation = telling_ ? membership_.generation + 1 : 0;
  PeerRequest request;
  request.op = job.op;
  request.snapshot = job.snapshot;
  broadcast(OpKind::chain_change, writers(), request);
}

void Machine::complete_chain_change(Operation& operation) {
  MOOR_ASSERT(!chain_jobs_.empty() && chain_jobs_.front().stage == ChainStage::telling);
  ChainJob& job = chain_jobs_.front();
  const MemberMask done = operation.succeeded;
  const MemberMask failed = operation.failed;
  const std::string why = operation.message;
  job.error = operation.error;
  job.message = why;
  operations_.release(operation);
  telling_ = false;
  if ((done & readers()) == 0) {
    // Nobody did it, so nothing has changed; a WO member that did must not stay different.
    each(done, [&](MemberIndex index) { lose(index, "changed its chain alone"); });
    if (job.error == 0) job.error = EIO;
    return end_chain_job();
  }
  job.error = 0;
  job.message.clear();
  each(failed, [&](MemberIndex index) { lose(index, "snapshot operation failed: " + why); });
  if (stage_ != Stage::serving) return;
  if (job.op != PeerOp::snapshot_purge) return chain_changed(job);
  job.stage = ChainStage::purging;
  poll_at_ = now_;
}

// The generation says that the chain is another one; what it is now is asked, not computed.
void Machine::chain_changed(ChainJob& job) {
  bump_wanted_ = true;
  job.stage = ChainStage::committing;
  PeerRequest request;
  request.op = PeerOp::chain;
  broadcast(OpKind::chain_state, bit(static_cast<MemberIndex>(std::countr_zero(readers()))), request);
}

void Machine::poll_purge(ChainJob& job) {
  if (polling_) {
    if (operations_.count(OpKind::chain_state) != 0) return;
    polling_ = false;
    if (!purge_pending_) return chain_changed(job);
    poll_at_ = now_ + kPurgePoll;
  }
  if (now_ < poll_at_) return;
  polling_ = true;
  purge_pending_ = false;
  PeerRequest request;
  request.op = PeerOp::chain;
  each(writers(), [&](MemberIndex index) { broadcast(OpKind::chain_state, bit(index), request); });
}

void Machine::complete_chain_state(Operation& operation) {
  if (operation.state) {
    if (polling_ && !chain_jobs_.empty()) {
      const std::string& name = chain_jobs_.front().snapshot.name;
      purge_pending_ =
          purge_pending_ || std::any_of(operation.state->chain.begin(), operation.state->chain.end(),
                                        [&](const Layer& layer) { return layer.snapshot == name; });
    }
    chain_ = std::move(operation.state->chain);
    head_id_ = std::move(operation.state->head_id);
  } else if (operation.failed != 0) {
    purge_pending_ = true;
  }
  operations_.release(operation);
}

void Machine::end_chain_job() {
  const ChainJob job = std::move(chain_jobs_.front());
  chain_jobs_.pop_front();
  hold_ &= static_cast<std::uint8_t>(~(kHoldChain | kHoldChainReads));
  command_done(job.command, job.error, job.message);
}

void Machine::freeze(std::uint64_t command, Instant limit) {
  if ((hold_ & kHoldCommand) != 0) return command_done(command, EALREADY, "frozen already");
  hold_ |= kHoldCommand;
  freeze_command_ = command;
  freeze_flushing_ = false;
  freeze_deadline_ = now_ + (limit.count() > 0 ? limit : config_.freeze_limit);
}

void Machine::freeze_step() {
  if (stage_ != Stage::serving || !freeze_command_) return;
  if (now_ >= freeze_deadline_) return thaw("writes did not drain in time");
  if (freeze_flushing_ || changes_in_flight_ != 0 || !settled()) return;
  freeze_flushing_ = true;
  flush_members(writers(), FlushFor::freeze);
}

void Machine::thaw(std::string_view why) {
  hold_ &= static_cast<std::uint8_t>(~kHoldCommand);
  note(false, fmt::format("thawed: {}", why));
  if (freeze_command_) command_done(*freeze_command_, ETIMEDOUT, std::string(why));
  freeze_command_.reset();
}

}  // namespace moor::block::engine
