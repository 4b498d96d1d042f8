// Mvcc: the versioned map behind the memory and embedded stores. Plain data without I/O, threads or clock:
// the same calls give the same state.
//
// A transaction is first staged (checked, revisions assigned; later stagings see it, readers do not) and then
// published, when it is durable. Reads at any revision between `compacted` and `revision` are served; the
// history of events since `compacted` feeds the watches, each of which is only a cursor into it: no buffer
// per watcher.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/flat_map.h"
#include "base/result.h"
#include "store/journal.h"
#include "store/late_map.h"
#include "store/store.h"

namespace moor::store {

class Mvcc {
 public:
  // Takes over what a journal holds; compact(compacted()) then names what it need not hold any longer.
  // Errc::corrupt when the content makes no sense.
  Result<void> load(JournalContent content);

  // Checks the compares against all that is staged so far and assigns revisions.
  Result<std::vector<Record>> stage(const Transaction& transaction);
  // Everything staged up to `revision` becomes visible.
  void publish(Revision revision);
  // Forgets what is staged and not published; its revisions are not used again in this process.
  void drop_staged();

  std::optional<Entry> get(std::string_view key) const;
  Result<ListPage> list(const ListRequest& request) const;
  // Appends events after `after` (prefix only), whole transactions, about `limit` of them; answers how far it
  // got. Errc::expired when `after` lies before what is kept.
  Result<Revision> collect(Revision after, std::string_view prefix, std::size_t limit,
                           std::vector<Event>& events) const;

  // Forgets history up to `revision` (at most `published`); answers the records that no one can see any more.
  std::vector<Revision> compact(Revision revision);

  bool has_staged() const { return !history_.empty() && history_.back().revision > published_; }
  Revision revision() const { return published_; }
  Revision compacted() const { return compacted_; }
  std::uint64_t keys() const { return live_; }
  std::size_t history_records() const { return history_.size(); }
  std::size_t history_bytes() const { return history_bytes_; }
  // What to compact() to, so that history comes nearer to so many records and bytes: by about `step` records
  // at most, and whole transactions.
  struct HistoryLimit {
    std::size_t records;
    std::size_t bytes;
  };
  Revision excess_history(HistoryLimit limit, std::size_t step) const;
  // Keys whose newest value, staged or published, was written under this lease.
  std::vector<std::string> keys_of_lease(LeaseId lease) const;

 private:
  struct Version {
    Revision revision;
    Value value;  // null: removed here
    LeaseId lease;
  };
  using Chain = std::vector<Version>;  // ascending; nearly always of length one
  using Keys = LateMap<Chain>;
  struct Past {
    Revision revision;
    Revision transaction;  // the last revision of its transaction
    Keys::iterator key;    // stays valid: a key is erased only after its last Past has left
  };

  // end(): it has none.
  Keys::iterator place_of(std::string_view key);
  Keys::const_iterator place_of(std::string_view key) const;
  Keys::iterator make_place(const std::string& key);
  void drop_place(Keys::iterator key);
  static const Version* visible(const Chain& chain, Revision at);
  // Of the newest value, published or not; 0: none.
  static Revision staged_revision(const Chain& chain);
  void append(Keys::iterator key, Version version, Revision transaction);
  void prune(Keys::iterator key, std::vector<Revision>& forgotten);

  Keys keys_;                                               // in order, for lists
  FlatMap<TextKey, Keys::iterator, TextKey::Hash> places_;  // the same, to be found without their order
  std::deque<Past> history_;
  std::size_t history_bytes_ = 0;
  std::map<LeaseId, std::map<std::string, Revision>> leased_;  // staged or published, latest write per key
  std::uint64_t live_ = 0;                                     // keys with a visible value
  Revision next_ = 1;
  Revision published_ = 0;
  Revision compacted_ = 0;
};

}  // namespace moor::store
