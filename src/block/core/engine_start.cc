// The start rule, stage by stage: gather answers, commit what they mean, store the generation, repair the
// chain, resync, flush, clear the log, mark as served, serve. A member lost on the way sends us back to
// gathering, but only after everything that is in flight has ended: a late resync write must not meet the
// next resync.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {
// A member that keeps failing while we start is no longer given a whole new window each time.
constexpr std::uint32_t kPatientLosses = 3;

double milliseconds(Instant time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string_view word_of(Stage stage) {
  switch (stage) {
    case Stage::gathering: return "answers";
    case Stage::committing: return "record";
    case Stage::storing: return "generation";
    case Stage::repairing: return "chain";
    case Stage::resyncing: return "resync";
    case Stage::flushing: return "flush";
    case Stage::clearing: return "clear";
    case Stage::marking: return "mark";
    default: return "other";
  }
}
}  // namespace

void Machine::begin_start() {
  stage_ = Stage::gathering;
  start_since_ = stage_since_ = now_;
  start_times_.clear();
  gather_deadline_ = now_ + config_.start_wait;
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    if (awaited(members_[i]) && members_[i].link == Link::none) connect(i);
  }
}

bool Machine::awaited(const Member& member) const {
  if (member.gone || member.given_up) return false;
  return config_.in_sync == InSync::highest_generation || member.mode == MemberMode::rw;
}

void Machine::member_answered(MemberIndex index) {
  if (nobody_yet_ && overdue_) gather_deadline_ = now_ + config_.start_wait;
  nobody_yet_ = false;
  // Until the start is complete the union only grows (decision 0100): its reporter may be lost after its
  // regions were copied to a member that had answered clean.
  start_wrote_ = std::max(start_wrote_, members_[index].answer.wrote);
  const std::vector<std::uint64_t>& dirty = members_[index].answer.dirty;
  if (!MOOR_PLANT("engine-forgets-union"))
    start_dirty_.insert(start_dirty_.end(), dirty.begin(), dirty.end());
  std::sort(start_dirty_.begin(), start_dirty_.end());
  start_dirty_.erase(std::unique(start_dirty_.begin(), start_dirty_.end()), start_dirty_.end());
  // It was out while the others went on: what it says may change who is the source.
  if (stage_ != Stage::gathering) {
    note(false, fmt::format("{} has answered late", members_[index].config.name));
    stage_ = Stage::gathering;
  }
}

void Machine::lose_in_start(MemberIndex index, const std::string& why, bool give_up) {
  Member& member = members_[index];
  note(true, fmt::format("member {} is lost during the start: {}", member.config.name, why));
  disconnect(index, why);
  forget_outstanding(index);
  member.given_up = member.given_up || give_up;
  if (resync_.active) resync_.broken = true;
  if (stage_ == Stage::superseded || stage_ == Stage::ended) return;
  if (++member.start_losses <= kPatientLosses && !give_up) {
    gather_deadline_ = std::max(gather_deadline_, now_ + config_.start_wait);
  }
  stage_ = Stage::gathering;
}

// Waits for all members whose nodes are Ready, up to the deadline; then for any.
bool Machine::window_complete() {
  bool any = false;
  bool missing = false;
  bool missing_expected = false;
  for (const Member& member : members_) {
    if (!awaited(member)) continue;
    if (member.link == Link::up) {
      any = true;
    } else {
      missing = true;
      missing_expected = missing_expected || member.config.expected;
    }
  }
  if (!any) {
    nobody_yet_ = true;
    if (now_ >= gather_deadline_) {
      if (!overdue_) note(true, "no RW member can be reached; the volume is faulted until one returns");
      overdue_ = true;
      gather_deadline_ = now_ + config_.start_wait;
    }
    return false;
  }
  const bool all_needed = config_.in_sync == InSync::highest_generation && !config_.accept_missing;
  if (all_needed) return !missing;
  return !missing_expected || now_ >= gather_deadline_;
}

