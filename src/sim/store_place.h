// Stores of the world: the journal below an embedded store, which forgets what was not safe; the shared store
// of several servers with its own process; and a server's link to it.
#pragma once

#include <map>
#include <memory>

#include "base/task_group.h"
#include "sim/call.h"
#include "store/journal.h"
#include "store/journaled_store.h"

namespace moor::sim {

// What is durable of a journal; outlives the process that writes it. Also tells the world of every
// transaction.
class JournalDisk {
 public:
  explicit JournalDisk(Context& context) : context_(context) {}
  // By `through`, or by whoever has said that it writes this; the batch is safe from now on.
  void apply(const store::JournalBatch& batch, const std::string& through);
  // A server asks for this. It is known again by its bytes, which everybody shares until they are safe.
  void announce(const store::Transaction& transaction, const std::string& server);
  void forget(const store::Transaction& transaction);
  store::JournalContent content() const;
  // The newest state, for checkers.
  const std::map<std::string, std::pair<store::Revision, JsonPtr>>& objects() const { return objects_; }
  store::Revision revision() const { return revision_; }

 private:
  void tell(std::vector<const store::Record*> records, const std::string& through);
  std::string author_of(const std::vector<const store::Record*>& records, const std::string& through) const;

  Context& context_;
  std::map<store::Revision, store::Record> records_;
  std::map<store::LeaseId, Duration> leases_;
  store::Revision revision_ = 0;
  store::Revision compacted_ = 0;
  std::map<std::string, std::pair<store::Revision, JsonPtr>> objects_;
  std::map<store::Value, std::string> authors_;  // looked up, never walked: its order is that of addresses
};

// Of one process. One batch is under way; those that come meanwhile become safe together after it. A crash
// keeps or loses what is under way, whole, and loses what is behind it.
class SimJournal final : public store::Journal {
 public:
  SimJournal(Context& context, SimProcess& process, JournalDisk& disk, std::string through);
  ~SimJournal() override;
  void append(store::JournalBatch batch, Done done) override;
  std::uint64_t bytes() const override { return 0; }

 private:
  Context& context_;
  SimProcess& process_;
  JournalDisk& disk_;
  std::string through_;
  void lose();
  void write();

  store::Gathered under_way_;
  store::Gathered waiting_;
  Scheduler::EventId event_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The shared store, on a machine of its own that never fails: etcd is trusted to be what it says.
class StorePlace {
 public:
  explicit StorePlace(Context& context);
  ~StorePlace();
  store::Store& store() { return *store_; }
  const EndpointPtr& endpoint() const { return endpoint_; }
  JournalDisk& disk() { return disk_; }
  void spawn(Task<Result<void>> task) { group_.spawn(std::move(task)); }
  CancelToken token() const { return group_.token(); }
  void compact();

 private:
  std::chrono::microseconds wall_offset_{0};
  SimProcess process_;
  JournalDisk disk_;
  EndpointPtr endpoint_ = std::make_shared<Endpoint>();
  std::unique_ptr<store::Store> store_;
  TaskGroup group_;
};

class StoreLink final : public store::Store {
 public:
  StoreLink(Caller& caller, StorePlace& place) : caller_(caller), place_(place) {}

  Task<Result<store::Read>> get(std::string key) override;
  Task<Result<store::ListPage>> list(store::ListRequest request) override;
  Task<Result<store::Committed>> commit(store::Transaction transaction) override;
  Task<Result<std::unique_ptr<store::WatchStream>>> watch(std::string prefix, store::Revision after) override;
  Task<Result<store::Revision>> compact(store::Revision revision) override;
  Task<Result<store::LeaseId>> grant_lease(Duration time_to_live) override;
  Task<Result<void>> keep_alive(store::LeaseId lease) override;
  Task<Result<void>> revoke_lease(store::LeaseId lease) override;
  Task<Result<store::StoreStatus>> status() override;
  Result<void> ready() const override { return {}; }

 private:
  template <class T>
  Task<Result<T>> call(std::function<Task<Result<T>>(store::Store&)> make);

  Caller& caller_;
  StorePlace& place_;
};

}  // namespace moor::sim
