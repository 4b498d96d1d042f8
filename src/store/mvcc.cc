#include "store/mvcc.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/plant.h"

namespace moor::store {
namespace {
bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
}  // namespace

const Mvcc::Version* Mvcc::visible(const Chain& chain, Revision at) {
  for (auto version = chain.rbegin(); version != chain.rend(); ++version) {
    if (version->revision <= at) return &*version;
  }
  return nullptr;
}

Revision Mvcc::staged_revision(const Chain& chain) {
  return chain.empty() || chain.back().value == nullptr ? 0 : chain.back().revision;
}

void Mvcc::append(Keys::iterator key, Version version, Revision transaction) {
  Chain& chain = key->second;
  if (!chain.empty() && chain.back().lease != 0) {
    auto& keys = leased_[chain.back().lease];
    keys.erase(key->first);
    if (keys.empty()) leased_.erase(chain.back().lease);
  }
  if (version.lease != 0 && version.value != nullptr) leased_[version.lease][key->first] = version.revision;
  history_.push_back({version.revision, transaction, key});
  history_bytes_ += key->first.size() + (version.value == nullptr ? 0 : version.value->size());
  chain.push_back(std::move(version));
}

Mvcc::Keys::iterator Mvcc::place_of(std::string_view key) {
  const auto found = places_.find(key);
  return found == places_.end() ? keys_.end() : found->second;
}

Mvcc::Keys::const_iterator Mvcc::place_of(std::string_view key) const {
  const auto found = places_.find(key);
  return found == places_.end() ? keys_.end() : Keys::const_iterator(found->second);
}

Mvcc::Keys::iterator Mvcc::make_place(const std::string& key) {
  if (const auto found = place_of(key); found != keys_.end()) return found;
  const auto made = keys_.add(key, {});
  places_.emplace(made->first, made);
  return made;
}

void Mvcc::drop_place(Keys::iterator key) {
  places_.erase(key->first);
  keys_.erase(key);
}

Result<void> Mvcc::load(JournalContent content) {
  MOOR_ASSERT(keys_.empty() && next_ == 1, "load into a fresh map only");
  Revision last = 0;
  compacted_ = content.compacted;
  for (Record& record : content.records) {
    if (record.revision <= last || record.revision > content.revision || record.transaction < record.revision)
      return make_error(Errc::corrupt, fmt::format("record {} follows record {} (newest known: {})",
                                                   record.revision, last, content.revision));
    last = record.revision;
    if (auto good = validate_key(record.key); !good)
      return make_error(Errc::corrupt, "record with a bad key: " + good.error().message);
    const auto key = make_place(record.key);
    const bool was_live = !key->second.empty() && key->second.back().value != nullptr;
    const bool is_live = record.value != nullptr;
    append(key, {record.revision, std::move(record.value), record.lease}, record.transaction);
    live_ += static_cast<std::uint64_t>(is_live) - static_cast<std::uint64_t>(was_live);
  }
  published_ = content.revision;
  next_ = published_ + 1;
  return {};
}

Result<std::vector<Record>> Mvcc::stage(const Transaction& transaction) {
  TRY_VOID(validate(transaction));
  // Where the keys that are compared are: mostly they are also those that are written.
  std::vector<Keys::iterator> places;
  places.reserve(transaction.compares.size());
  for (const Compare& compare : transaction.compares) {
    const auto place = places.emplace_back(place_of(compare.key));
    const Revision found = place == keys_.end() ? 0 : staged_revision(place->second);
    if (!holds(compare, found) && !(MOOR_PLANT("store-compare-ignored") && found != 0))
      return compare_error(compare, found);
  }
  for (const Write& write : transaction.writes) {
    if (write.value != nullptr) continue;
    const auto found = place_of(write.key);
    if (found == keys_.end() || staged_revision(found->second) == 0)
      return compare_error(Compare::exists(write.key), 0);
  }
  std::vector<Record> records;
  records.reserve(transaction.writes.size());
  const Revision last = next_ + transaction.writes.size() - 1;
  for (std::size_t i = 0; i < transaction.writes.size(); ++i) {
    const Write& write = transaction.writes[i];
    const bool compared =
        i < places.size() && places[i] != keys_.end() && transaction.compares[i].key == write.key;
    const auto key = compared ? places[i] : make_place(write.key);
    const Revision revision = next_++;
    append(key, {revision, write.value, write.lease}, last);
    records.push_back({revision, last, write.key, write.value, write.lease});
  }
  return records;
}

void Mvcc::publish(Revision revision) {
  MOOR_ASSERT(revision >= published_ && revision < next_, "publish {} after {} with next {}", revision,
              published_, next_);
  // Walk back over what is newly visible; history is ascending, so it stands at the end.
  for (auto past = history_.rbegin(); past != history_.rend() && past->revision > published_; ++past) {
    if (past->revision > revision) continue;
    const Chain& chain = past->key->second;
    const Version* before = visible(chain, past->revision - 1);
    const bool was_live = before != nullptr && before->value != nullptr;
    const bool is_live = visible(chain, past->revision)->value != nullptr;
    live_ += static_cast<std::uint64_t>(is_live) - static_cast<std::uint64_t>(was_live);
  }
  published_ = revision;
}

void Mvcc::drop_staged() {
  while (!history_.empty() && history_.back().revision > published_) {
    const auto key = history_.back().key;
    Chain& chain = key->second;
    const Version dropped = std::move(chain.back());
    chain.pop_back();
    history_bytes_ -= key->first.size() + (dropped.value == nullptr ? 0 : dropped.value->size());
    history_.pop_back();
    if (dropped.lease != 0 && dropped.value != nullptr) {
      leased_[dropped.lease].erase(key->first);
      if (leased_[dropped.lease].empty()) leased_.erase(dropped.lease);
    }
    if (!chain.empty() && chain.back().lease != 0 && chain.back().value != nullptr)
      leased_[chain.back().lease][key->first] = chain.back().revision;
    if (chain.empty()) drop_place(key);
  }
}

std::optional<Entry> Mvcc::get(std::string_view key) const {
  const auto found = place_of(key);
  if (found == keys_.end()) return std::nullopt;
  const Version* version = visible(found->second, published_);
  if (version == nullptr || version->value == nullptr) return std::nullopt;
  return Entry{found->first, version->value, version->revision, version->lease};
}

Result<ListPage> Mvcc::list(const ListRequest& request) const {
  const Revision at = request.revision == 0 ? published_ : request.revision;
  if (at > published_) return future_error(at, published_);
  if (at < compacted_) return compacted_error(at, compacted_);
  ListPage page;
  page.revision = at;
  const Keys::Map& keys = keys_.in_order();
  auto key =
      request.after < request.prefix ? keys.lower_bound(request.prefix) : keys.upper_bound(request.after);
  for (; key != keys.end() && starts_with(key->first, request.prefix); ++key) {
    const Version* version = visible(key->second, at);
    if (version == nullptr || version->value == nullptr) continue;
    if (request.limit != 0 && page.entries.size() == request.limit) {
      page.more = true;
      break;
    }
    page.entries.push_back({key->first, version->value, version->revision, version->lease});
  }
  return page;
}

Result<Revision> Mvcc::collect(Revision after, std::string_view prefix, std::size_t limit,
                               std::vector<Event>& events) const {
  if (after < compacted_) return compacted_error(after, compacted_);
  auto past = std::partition_point(history_.begin(), history_.end(), [&](const Past& p) {
    return p.revision <= after + (MOOR_PLANT("store-watch-skips") ? 1 : 0);
  });
  Revision reached = std::max(after, published_);
  Revision transaction = 0;  // of the event taken last
  for (; past != history_.end() && past->revision <= published_; ++past) {
    if (!starts_with(past->key->first, prefix)) continue;
    if (events.size() >= limit && past->transaction != transaction) {
      reached = past->revision - 1;
      break;
    }
    transaction = past->transaction;
    const Version* version = visible(past->key->second, past->revision);
    MOOR_ASSERT(version != nullptr && version->revision == past->revision);
    const auto kind = version->value == nullptr ? Event::Kind::remove : Event::Kind::put;
    events.push_back({kind, {past->key->first, version->value, version->revision, version->lease}});
  }
  return reached;
}

void Mvcc::prune(Keys::iterator key, std::vector<Revision>& forgotten) {
  Chain& chain = key->second;
  // The newest version at or before the compaction still answers reads; older ones answer none.
  std::size_t keep = 0;
  while (keep + 1 < chain.size() && chain[keep + 1].revision <= compacted_) ++keep;
  if (keep < chain.size() && chain[keep].revision <= compacted_ && chain[keep].value == nullptr) ++keep;
  for (std::size_t i = 0; i < keep; ++i) forgotten.push_back(chain[i].revision);
  chain.erase(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(keep));
  if (chain.empty()) drop_place(key);
}

std::vector<Revision> Mvcc::compact(Revision revision) {
  compacted_ = std::max(compacted_, std::min(revision, published_));
  std::vector<Revision> forgotten;
  std::vector<Keys::iterator> touched;
  while (!history_.empty() && history_.front().revision <= compacted_) {
    const Past& past = history_.front();
    // Versions leave chains only below, after this walk: each Past still finds its own.
    const Version* version = visible(past.key->second, past.revision);
    history_bytes_ -= past.key->first.size() + (version->value == nullptr ? 0 : version->value->size());
    // Each key once, at its last event within the compaction.
    if (visible(past.key->second, compacted_)->revision == past.revision) touched.push_back(past.key);
    history_.pop_front();
  }
  for (const auto key : touched) prune(key, forgotten);
  std::sort(forgotten.begin(), forgotten.end());
  return forgotten;
}

Revision Mvcc::excess_history(HistoryLimit limit, std::size_t step) const {
  std::size_t records = history_.size();
  std::size_t bytes = history_bytes_;
  Revision excess = compacted_;
  for (auto past = history_.begin(); past != history_.end() && step > 0; ++past, --step) {
    if (records <= limit.records && bytes <= limit.bytes) break;
    const Version* version = visible(past->key->second, past->revision);
    bytes -= past->key->first.size() + (version->value == nullptr ? 0 : version->value->size());
    --records;
    excess = past->transaction;
  }
  return std::min(excess, published_);
}

std::vector<std::string> Mvcc::keys_of_lease(LeaseId lease) const {
  std::vector<std::string> keys;
  if (const auto found = leased_.find(lease); found != leased_.end()) {
    for (const auto& [key, revision] : found->second) keys.push_back(key);
  }
  return keys;
}

}  // namespace moor::store