std::size_t Machine::start_operations() const {
  return operations_.in_use() - operations_.count(OpKind::client) - operations_.count(OpKind::handover);
}

void Machine::start_step() {
  if (!begun_ || stage_ == Stage::superseded || stage_ == Stage::ended) return;
  if (stage_ == Stage::resyncing) pump_resync();
  if (start_operations() != 0) return;
  switch (stage_) {
    case Stage::gathering:
      resync_.active = false;
      if (!proposal_ && now_ >= propose_at_ && window_complete() && make_plan()) enter(Stage::committing);
      return;
    case Stage::committing: return;  // confirmed() goes on
    case Stage::storing: return enter(Stage::repairing);
    case Stage::repairing:
      if (operations_.count(OpKind::handover) == 0) enter(Stage::resyncing);
      return;
    case Stage::resyncing:
      // After a handover the regions stay dirty and are cleared later, as any others: clients wait for this
      // start.
      if (resync_done()) enter(by_handover_ ? Stage::marking : Stage::flushing);
      return;
    case Stage::flushing: return enter(Stage::clearing);
    case Stage::clearing: return enter(Stage::marking);
    case Stage::marking: return serve();
    default: return;
  }
}

bool Machine::make_plan() {
  std::vector<Candidate> candidates;
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.gone) continue;
    Candidate candidate{i, member.config.name, member.mode, member.config.local, std::nullopt};
    if (member.link == Link::up) candidate.answer = member.answer;
    candidates.push_back(std::move(candidate));
  }
  look_for_foreign_writes();
  plan_ = plan_start({membership_, config_.in_sync, candidates, config_.fresh_export_id, start_dirty_,
                      foreign_writes_ && membership_.export_id != config_.fresh_export_id});
  if (!plan_) {
    // Only members that are not in sync have answered. Using one of them needs a person (S36).
    if (!overdue_) note(true, "no member that is in sync has answered");
    overdue_ = true;
    gather_deadline_ = now_ + config_.start_wait;
    return false;
  }
  for (const std::string& reason : plan_->reasons) note(true, reason);
  return true;
}

void Machine::enter(Stage stage) {
  time_stage();
  stage_ = stage;
  PeerRequest request;
  switch (stage) {
    case Stage::committing: {
      MemberMask stay = 0;
      for (const MemberIndex index : plan_->stay) stay |= bit(index);
      for (MemberIndex i = 0; i < members_.size(); ++i) {
        if (members_[i].link != Link::none && (stay & bit(i)) == 0) disconnect(i, "not in sync at the start");
      }
      if (!plan_->change) return enter(Stage::storing);
      std::string reason = "start";
      for (const std::string& each_reason : plan_->reasons) reason += "; " + each_reason;
      return propose(plan_->next, std::move(reason));
    }
    case Stage::storing:
      request.op = PeerOp::store_generation;
      request.argument = membership_.generation;
      if (const MemberMask others = readers() & ~holders(membership_.generation);
          others != 0 && !MOOR_PLANT("engine-start-generation-not-told"))
        broadcast(OpKind::store_generation, others, request);
      return store_wrote();
    case Stage::repairing:
      for (const ChainRepair& repair : plan_->repairs) {
        request.op = repair.op;
        request.snapshot = repair.command;
        request.snapshot.generation = membership_.generation;
        note(false, fmt::format("{} catches up with snapshot {}", members_[repair.member].config.name,
                                repair.command.name));
        broadcast(OpKind::chain_repair, bit(repair.member), request);
      }
      return;
    case Stage::resyncing: return resync_for_start();
    case Stage::flushing: return flush_members(readers(), FlushFor::start);
    case Stage::clearing:
      if (plan_->resync.empty() || !all_rw()) return;
      request.op = PeerOp::clear_dirty;
      request.regions = plan_->resync;
      broadcast(OpKind::clear_dirty, readers(), request).regions = plan_->resync;
      return;
    case Stage::marking:
      request.op = PeerOp::mark_served;
      request.argument = config_.epoch;
      broadcast(OpKind::mark_served, readers(), request);
      return;
    default: return;
  }
}

