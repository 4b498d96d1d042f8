// The dirty-region log: a region that has been cold for a whole interval is synced on every member and then
// cleared on their logs, so that a crash has little to resync. Never while a member is away (its return needs
// the marks). And the end: drain, flush, clear, leave.
#include <cerrno>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {
constexpr std::size_t kClearBatch = 4096;
}

void Machine::clear_step() {
  if (stage_ != Stage::serving || config_.clear_interval.count() == 0 || now_ < clear_at_) return;
  clear_at_ = now_ + config_.clear_interval;
  if (clear_busy_ || !settled() || !all_rw() || shutting_down_ || !chain_jobs_.empty()) return;
  clearing_ = dirty_;
  clearing_.subtract(recent_);
  recent_.clear();
  operations_.each([this](const Operation& operation) {
    if (operation.kind == OpKind::client && operation.changes_data) {
      recent_.insert_range(operation.client.offset, operation.client.length);
    }
  });
  clearing_.subtract(recent_);
  if (clearing_.empty()) return;
  clear_busy_ = true;
  if (MOOR_PLANT("engine-clears-without-flush")) return begin_clear();
  flush_members(readers(), FlushFor::clearing);
}

void Machine::flush_members(MemberMask to, FlushFor purpose) {
  PeerRequest request;
  request.op = PeerOp::flush;
  broadcast(OpKind::flush_all, to, request).flush_for = purpose;
}

void Machine::complete_flush(Operation& operation) {
  if (stage_ != Stage::serving) return complete_start(operation);
  const FlushFor purpose = operation.flush_for;
  const MemberMask failed = operation.failed;
  const std::string why = "flush failed: " + operation.message;
  const bool none = (operation.succeeded & readers()) == 0;
  operations_.release(operation);
  if (!none) each(failed, [&](MemberIndex index) { lose(index, why); });
  if (stage_ != Stage::serving) return;
  switch (purpose) {
    case FlushFor::start: return;
    case FlushFor::chain: {
      ChainJob& job = chain_jobs_.front();
      job.stage = ChainStage::settling;
      if (!none) return;
      job.error = EIO;
      job.message = why;
      return end_chain_job();
    }
    case FlushFor::freeze:
      if (!freeze_command_) return;
      if (none) return thaw(why);
      command_done(*freeze_command_, 0);
      freeze_command_.reset();
      return;
    case FlushFor::clearing:
      // The flush counts only if it reached all of them, and none has been lost since.
      if (!none && failed == 0 && settled() && all_rw()) return begin_clear();
      clear_busy_ = false;
      return;
    case FlushFor::shutdown:
      shutdown_busy_ = false;
      shutdown_flushed_ = true;
      if (none || failed != 0 || !all_rw()) return;
      clearing_ = dirty_;
      return begin_clear();
  }
}

void Machine::begin_clear() {
  if (!MOOR_PLANT("engine-clears-recent")) clearing_.subtract(recent_);
  clear_busy_ = false;
  std::vector<std::uint64_t> regions = clearing_.list(shutting_down_ ? SIZE_MAX : kClearBatch);
  if (regions.empty()) return;
  PeerRequest request;
  request.op = PeerOp::clear_dirty;
  request.regions = regions;
  Operation& operation = broadcast(OpKind::clear_dirty, readers(), request);
  operation.regions = std::move(regions);
  operation.changes_data = true;
  clear_busy_ = true;
  // A write to one of them waits until all members have answered: it must mark the region again.
  operations_.order(operation);
  MOOR_ASSERT(operation.blockers == 0, "a region is cleared under a write");
}

void Machine::complete_clear(Operation& operation) {
  if (operation.failed == 0) {
    for (const std::uint64_t region : operation.regions) dirty_.erase(region);
    stats_.regions_cleared += operation.regions.size();
  }
  if (stage_ != Stage::serving) return complete_start(operation);
  clear_busy_ = false;
  freed_.clear();
  operations_.unorder(operation, freed_);
  runnable_.insert(runnable_.end(), freed_.begin(), freed_.end());
  const MemberMask failed = operation.failed;
  const std::string why = "cannot clear its dirty-region log: " + operation.message;
  operations_.release(operation);
  each(failed, [&](MemberIndex index) {
    if ((readers() & ~bit(index)) != 0) lose(index, why);
  });
}

void Machine::shutdown(std::uint64_t command, bool force) {
  shutdown_commands_.push_back(command);
  if (!force && stage_ == Stage::asking) return;  // the question is bounded and ends the engine
  // Clients that were held for a move learn that it is over: whoever waits for them could wait for ever.
  if (stage_ == Stage::superseded) fail_clients(EIO);
  if (force || stage_ != Stage::serving) {
    return leave(force ? ExitReason::forced : ExitReason::drained, "asked to");
  }
  if (shutting_down_) return;
  shutting_down_ = true;
  note(false, "drains");
  if ((hold_ & kHoldCommand) != 0) thaw("the engine ends");
}

void Machine::shutdown_step() {
  if (!shutting_down_ || stage_ != Stage::serving || shutdown_busy_ || clear_busy_) return;
  if (operations_.in_use() != 0 || !held_requests_.empty() || !chain_jobs_.empty() || !settled()) return;
  if (shutdown_flushed_) return leave(ExitReason::drained, "asked to");
  shutdown_busy_ = true;
  recent_.clear();  // nothing is in flight and nothing more is admitted
  flush_members(writers(), FlushFor::shutdown);
}

void Machine::leave(ExitReason reason, std::string message) {
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    if (members_[i].link == Link::up && reason == ExitReason::drained) {
      PeerRequest request;
      request.op = PeerOp::disconnect;
      send(i, std::move(request), {});
    }
    disconnect(i, "the engine ends");
  }
  drop_source("the engine ends");
  end_forwards(PeerRefusal::shutting_down, message);
  for (const std::uint64_t command : shutdown_commands_) command_done(command, 0);
  act(EndSessions{});
  act(Exit{reason, std::move(message)});
  stage_ = Stage::ended;
}

}  // namespace moor::block::engine
