// JournaledStore: a Mvcc in memory and a Journal below. Reads come from memory; a write is staged, handed to
// the journal at the end of the turn (which writes together what comes while it is busy: one sync for many),
// and only then published and acknowledged.
//
// When the journal stops (a failed sync), nothing staged becomes visible, every write is refused from then
// on, reads and watches go on, ready() says why. When it only ran out of space, the writes of that batch and
// all that came after it are refused, and later ones are tried again.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/completion.h"
#include "base/executor.h"
#include "store/journal.h"
#include "store/mvcc.h"
#include "store/store.h"

namespace moor::store {

struct JournaledOptions {
  // History for watches and paged lists. Compaction starts by itself past these; a watcher that falls further
  // behind is told Errc::expired.
  std::size_t history_records = 50'000;
  std::size_t history_bytes = 16u << 20;
  // With the journal at a time: enough to amortise a sync, small enough to keep the tail short.
  std::size_t batch_bytes = 4u << 20;
  std::size_t batch_records = 2'000;
  // Old records being erased at a time: a large compaction must not hold up the writers behind it.
  std::size_t forget_per_batch = 500;
  // So many wait to be erased, the oldest first: what was written together lies together, and is erased
  // together once all of it has come. Found again at the next open, so nothing is lost with them.
  std::size_t forget_gathered = 4'000;
  // Writers beyond this are told Errc::unavailable instead of queueing without bound.
  std::size_t waiting_transactions = 20'000;
};

class JournaledStore final : public Store {
 public:
  // Takes over the journal with what it holds; Errc::corrupt when that makes no sense.
  static Result<std::unique_ptr<JournaledStore>> open(Executor& executor, std::unique_ptr<Journal> journal,
                                                      JournalContent content, JournaledOptions options = {});
  ~JournaledStore() override;

  Task<Result<Read>> get(std::string key) override;
  Task<Result<ListPage>> list(ListRequest request) override;
  Task<Result<Committed>> commit(Transaction transaction) override;
  Task<Result<std::unique_ptr<WatchStream>>> watch(std::string prefix, Revision after) override;
  Task<Result<Revision>> compact(Revision revision) override;
  Task<Result<LeaseId>> grant_lease(Duration time_to_live) override;
  Task<Result<void>> keep_alive(LeaseId lease) override;
  Task<Result<void>> revoke_lease(LeaseId lease) override;
  Task<Result<StoreStatus>> status() override;
  Result<void> ready() const override;

 private:
  class Stream;
  using Done = std::function<void(Result<void>)>;
  struct Waiting {
    std::vector<Record> records;
    std::vector<LeaseRecord> leases;
    Done done;
  };
  // What the journal was given at once.
  struct Batch {
    std::vector<Waiting> writes;
    std::vector<Revision> forgotten;
    Revision last = 0;       // of its records, or of those before it
    Revision compacted = 0;  // what the journal knew of compaction before it
    std::size_t records = 0;
    std::size_t bytes = 0;
  };
  struct LeaseState {
    Duration time_to_live{0};
    Executor::TimerId timer = 0;
    bool ending = false;
  };

  JournaledStore(Executor& executor, std::unique_ptr<Journal> journal, JournaledOptions options);
  Result<void> admit(const Transaction& transaction) const;
  void enqueue(std::vector<Record> records, std::vector<LeaseRecord> leases, Done done);
  // All that is staged now is published or dropped.
  Task<bool> settled();
  void schedule_batch();
  void send_batch();
  bool journal_has_room() const;
  void batch_done(const Result<void>& result);
  void batch_failed(Batch failed, const Error& error);
  void refuse_all(Batch failed, const Error& sent_error, const Error& waiting_error);
  void wake_streams();
  void limit_history();
  void forget(const std::vector<Revision>& records);
  bool has_to_forget() const { return forget_.size() > (clearing_ ? 0 : options_.forget_gathered); }
  void arm_lease(LeaseId lease, Duration after);
  void end_lease(LeaseId lease, Done done);

  Executor& executor_;
  std::unique_ptr<Journal> journal_;
  JournaledOptions options_;
  Mvcc mvcc_;
  std::deque<Waiting> waiting_;  // staged, not yet handed to the journal
  std::deque<Batch> sent_;       // handed over, not yet safe
  std::size_t sent_writes_ = 0;  // in these, like the next three
  std::size_t sent_records_ = 0;
  std::size_t sent_bytes_ = 0;
  std::size_t sent_forgotten_ = 0;
  std::size_t refused_ = 0;  // handed over, refused since with one before them; the journal has yet to say so
  bool scheduled_ = false;
  // What the journal still holds for nobody. The oldest leaves first: were a removal to leave before what it
  // removed, a restart would bring that back.
  std::set<Revision> forget_;
  bool clearing_ = false;           // somebody asked for a compaction: nothing waits until all of it has left
  Revision journal_compacted_ = 0;  // the journal was told
  std::optional<Error> stopped_;
  std::optional<Error> full_;                 // the last batch found no space
  std::map<std::uint64_t, Stream*> streams_;  // by number: addresses must not decide who wakes first
  std::uint64_t last_stream_ = 0;
  std::map<LeaseId, LeaseState> leases_;
  LeaseId next_lease_ = 1;
  // Journal callbacks and lease tasks may come after this object is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace moor::store
