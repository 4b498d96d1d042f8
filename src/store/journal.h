// A Journal makes a JournaledStore durable. It is told what to write and says when that is safe; it decides
// nothing. SQLite implements it for the embedded store; NullJournal for the one in memory; the simulator has
// one that loses what was not yet safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/store.h"

namespace moor::store {

// One write with the revision it was given.
struct Record {
  Revision revision = 0;
  Revision transaction = 0;  // the last revision of its transaction: events of one are delivered together
  std::string key;
  Value value;  // null: removal
  LeaseId lease = 0;
};

struct LeaseRecord {
  LeaseId id = 0;
  std::optional<Duration> time_to_live;  // absent: the lease is gone
};

// Applied whole or not at all.
struct JournalBatch {
  std::vector<Record> records;
  std::vector<LeaseRecord> leases;
  // Compaction: the revision up to which history is gone, and records that nobody can ask for any more. They
  // come in ascending order, over several batches: a removal never leaves before the values it removed, or a
  // crash in between would bring them back.
  std::vector<Revision> forget;
  std::optional<Revision> compacted;
};

// What a journal holds when it is opened.
struct JournalContent {
  std::vector<Record> records;  // ascending by revision
  std::vector<LeaseRecord> leases;
  Revision revision = 0;  // the highest ever given out
  Revision compacted = 0;
};

class Journal {
 public:
  using Done = std::function<void(Result<void>)>;
  virtual ~Journal() = default;
  // `done` runs later on the executor, once the batch is safe or certainly not applied; in the order of
  // appending. Any number may be under way: what comes while an earlier one is being written may share the
  // next sync with others. Errc::exhausted: not applied, nor is anything that was appended before this `done`
  // ran, for it may rest on it; after that the journal can go on (space may return). Any other error: the
  // journal has stopped for good, the batch may or may not be found at the next open, and all later appends
  // fail.
  virtual void append(JournalBatch batch, Done done) = 0;
  virtual std::uint64_t bytes() const = 0;
};

// Batches that become safe together: applied as one, whole or not at all.
struct Gathered {
  JournalBatch batch;
  std::vector<Journal::Done> dones;

  bool empty() const { return dones.empty(); }
  void add(JournalBatch more, Journal::Done done);
  void tell(const Result<void>& result) const;
};

}  // namespace moor::store
