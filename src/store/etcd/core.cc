#include "store/etcd/core.h"

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;
constexpr Duration kFirstBackOff = 20ms;
constexpr Duration kLongestBackOff = 500ms;
constexpr Duration kShortestShare = 500ms;

Result<void> health_of(const CallResult<MemberStatus>& member) {
  if (!member) return make_error(Errc::unavailable, member.error().error.message);
  for (const std::string& alarm : member->alarms) {
    if (alarm.find("NOSPACE") != std::string::npos)
      return make_error(Errc::exhausted, "etcd has no space left: " + alarm);
    if (alarm.find("CORRUPT") != std::string::npos) return make_error(Errc::corrupt, "etcd: " + alarm);
  }
  return {};
}
}  // namespace

void Core::close() {
  if (std::exchange(closed, true)) return;
  executor.stop_timer(health_timer);
  while (!streams.empty()) (*streams.begin())->close();
  stopping.cancel(make_error(Errc::cancelled, "the store was closed"));
  link->close();
}

void Core::watch_health() {
  health_timer =
      executor.start_timer(executor.clock().now() + options.health_interval, [weak = weak_from_this()] {
        const auto core = weak.lock();
        if (core == nullptr || core->closed) return;
        core->link->check(core->layout.marker(), core->options.request_timeout,
                          [weak](const CallResult<MemberStatus>& member) {
                            const auto self = weak.lock();
                            if (self == nullptr || self->closed) return;
                            Result<void> health = health_of(member);
                            if (!health && self->ready.ok())
                              log_warn("etcd is not ready for writes", {{"reason", health.error()}});
                            self->note_health(std::move(health));
                            self->watch_health();
                          });
      });
}

Attempts::Attempts(const CorePtr& core, Duration total)
    : core_(core), deadline_(core->executor.clock().now() + total), back_off_(kFirstBackOff) {}

Duration Attempts::remaining() const {
  return std::max(deadline_ - core_->executor.clock().now(), Duration(1ms));
}

Duration Attempts::share() const {
  return std::min(remaining(), std::max(remaining() / 2, Duration(kShortestShare)));
}

Task<bool> Attempts::pause_if(bool sensible) {
  if (!sensible || core_->closed || core_->executor.clock().now() + back_off_ >= deadline_) co_return false;
  const auto slept = co_await sleep_for(core_->executor, back_off_, core_->stopping.token());
  back_off_ = std::min(back_off_ * 2, Duration(kLongestBackOff));
  co_return slept.ok();
}

Task<CallResult<Snapshot>> read_once(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at,
                                     Duration timeout) {
  for (RangeCall& range : ranges) range.revision = at;
  RangeCall last;
  last.key = core->layout.last_transaction();
  last.revision = at;
  ranges.push_back(std::move(last));
  const std::size_t asked = ranges.size();
  auto answer = co_await core->link->read(std::move(ranges), timeout);
  if (!answer) co_return tl::make_unexpected(std::move(answer.error()));
  if (answer->ranges.size() != asked)
    co_return tl::make_unexpected(CallError{
        make_error(Errc::internal, "etcd answered a part of what was asked"), true, false, false, 0});
  Snapshot snapshot;
  snapshot.etcd = answer->revision;
  if (!answer->ranges.back().kvs.empty()) {
    const Kv& kv = answer->ranges.back().kvs.front();
    auto writes = decode_transaction(kv.key, kv.value);
    if (!writes) co_return tl::make_unexpected(CallError{writes.error(), true, false, false, 0});
    snapshot.transaction = kv.mod_revision;
    snapshot.transaction_writes = *writes;
  }
  answer->ranges.pop_back();
  snapshot.ranges = std::move(answer->ranges);
  co_return snapshot;
}

Task<CallResult<Snapshot>> read_call(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at,
                                     Duration timeout) {
  Attempts attempts(core, timeout);
  while (true) {
    auto snapshot = co_await read_once(core, ranges, at, attempts.share());
    if (snapshot || !snapshot.error().retry) co_return snapshot;
    const bool again = co_await attempts.pause();
    if (!again) co_return snapshot;
  }
}

Task<Result<Snapshot>> read(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at) {
  auto snapshot = co_await read_call(core, std::move(ranges), at, core->options.request_timeout);
  if (!snapshot) co_return std::move(snapshot.error().error);
  co_return std::move(*snapshot);
}

Result<Entry> to_entry(const Layout& layout, const Kv& kv) {
  Entry entry;
  TRY(entry.key, layout.key_of(kv.key));
  TRY(StoredValue value, decode_value(kv.key, kv.value));
  entry.value = make_value(std::move(value.bytes));
  entry.revision = make_revision(kv.mod_revision, value.index);
  entry.lease = kv.lease;
  return entry;
}

}  // namespace moor::store::etcd
