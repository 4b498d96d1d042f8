// What the parts of the etcd store share: the link, the layout, the clock for retries and what is known about
// health. Tasks hold it by shared_ptr, because they may end a turn after the store itself is gone.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "base/task.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/layout.h"
#include "store/etcd/wire.h"
#include "store/store.h"

namespace moor::store::etcd {

class Closeable {
 public:
  virtual ~Closeable() = default;
  virtual void close() = 0;
};

struct Core : std::enable_shared_from_this<Core> {
  Core(Executor& target, EtcdOptions chosen, Layout where, std::unique_ptr<Link> connection)
      : executor(target), options(std::move(chosen)), layout(std::move(where)), link(std::move(connection)) {}

  // Ends all that is under way; waits for gRPC's threads. The executor may go away afterwards.
  void close();
  // Starts looking after ready(), every health_interval.
  void watch_health();
  void note_health(Result<void> health) { ready = std::move(health); }

  Executor& executor;
  const EtcdOptions options;
  const Layout layout;
  const std::unique_ptr<Link> link;
  CancelSource stopping;
  bool closed = false;
  // The revision of the marker. Before it the store was empty, whatever etcd has compacted since.
  EtcdRevision created = 0;
  EtcdRevision compacted_at_least = 0;  // what we know of etcd's compaction; it only grows
  Result<void> ready;
  Executor::TimerId health_timer = 0;
  std::set<Closeable*> streams;
};
using CorePtr = std::shared_ptr<Core>;

// When to stop trying, and how long to wait before the next try.
class Attempts {
 public:
  Attempts(const CorePtr& core, Duration total);
  Duration remaining() const;
  // For a call that may be repeated: leaves time for a second endpoint when the first hangs.
  Duration share() const;
  // False: no time for another try.
  Task<bool> pause() { return pause_if(true); }
  // The same; false at once when another try makes no sense.
  Task<bool> pause_if(bool sensible);

 private:
  CorePtr core_;
  TimePoint deadline_;
  Duration back_off_;
};

// Reads all ranges at one state, trying other endpoints until the time is up. Adds a range: the last
// transaction.
struct Snapshot {
  EtcdRevision etcd = 0;            // the newest revision when it was read
  std::vector<RangeAnswer> ranges;  // as asked
  // Of the last transaction of ours, in the state that was read.
  EtcdRevision transaction = 0;
  std::uint32_t transaction_writes = 0;

  // The newest state, as a revision of ours.
  Revision newest() const { return end_of(etcd); }
  // The last revision of ours that belongs to etcd's `revision`; the snapshot must have been read there.
  Revision end_of(EtcdRevision revision) const {
    return make_revision(revision, transaction == revision ? transaction_writes - 1 : kLastIndex);
  }
};
Task<CallResult<Snapshot>> read_once(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at,
                                     Duration timeout);
Task<CallResult<Snapshot>> read_call(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at,
                                     Duration timeout);
Task<Result<Snapshot>> read(CorePtr core, std::vector<RangeCall> ranges, EtcdRevision at = 0);

// Errc::corrupt when this store did not write it.
Result<Entry> to_entry(const Layout& layout, const Kv& kv);

// The parts of the store; each in the file of its name.
Task<Result<Read>> get(CorePtr core, std::string key);                  // list.cc
Task<Result<ListPage>> list(CorePtr core, ListRequest request);         // list.cc
Task<Result<Committed>> commit(CorePtr core, Transaction transaction);  // commit.cc
Task<Result<std::unique_ptr<WatchStream>>> watch(CorePtr core, std::string prefix,
                                                 Revision after);        // watch.cc
Task<Result<Revision>> compact(CorePtr core, Revision revision);         // upkeep.cc
Task<Result<StoreStatus>> status(CorePtr core);                          // upkeep.cc
Task<Result<LeaseId>> grant_lease(CorePtr core, Duration time_to_live);  // upkeep.cc
Task<Result<void>> keep_alive(CorePtr core, LeaseId lease);              // upkeep.cc
Task<Result<void>> revoke_lease(CorePtr core, LeaseId lease);            // upkeep.cc

}  // namespace moor::store::etcd
