#include "store/etcd/watch_decoder.h"

#include <fmt/format.h>

#include <optional>

namespace moor::store::etcd {

Result<void> WatchDecoder::add(WatchMessage message, std::vector<DecodedTransaction>& out) {
  for (RawEvent& event : message.events) {
    if (event.kv.mod_revision <= seen_) continue;
    if (!pending_.empty() && event.kv.mod_revision < pending_.front().kv.mod_revision)
      return make_error(Errc::internal, fmt::format("etcd sent revision {} after {}", event.kv.mod_revision,
                                                    pending_.front().kv.mod_revision));
    if (!pending_.empty() && event.kv.mod_revision > pending_.front().kv.mod_revision) TRY_VOID(finish(out));
    pending_.push_back(std::move(event));
  }
  if (!message.fragment && !pending_.empty()) TRY_VOID(finish(out));
  return {};
}

Result<void> WatchDecoder::finish(std::vector<DecodedTransaction>& out) {
  const EtcdRevision revision = pending_.front().kv.mod_revision;
  TRY(DecodedTransaction transaction, decode(revision));
  pending_.clear();
  seen_ = revision;
  out.push_back(std::move(transaction));
  return {};
}

Result<DecodedTransaction> WatchDecoder::decode(EtcdRevision revision) {
  DecodedTransaction result;
  std::optional<std::uint32_t> writes;
  std::optional<std::string> put_key;
  for (RawEvent& raw : pending_) {
    if (raw.kv.key == layout_.last_transaction() && raw.put) {
      TRY(writes, decode_transaction(raw.kv.key, raw.kv.value));
      continue;
    }
    const std::size_t index = result.events.size();
    if (index > kLastIndex)
      return make_error(Errc::expired,
                        fmt::format("more than {} keys left with one lease: list again", kLastIndex + 1));
    Event event;
    event.kind = raw.put ? Event::Kind::put : Event::Kind::remove;
    TRY(event.entry.key, layout_.key_of(raw.kv.key));
    event.entry.revision = make_revision(revision, static_cast<std::uint32_t>(index));
    if (raw.put) {
      put_key = raw.kv.key;
      TRY(StoredValue value, decode_value(raw.kv.key, raw.kv.value));
      if (value.index != index)
        return make_error(Errc::corrupt,
                          fmt::format("etcd key '{}' is write {} of its transaction but says {}", raw.kv.key,
                                      index, value.index));
      event.entry.value = make_value(std::move(value.bytes));
      event.entry.lease = raw.kv.lease;
    }
    result.events.push_back(std::move(event));
  }
  if (!writes && put_key) return foreign_error(*put_key);
  if (writes && result.events.size() != *writes)
    return make_error(Errc::corrupt, fmt::format("the transaction at etcd revision {} has {} writes, {} seen",
                                                 revision, *writes, result.events.size()));
  result.last = result.events.empty() ? make_revision(revision, 0) : result.events.back().entry.revision;
  return result;
}

}  // namespace moor::store::etcd