void Machine::resync_for_start() {
  size_ = members_[plan_->source].answer.size;
  for (RegionSet* set : {&dirty_, &recent_, &clearing_}) set->resize(size_);
  std::vector<Extent> extents;
  for (const std::uint64_t region : plan_->resync) {
    dirty_.insert(region);
    const std::uint64_t begin = region * kRegionSize;
    if (begin < size_ && !MOOR_PLANT("engine-resync-skipped"))
      extents.push_back({begin, std::min(kRegionSize, size_ - begin)});
  }
  auto fewer = unsettled_extents();
  by_handover_ = fewer.has_value();
  if (fewer) extents = *std::move(fewer);
  begin_resync(plan_->source, readers() & ~bit(plan_->source), std::move(extents));
}

// Those that had this generation on disk when they answered.
MemberMask Machine::holders(Generation generation) const {
  MemberMask mask = 0;
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    if (members_[i].link == Link::up && members_[i].answer.generation == generation) mask |= bit(i);
  }
  return mask;
}

// Who holds what an epoch wrote says so: the member that has the mark may be lost, and a rollback would take
// the others for untouched.
void Machine::store_wrote() {
  PeerRequest request;
  request.op = PeerOp::store_wrote;
  request.argument = start_wrote_;
  MemberMask behind = 0;
  each(readers(), [&](MemberIndex index) {
    if (members_[index].answer.wrote < start_wrote_) behind |= bit(index);
  });
  if (behind != 0) broadcast(OpKind::mark_served, behind, request);
}

// Operations of the start that only succeed or fail.
void Machine::complete_start(Operation& operation) {
  const MemberMask failed = operation.failed;
  const std::string why = operation.message;
  operations_.release(operation);
  // Asked again it would fail again: what it cannot store or repair now needs a rebuild.
  each(failed, [&](MemberIndex index) { lose_in_start(index, why, true); });
  const bool none_left =
      std::none_of(members_.begin(), members_.end(), [this](const Member& m) { return awaited(m); });
  if (none_left) fault("every RW member failed during the start: " + why);
}

void Machine::time_stage() {
  if (start_times_.size() > 400) start_times_ = "…";  // it begins again and again; the last times are of use
  start_times_ += fmt::format("{}{} {:.1f}", start_times_.empty() ? "" : ", ", word_of(stage_),
                              milliseconds(now_ - stage_since_));
  stage_since_ = now_;
}

void Machine::serve() {
  const MemberMask rw = readers();
  MOOR_ASSERT(rw != 0 && !proposal_);
  resync_.active = false;
  start_dirty_ = {};
  held_under_ = 0xff;
  clear_at_ = now_ + config_.clear_interval;
  PeerRequest request;
  request.op = PeerOp::chain;  // as it is after the repairs
  broadcast(OpKind::chain_state, bit(plan_->source), request);
  chain_ = members_[plan_->source].answer.chain;
  head_id_ = members_[plan_->source].answer.head_id;
  time_stage();
  note(false, fmt::format("serves {} bytes from {} at generation {}, after {:.1f} ms ({})", size_, names(rw),
                          membership_.generation, milliseconds(now_ - start_since_), start_times_));
  handed_over_.reset();
  stage_ = Stage::serving;
  last_served_ = config_.epoch;
  const bool missed = std::exchange(foreign_writes_, false);
  // Who opened another life of the volume must open it again: its cache, and what it would send again, are
  // of a past that did not come to be, or that went on without it.
  if (told_ && (told_->export_id != membership_.export_id || told_->size > size_)) {
    fail_clients(EIO);
    act(EndSessions{true});
  }
  told_ = Serve{membership_.export_id, size_, fresh_export_, missed, false};
  act(*told_);
  resend();
}

}  // namespace moor::block::engine
