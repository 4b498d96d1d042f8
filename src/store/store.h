// The store: key → versioned bytes, with revisions, transactions and watch. Everything in Mooring is an
// object in it, so its promises are few and hard:
//
// - What commit() acknowledged survives a crash of the process and of the machine (S38), unless the store is
// the
//   in-memory one.
// - A transaction is applied whole or not at all. Each of its writes has a revision of its own, in the order
// of the
//   writes; revisions only grow and are never given twice to two visible writes.
// - A watch delivers every write after its start revision exactly once, in order, and a transaction's events
//   together; when it cannot (compaction, too slow) it ends with Errc::expired, never with a gap (S40).
// - After an error of the storage below, nothing half-done is visible.
//
// A Store belongs to one executor: all calls come from its thread and all tasks go on there. Three
// implementations (memory, embedded, etcd) pass one contract test (contract/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"

namespace moor::store {

using Revision = std::uint64_t;  // 0: before the first write
using LeaseId = std::uint64_t;   // 0: none
// Immutable and shared: the store, the cache and every watcher hold the same bytes.
using Value = std::shared_ptr<const std::string>;

inline Value make_value(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

// The same on every store, so that what works on one machine works on many.
inline constexpr std::size_t kMaxWrites = 100;                                  // per transaction
inline constexpr std::size_t kMaxCompares = 100;                                // per transaction
inline constexpr std::size_t kMaxValueBytes = 1u << 20;                         // one object
inline constexpr std::size_t kMaxTransactionBytes = (1u << 20) + (256u << 10);  // keys and values together
inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxWatchBatch = 1000;  // events, give or take one transaction

struct Entry {
  std::string key;
  Value value;
  Revision revision = 0;  // of the write that made this value
  LeaseId lease = 0;
};

// What must hold for the transaction to be applied.
struct Compare {
  enum class Kind { absent, exists, at };
  std::string key;
  Kind kind = Kind::exists;
  Revision revision = 0;  // Kind::at

  static Compare absent(std::string key) { return {std::move(key), Kind::absent, 0}; }
  static Compare exists(std::string key) { return {std::move(key), Kind::exists, 0}; }
  static Compare at(std::string key, Revision revision) { return {std::move(key), Kind::at, revision}; }
};

struct Write {
  std::string key;
  Value value;  // null: remove the key, which must exist
  LeaseId lease = 0;

  static Write put(std::string key, Value value, LeaseId lease = 0) {
    return {std::move(key), std::move(value), lease};
  }
  static Write put(std::string key, std::string bytes) {
    return {std::move(key), make_value(std::move(bytes)), 0};
  }
  static Write remove(std::string key) { return {std::move(key), nullptr, 0}; }
};

struct Transaction {
  std::vector<Compare> compares;
  std::vector<Write> writes;  // at least one, no key twice
};

struct Committed {
  std::vector<Revision> revisions;  // one per write, ascending
  Revision last() const { return revisions.back(); }
};

struct Read {
  std::optional<Entry> entry;
  Revision revision = 0;  // the state of the store that was read
};

struct ListRequest {
  std::string prefix;     // "" lists everything
  std::string after;      // exclusive; the last key of the page before
  std::size_t limit = 0;  // 0: no limit
  Revision revision = 0;  // 0: newest; else the state at that revision
};

struct ListPage {
  std::vector<Entry> entries;  // by key
  Revision revision = 0;       // of the state listed; pass it on to get the next page of the same state
  bool more = false;
};

struct Event {
  enum class Kind { put, remove };
  Kind kind = Kind::put;
  Entry entry;  // remove: key and the revision of the removal; no value
};

struct WatchBatch {
  std::vector<Event> events;
  Revision revision = 0;  // everything that this watch asked for, up to here, has been delivered
};

// Destroying it ends the watch. One next() at a time.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
  // Waits for events. Errc::expired: too far behind, list again. Errc::cancelled: close() was called. Errors
  // are final.
  virtual Task<Result<WatchBatch>> next() = 0;
  virtual void close() = 0;
};

struct StoreStatus {
  Revision revision = 0;
  Revision compacted = 0;  // states and watches before this revision are gone
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;  // of storage used, as far as the store knows
};

class Store {
 public:
  virtual ~Store() = default;

  virtual Task<Result<Read>> get(std::string key) = 0;
  virtual Task<Result<ListPage>> list(ListRequest request) = 0;
  // conflict / already_exists / not_found: a compare failed (at / absent / exists), nothing was changed.
  // invalid / exhausted: the transaction breaks a limit. unavailable: not applied, try again.
  // timed_out: it may or may not have been applied.
  virtual Task<Result<Committed>> commit(Transaction transaction) = 0;
  // Events after `after`. Errc::expired when that revision is compacted.
  virtual Task<Result<std::unique_ptr<WatchStream>>> watch(std::string prefix, Revision after) = 0;
  // Forgets states before `revision` (capped at the newest); what is current stays. Answers what is compacted
  // now.
  virtual Task<Result<Revision>> compact(Revision revision) = 0;

  // A lease ends when it is not kept alive for its time; the keys written under it are then removed.
  virtual Task<Result<LeaseId>> grant_lease(Duration time_to_live) = 0;
  virtual Task<Result<void>> keep_alive(LeaseId lease) = 0;
  virtual Task<Result<void>> revoke_lease(LeaseId lease) = 0;

  virtual Task<Result<StoreStatus>> status() = 0;
  // An error, with the reason, when writes cannot succeed; reads may still be served.
  virtual Result<void> ready() const = 0;

  // Single writes, as transactions of one.
  Task<Result<Revision>> create(std::string key, std::string bytes);  // already_exists
  Task<Result<Revision>> update(std::string key, std::string bytes,
                                Revision expected);                   // conflict, not_found
  Task<Result<Revision>> remove(std::string key, Revision expected);  // conflict, not_found
  Task<Result<Revision>> put(std::string key, std::string bytes);     // whatever is there
};

// The limits above and the form of keys: every store refuses the same transactions with the same words.
Result<void> validate(const Transaction& transaction);
Result<void> validate_key(std::string_view key);
// The error for a compare that failed; `found` is the key's current revision, 0 when it is absent.
Error compare_error(const Compare& compare, Revision found);
bool holds(const Compare& compare, Revision found);
Error compacted_error(Revision asked, Revision compacted);
Error future_error(Revision asked, Revision newest);

}  // namespace moor::store
