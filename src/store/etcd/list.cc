// Reads. Pages of a list are read at one etcd revision, in parts small enough for one message. A state in the
// middle of a transaction does not exist in etcd; it is made from the state after it by undoing the later
// writes.
#include <algorithm>
#include <map>

#include "base/assert.h"
#include "store/etcd/core.h"

namespace moor::store::etcd {
namespace {
constexpr std::int64_t kFirstPart = 64;
constexpr std::int64_t kLargestPart = 2000;
constexpr std::size_t kPartBytes = 4u << 20;  // what a part should weigh

struct Slice {
  std::vector<Entry> entries;
  bool more = false;
  Snapshot first;  // of the first part
};

struct Span {
  std::string prefix;
  std::string after;
  std::size_t limit = 0;
};

// The next part is sized by the weight of this one.
std::int64_t next_part(std::int64_t part, const RangeAnswer& answer) {
  std::size_t bytes = 1;
  for (const Kv& kv : answer.kvs) bytes += kv.key.size() + kv.value.size();
  const auto fitting =
      static_cast<std::int64_t>(kPartBytes * std::max<std::size_t>(answer.kvs.size(), 1) / bytes);
  return std::clamp<std::int64_t>(fitting, 1, std::min(part * 4, kLargestPart));
}

// At etcd's revision `at`, or the newest when that is 0.
Task<Result<Slice>> read_slice(CorePtr core, Span span, EtcdRevision at) {
  Slice slice;
  RangeCall range;
  range.key = core->layout.data(span.after < span.prefix ? span.prefix : span.after + '\0');
  range.range_end = range_end_of(core->layout.data(span.prefix));
  std::int64_t part = kFirstPart;
  // `after` behind the whole prefix: nothing is left, and etcd takes an inverted range for an error.
  if (span.after >= span.prefix && range.key >= range.range_end)
    span.limit = kFirstPart, range.key = range.range_end;
  while (true) {
    const auto wanted = static_cast<std::int64_t>(span.limit - slice.entries.size());
    range.limit = span.limit == 0 ? part : std::min(part, wanted);
    const std::vector<RangeCall> ranges{range};
    auto snapshot = co_await read_call(core, ranges, at, core->options.request_timeout);
    if (!snapshot && snapshot.error().message_too_big && range.limit > 1) {
      part = range.limit / 2;
      continue;
    }
    if (!snapshot) co_return std::move(snapshot.error().error);
    if (at == 0) at = snapshot->etcd;
    const RangeAnswer& answer = snapshot->ranges.front();
    for (const Kv& kv : answer.kvs) {
      CO_TRY(Entry entry, to_entry(core->layout, kv));
      slice.entries.push_back(std::move(entry));
    }
    slice.more = answer.more;
    const bool full = span.limit != 0 && slice.entries.size() >= span.limit;
    const bool done = !answer.more || full || answer.kvs.empty();
    if (!done) {
      part = next_part(part, answer);
      range.key = answer.kvs.back().key + '\0';
    }
    if (slice.first.etcd == 0) slice.first = std::move(*snapshot);
    if (done) co_return slice;
  }
}

// What the keys written after `at`, in the transaction of etcd's revision of `at`, were before it.
using Undo = std::map<std::string, std::optional<Entry>>;

Task<Result<Undo>> later_writes(CorePtr core, Revision at) {
  Undo undo;
  CO_TRY(const auto stream, co_await watch(core, "", at));
  CO_TRY(const WatchBatch batch, co_await stream->next());
  for (const Event& event : batch.events) {
    if (etcd_revision(event.entry.revision) != etcd_revision(at)) break;
    RangeCall range;
    range.key = core->layout.data(event.entry.key);
    const std::vector<RangeCall> ranges{range};
    CO_TRY(const Snapshot before, co_await read(core, ranges, etcd_revision(at) - 1));
    auto& slot = undo[event.entry.key];
    if (!before.ranges.front().kvs.empty()) {
      CO_TRY(slot, to_entry(core->layout, before.ranges.front().kvs.front()));
    }
  }
  co_return undo;
}

// Whether etcd removed keys of ours by itself at this revision (a lease ended).
Task<Result<bool>> keys_left(CorePtr core, EtcdRevision at) {
  RangeCall range;
  range.key = core->layout.data("");
  range.range_end = range_end_of(range.key);
  range.count_only = true;
  const std::vector<RangeCall> ranges{range};
  CO_TRY(const Snapshot before, co_await read(core, ranges, at - 1));
  CO_TRY(const Snapshot after, co_await read(core, ranges, at));
  co_return before.ranges.front().count != after.ranges.front().count;
}

Task<Result<ListPage>> list_inside_transaction(CorePtr core, ListRequest request) {
  CO_TRY(Undo undo, co_await later_writes(core, request.revision));
  // Room for what the undoing takes away.
  const Span span{request.prefix, request.after, request.limit == 0 ? 0 : request.limit + undo.size()};
  CO_TRY(Slice slice, co_await read_slice(core, span, etcd_revision(request.revision)));
  std::map<std::string, Entry> entries;
  const std::string last = slice.entries.empty() ? "" : slice.entries.back().key;
  for (Entry& entry : slice.entries) entries.emplace(entry.key, std::move(entry));
  for (auto& [key, before] : undo) {
    entries.erase(key);
    const bool in_prefix = key.substr(0, request.prefix.size()) == request.prefix;
    const bool in_slice = key > request.after && (!slice.more || key <= last);
    if (before && in_prefix && in_slice) entries.emplace(key, std::move(*before));
  }
  ListPage page;
  page.revision = request.revision;
  page.more = slice.more;
  for (auto& [key, entry] : entries) {
    if (request.limit != 0 && page.entries.size() == request.limit) {
      page.more = true;
      break;
    }
    page.entries.push_back(std::move(entry));
  }
  co_return page;
}
}  // namespace

Task<Result<Read>> get(CorePtr core, std::string key) {
  RangeCall range;
  range.key = core->layout.data(key);
  const std::vector<RangeCall> ranges{range};
  CO_TRY(const Snapshot snapshot, co_await read(core, ranges));
  Read result;
  result.revision = snapshot.newest();
  if (!snapshot.ranges.front().kvs.empty()) {
    CO_TRY(result.entry, to_entry(core->layout, snapshot.ranges.front().kvs.front()));
  }
  co_return result;
}

Task<Result<ListPage>> list(CorePtr core, ListRequest request) {
  // Before its marker the store was empty: the state at the marker stands for all of them.
  EtcdRevision at = 0;
  if (request.revision != 0) at = std::max(etcd_revision(request.revision), core->created);
  const Span span{request.prefix, request.after, request.limit};
  CO_TRY(Slice slice, co_await read_slice(core, span, at));
  const Snapshot& first = slice.first;
  if (at != 0 && etcd_revision(request.revision) == at) {
    const Revision end = first.end_of(at);
    if (request.revision > end && at == first.etcd) co_return future_error(request.revision, end);
    bool inside = request.revision < end;
    if (inside && first.transaction != at) {
      CO_TRY(inside, co_await keys_left(core, at));
    }
    if (inside) co_return co_await list_inside_transaction(core, std::move(request));
  }
  ListPage page;
  page.entries = std::move(slice.entries);
  page.more = slice.more;
  page.revision = request.revision != 0 ? request.revision : first.newest();
  co_return page;
}

}  // namespace moor::store::etcd
