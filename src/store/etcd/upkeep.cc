// Compaction, status and leases.
#include <fmt/format.h>

#include "store/etcd/core.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;

// The smallest etcd revision that can still be read. etcd does not tell it, so it is searched: it only grows,
// and nearly always the last one known is still right. About 40 reads at most.
Task<Result<EtcdRevision>> oldest_readable(CorePtr core) {
  CO_TRY(const Snapshot now, co_await read(core, {}));
  EtcdRevision low = std::max(core->compacted_at_least, core->created);
  EtcdRevision high = now.etcd;  // readable, at least when it was read
  bool first = true;
  while (low < high) {
    const EtcdRevision middle = first ? low : low + (high - low) / 2;
    first = false;
    auto snapshot = co_await read(core, {}, middle);
    if (snapshot)
      high = middle;
    else if (snapshot.is(Errc::expired))
      low = middle + 1;
    else
      co_return std::move(snapshot.error());
  }
  core->compacted_at_least = std::max(core->compacted_at_least, high);
  co_return high;
}

Task<Result<Revision>> compacted(CorePtr core) {
  CO_TRY(const EtcdRevision oldest, co_await oldest_readable(core));
  // Nothing of ours is gone when the state at the marker is still there.
  if (oldest <= core->created) co_return Revision{0};
  CO_TRY(const Snapshot snapshot, co_await read(core, {}, oldest));
  co_return snapshot.end_of(oldest);
}

// What etcd may forget so that everything from `revision` on stays: all of its own revision only if nothing
// of ours follows within it.
Task<Result<EtcdRevision>> compaction_target(CorePtr core, Revision revision) {
  CO_TRY(const Snapshot now, co_await read(core, {}));
  if (revision >= now.newest()) co_return now.etcd;
  const EtcdRevision at = etcd_revision(revision);
  if (at <= core->created) co_return EtcdRevision{0};
  CO_TRY(const Snapshot then, co_await read(core, {}, at));
  co_return revision >= then.end_of(at) ? at : at - 1;
}

Error unknown_outcome(const CallError& failed) {
  if (failed.not_applied) return failed.error;
  return make_error(Errc::timed_out, "it may or may not have been applied: " + failed.error.message);
}
}  // namespace

Task<Result<Revision>> compact(CorePtr core, Revision revision) {
  const auto target = co_await compaction_target(core, revision);
  if (!target && !target.is(Errc::expired)) co_return target.error();  // expired: it is compacted already
  if (target && *target > core->created) {
    Attempts attempts(core, core->options.request_timeout);
    while (true) {
      // Repeating it does no harm: the second time it is compacted already.
      auto done = co_await core->link->compact(*target, attempts.share());
      if (done || done.error().error.code == Errc::expired) break;
      const bool again = co_await attempts.pause_if(done.error().retry);
      if (!again) co_return unknown_outcome(done.error());
    }
    core->compacted_at_least = std::max(core->compacted_at_least, *target);
  }
  co_return co_await compacted(core);
}

namespace {
Task<CallResult<MemberStatus>> member_status(CorePtr core) {
  const Completion<CallResult<MemberStatus>> done(core->executor);
  core->link->check(core->layout.marker(), core->options.request_timeout,
                    [done](CallResult<MemberStatus> member) { done.set(std::move(member)); });
  co_return co_await done;
}
}  // namespace

Task<Result<StoreStatus>> status(CorePtr core) {
  RangeCall range;
  range.key = core->layout.data("");
  range.range_end = range_end_of(range.key);
  range.count_only = true;
  const std::vector<RangeCall> ranges{range};
  CO_TRY(const Snapshot now, co_await read(core, ranges));
  StoreStatus result;
  result.revision = now.newest();
  result.keys = static_cast<std::uint64_t>(now.ranges.front().count);
  CO_TRY(result.compacted, co_await compacted(core));
  Attempts attempts(core, core->options.request_timeout);
  while (true) {
    auto member = co_await member_status(core);
    if (member) {
      result.bytes = member->bytes;
      co_return result;
    }
    const bool again = co_await attempts.pause_if(member.error().retry);
    if (!again) co_return member.error().error;
  }
}

Task<Result<LeaseId>> grant_lease(CorePtr core, Duration time_to_live) {
  if (time_to_live < 1s) co_return make_error(Errc::invalid, "a lease lasts at least one second");
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time_to_live).count();
  Attempts attempts(core, core->options.request_timeout);
  while (true) {
    auto lease = co_await core->link->grant_lease(seconds, attempts.remaining());
    if (lease) co_return *lease;
    // A lease that was granted without our knowing ends by itself; yet the caller hears that this is
    // possible.
    const bool again = co_await attempts.pause_if(lease.error().not_applied && lease.error().retry);
    if (!again) co_return unknown_outcome(lease.error());
  }
}

Task<Result<void>> keep_alive(CorePtr core, LeaseId lease) {
  Attempts attempts(core, core->options.request_timeout);
  while (true) {
    auto alive = co_await core->link->keep_alive(lease, attempts.share());
    if (alive && *alive) co_return Result<void>();
    if (alive)
      co_return make_error(Errc::not_found, fmt::format("lease {} does not exist or has ended", lease));
    const bool again = co_await attempts.pause_if(alive.error().retry);
    if (!again) co_return alive.error().error;
  }
}

Task<Result<void>> revoke_lease(CorePtr core, LeaseId lease) {
  Attempts attempts(core, core->options.request_timeout);
  while (true) {
    auto revoked = co_await core->link->revoke_lease(lease, attempts.remaining());
    if (revoked) co_return Result<void>();
    const CallError& failed = revoked.error();
    if (failed.error.code == Errc::not_found)
      co_return make_error(Errc::not_found, fmt::format("lease {} does not exist or has ended", lease));
    const bool again = co_await attempts.pause_if(failed.not_applied && failed.retry);
    if (!again) co_return unknown_outcome(failed);
  }
}

}  // namespace moor::store::etcd
