// A commit is one etcd transaction: every compare, an existence check for what is removed, the writes in
// order and the record of the transaction. It is sent once, and again only when it is certain that the last
// try had no effect.
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/assert.h"
#include "store/etcd/core.h"

namespace moor::store::etcd {
namespace {
// Below etcd's --max-request-bytes of 1.5 MiB. What is left is for the frame around the request.
constexpr std::size_t kRequestBytes = (1536u << 10) - (16u << 10);
// Tags and lengths of one condition or change, at most; kMaxTransactionBytes and this stay below the limit
// together.
constexpr std::size_t kItemBytes = 64;

// All that must hold: the compares, then the existence of what is removed (store.h: a removed key must
// exist).
std::vector<Compare> checks_of(const Transaction& transaction) {
  std::vector<Compare> checks = transaction.compares;
  std::set<std::string_view> existing;
  for (const Compare& compare : transaction.compares) {
    if (compare.kind != Compare::Kind::absent) existing.insert(compare.key);
  }
  for (const Write& write : transaction.writes) {
    if (write.value == nullptr && existing.count(write.key) == 0)
      checks.push_back(Compare::exists(write.key));
  }
  return checks;
}

void add_conditions(const Layout& layout, const Compare& check, bool with_index, CommitCall& call) {
  const std::string key = layout.data(check.key);
  switch (check.kind) {
    case Compare::Kind::absent:
      call.conditions.push_back({Condition::Kind::mod_equals, key, 0, ""});
      return;
    case Compare::Kind::exists:
      call.conditions.push_back({Condition::Kind::exists, key, 0, ""});
      return;
    case Compare::Kind::at:
      // A key is written once per transaction, so etcd's revision names the value. The index still has to be
      // the right one: a revision taken from another key of that transaction is not the revision of this one.
      call.conditions.push_back({Condition::Kind::mod_equals, key, etcd_revision(check.revision), ""});
      if (with_index) {
        IndexBounds bounds = index_bounds(index_of(check.revision));
        call.conditions.push_back({Condition::Kind::value_greater, key, 0, std::move(bounds.greater_than)});
        call.conditions.push_back({Condition::Kind::value_less, key, 0, std::move(bounds.less_than)});
      }
      return;
  }
}

CommitCall to_call(const Layout& layout, const Transaction& transaction, const std::vector<Compare>& checks,
                   bool with_index) {
  CommitCall call;
  for (const Compare& check : checks) add_conditions(layout, check, with_index, call);
  for (std::size_t i = 0; i < transaction.writes.size(); ++i) {
    const Write& write = transaction.writes[i];
    Change change{layout.data(write.key), std::nullopt, write.lease};
    if (write.value != nullptr) change.value = encode_value(static_cast<std::uint32_t>(i), *write.value);
    call.changes.push_back(std::move(change));
  }
  call.changes.push_back({layout.last_transaction(), encode_transaction(transaction.writes.size()), 0});
  return call;
}

std::size_t size_of(const CommitCall& call) {
  std::size_t bytes = 0;
  for (const Condition& condition : call.conditions)
    bytes += condition.key.size() + condition.value.size() + kItemBytes;
  for (const Change& change : call.changes)
    bytes += change.key.size() + (change.value ? change.value->size() : 0) + kItemBytes;
  return bytes;
}

Task<Result<Revision>> revision_at(CorePtr core, std::string key, EtcdRevision at) {
  RangeCall range;
  range.key = core->layout.data(key);
  const std::vector<RangeCall> ranges{range};
  CO_TRY(const Snapshot snapshot, co_await read(core, ranges, at));
  if (snapshot.ranges.front().kvs.empty()) co_return Revision{0};
  CO_TRY(const Entry entry, to_entry(core->layout, snapshot.ranges.front().kvs.front()));
  co_return entry.revision;
}

bool fits(const CommitCall& call) {
  return call.conditions.size() <= kMaxOperations && size_of(call) <= kRequestBytes;
}

// For a transaction whose index conditions would pass etcd's limits. Which index a key has at an etcd
// revision never changes, so it may be looked up before the commit, which then needs to compare etcd's
// revision alone.
Task<Result<void>> check_indexes(CorePtr core, std::vector<Compare> checks) {
  for (const Compare& check : checks) {
    if (check.kind != Compare::Kind::at) continue;
    CO_TRY(const Revision found, co_await revision_at(core, check.key, 0));
    if (!holds(check, found)) co_return compare_error(check, found);
  }
  co_return Result<void>();
}

// For more checks than etcd takes. One condition stands for the existence of many keys: that no transaction
// has been committed since they were seen. Only a lease can take a key away besides, so leased keys keep a
// condition each.
Task<Result<CommitCall>> guard_existence(CorePtr core, CommitCall call) {
  std::vector<RangeCall> ranges;
  for (const Condition& condition : call.conditions) {
    if (condition.kind != Condition::Kind::exists || ranges.size() == kMaxCompares) continue;
    RangeCall range;
    range.key = condition.key;
    range.keys_only = true;
    ranges.push_back(std::move(range));
  }
  CO_TRY(const Snapshot seen, co_await read(core, std::move(ranges)));
  std::set<std::string> safe;
  for (const RangeAnswer& answer : seen.ranges) {
    // A key that is missing keeps its condition too, which then fails.
    if (!answer.kvs.empty() && answer.kvs.front().lease == 0) safe.insert(answer.kvs.front().key);
  }
  std::erase_if(call.conditions, [&](const Condition& condition) {
    return condition.kind == Condition::Kind::exists && safe.count(condition.key) != 0;
  });
  call.conditions.push_back(
      {Condition::Kind::mod_equals, core->layout.last_transaction(), seen.transaction, ""});
  co_return call;
}

// etcd only says that some condition failed. The state in which it did is still there: look which.
Task<Result<Committed>> explain(CorePtr core, std::vector<Compare> checks, EtcdRevision at) {
  std::vector<EtcdRevision> found;
  for (std::size_t start = 0; start < checks.size(); start += kMaxCompares) {
    std::vector<RangeCall> ranges;
    for (std::size_t i = start; i < std::min(start + kMaxCompares, checks.size()); ++i) {
      RangeCall range;
      range.key = core->layout.data(checks[i].key);
      range.keys_only = true;
      ranges.push_back(std::move(range));
    }
    CO_TRY(const Snapshot snapshot, co_await read(core, std::move(ranges), at));
    for (const RangeAnswer& answer : snapshot.ranges)
      found.push_back(answer.kvs.empty() ? 0 : answer.kvs.front().mod_revision);
  }
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const Compare& check = checks[i];
    if (found[i] == 0) {
      if (!holds(check, 0)) co_return compare_error(check, 0);
      continue;
    }
    if (check.kind == Compare::Kind::exists) continue;
    CO_TRY(const Revision revision, co_await revision_at(core, check.key, at));
    if (!holds(check, revision)) co_return compare_error(check, revision);
  }
  co_return make_error(Errc::unavailable, "other transactions came in between: try again");
}

Task<Result<Committed>> refused(CorePtr core, std::vector<Compare> checks, EtcdRevision at) {
  auto result = co_await explain(core, std::move(checks), at);
  // Nothing was changed, whatever kept us from finding out why.
  if (result.is(Errc::expired))
    co_return make_error(Errc::conflict,
                         "a compare failed, and the state in which it did is compacted already");
  if (result.is(Errc::timed_out))
    co_return make_error(Errc::unavailable, "a compare failed; which one: " + result.error().message);
  co_return result;
}

Committed to_committed(std::size_t writes, EtcdRevision revision) {
  Committed committed;
  for (std::size_t i = 0; i < writes; ++i)
    committed.revisions.push_back(make_revision(revision, static_cast<std::uint32_t>(i)));
  return committed;
}

// A call that waits for a connection until its time is up cannot say whether it was sent; a read can be
// repeated, so it looks for an endpoint that answers.
Task<Result<void>> find_connection(CorePtr core, Duration timeout) {
  auto answered = co_await read_call(core, {}, 0, timeout);
  if (!answered)
    co_return make_error(
        answered.error().error.code == Errc::timed_out ? Errc::unavailable : answered.error().error.code,
        "not sent: " + answered.error().error.message);
  co_return Result<void>();
}
}  // namespace

namespace {
// The call, small enough for etcd.
Task<Result<CommitCall>> make_call(CorePtr core, Transaction transaction, std::vector<Compare> checks) {
  CommitCall call = to_call(core->layout, transaction, checks, true);
  if (fits(call)) co_return call;
  CO_TRY_VOID(co_await check_indexes(core, checks));
  call = to_call(core->layout, transaction, checks, false);
  if (fits(call)) co_return call;
  CO_TRY(call, co_await guard_existence(core, std::move(call)));
  if (fits(call)) co_return call;
  co_return make_error(
      Errc::exhausted,
      fmt::format("a transaction in etcd has at most {} conditions on leased keys", kMaxOperations - 1));
}

Task<Result<Committed>> send(CorePtr core, CommitCall call, std::vector<Compare> checks, std::size_t writes,
                             Attempts* attempts) {
  while (true) {
    if (!core->link->is_connected()) {
      CO_TRY_VOID(co_await find_connection(core, attempts->remaining()));
    }
    auto answer = co_await core->link->commit(call, attempts->remaining());
    if (answer) {
      if (!answer->succeeded) co_return co_await refused(core, checks, answer->revision);
      core->note_health({});
      co_return to_committed(writes, answer->revision);
    }
    CallError failed = std::move(answer.error());
    if (failed.error.code == Errc::exhausted && failed.error.message.find("space") != std::string::npos)
      core->note_health(failed.error);
    if (!failed.not_applied)
      co_return make_error(Errc::timed_out, "it may or may not have been applied: " + failed.error.message);
    if (!failed.retry) co_return failed.error;
    const bool again = co_await attempts->pause();
    if (!again) co_return make_error(Errc::unavailable, "not applied: " + failed.error.message);
  }
}
}  // namespace

Task<Result<Committed>> commit(CorePtr core, Transaction transaction) {
  CO_TRY_VOID(validate(transaction));
  const std::vector<Compare> checks = checks_of(transaction);
  const std::size_t writes = transaction.writes.size();
  Attempts attempts(core, core->options.request_timeout);
  while (true) {
    CO_TRY(CommitCall call, co_await make_call(core, transaction, checks));
    const bool guarded =
        call.conditions.size() > 0 && call.conditions.back().key == core->layout.last_transaction();
    auto committed = co_await send(core, std::move(call), checks, writes, &attempts);
    // Only the guard failed: nothing was changed, look again.
    if (!guarded || !committed.is(Errc::unavailable)) co_return committed;
    const bool again = co_await attempts.pause();
    if (!again) co_return committed;
  }
}

}  // namespace moor::store::etcd
