#include "sim/store_place.h"

#include "base/assert.h"
#include "registry/keys.h"

namespace moor::sim {

using namespace std::chrono_literals;
using store::Record;
using store::Revision;

namespace {

constexpr Duration kLimit = 5s;

template <class T>
Task<Result<void>> answer(Task<Result<T>> work, std::function<void(Result<T>)> reply) {
  Result<T> result = co_await std::move(work);
  reply(std::move(result));
  co_return Result<void>();
}

JsonPtr decode(const store::Value& value) {
  if (value == nullptr) return nullptr;
  auto json = parse_json(*value);
  return json ? std::make_shared<const Json>(*std::move(json)) : nullptr;
}

}  // namespace

void Caller::lost(const EndpointPtr& endpoint) {
  for (const auto& [id, pending] : pending_) {
    if (pending.endpoint != endpoint || !context_.network.reaches(endpoint->machine, machine_)) continue;
    context_.scheduler.after(context_.network.delay(endpoint->machine, machine_), [fail = pending.fail] {
      fail(make_error(Errc::unavailable, "the server has closed the connection"));
    });
  }
}

void JournalDisk::apply(const store::JournalBatch& batch, const std::string& through) {
  std::vector<const Record*> transaction;
  for (const Record& record : batch.records) {
    records_[record.revision] = record;
    revision_ = std::max(revision_, record.revision);
    transaction.push_back(&record);
    if (record.transaction != record.revision) continue;
    tell(std::exchange(transaction, {}), through);
  }
  for (const store::LeaseRecord& lease : batch.leases) {
    if (lease.time_to_live) {
      leases_[lease.id] = *lease.time_to_live;
    } else {
      leases_.erase(lease.id);
    }
  }
  for (const Revision gone : batch.forget) records_.erase(gone);
  if (batch.compacted) compacted_ = *batch.compacted;
}

void JournalDisk::announce(const store::Transaction& transaction, const std::string& server) {
  for (const store::Write& write : transaction.writes)
    if (write.value != nullptr) authors_[write.value] = server;
}

void JournalDisk::forget(const store::Transaction& transaction) {
  for (const store::Write& write : transaction.writes) authors_.erase(write.value);
}

std::string JournalDisk::author_of(const std::vector<const Record*>& records,
                                   const std::string& through) const {
  for (const Record* record : records)
    if (const auto author = authors_.find(record->value); author != authors_.end()) return author->second;
  return through;
}

void JournalDisk::tell(std::vector<const Record*> records, const std::string& through) {
  Commit commit{context_.scheduler.steps(), context_.scheduler.now(), author_of(records, through), {}};
  for (const Record* record : records) {
    const registry::KeyParts parts = registry::split_key(record->key);
    context_.scheduler.mix(record->key);
    if (record->value != nullptr) context_.scheduler.mix(*record->value);
    JsonPtr after = decode(record->value);
    auto& place = objects_[record->key];
    Change change{parts.kind, std::string(parts.space), std::string(parts.name), place.second,
                  after,      record->revision,         &context_.decoder};
    place = {record->revision, after};
    if (after == nullptr) objects_.erase(record->key);
    if (parts.kind != nullptr) commit.changes.push_back(std::move(change));
  }
  ++context_.counts.commits;
  context_.changed.committed = true;
  if (context_.on_commit) context_.on_commit(commit);
}

store::JournalContent JournalDisk::content() const {
  store::JournalContent content;
  for (const auto& [revision, record] : records_) content.records.push_back(record);
  for (const auto& [id, time] : leases_) content.leases.push_back({id, time});
  content.revision = revision_;
  content.compacted = compacted_;
  return content;
}

SimJournal::SimJournal(Context& context, SimProcess& process, JournalDisk& disk, std::string through)
    : context_(context), process_(process), disk_(disk), through_(std::move(through)) {
  process_.on_death([this, alive = alive_] {
    if (*alive) lose();
  });
}

SimJournal::~SimJournal() {
  lose();
  *alive_ = false;
}

// The process ends with a batch under way: nobody will hear what became of it.
void SimJournal::lose() {
  if (under_way_.empty()) return;
  context_.scheduler.cancel(event_);
  if (context_.scheduler.random().chance(1, 2)) disk_.apply(under_way_.batch, through_);
  process_.post([written = std::exchange(under_way_, {}), behind = std::exchange(waiting_, {})] {
    written.tell(make_error(Errc::unavailable, "severed"));
    behind.tell(make_error(Errc::unavailable, "severed"));
  });
}

void SimJournal::append(store::JournalBatch batch, Done done) {
  if (process_.is_dead()) {
    process_.post([done = std::move(done)] { done(make_error(Errc::unavailable, "severed")); });
    return;
  }
  waiting_.add(std::move(batch), std::move(done));
  if (under_way_.empty()) write();
}

void SimJournal::write() {
  under_way_ = std::exchange(waiting_, {});
  event_ = context_.scheduler.after(context_.scheduler.between(200us, 4ms), [this] {
    disk_.apply(under_way_.batch, through_);
    process_.post([safe = std::exchange(under_way_, {})] { safe.tell({}); });
    if (!waiting_.empty()) write();
  });
}

StorePlace::StorePlace(Context& context)
    : process_(context.scheduler, "store", wall_offset_), disk_(context), group_(process_) {
  endpoint_->machine = context.network.add("store");
  store::JournaledOptions options;
  options.history_records = 400;  // so that who lags is told to list again
  auto opened = store::JournaledStore::open(
      process_, std::make_unique<SimJournal>(context, process_, disk_, ""), {}, options);
  MOOR_ASSERT(opened.ok(), "an empty journal always loads");
  store_ = std::move(*opened);
}

StorePlace::~StorePlace() {
  endpoint_->open = false;
  process_.die();
  group_.cancel();
  process_.unwind([this] { return group_.running() == 0; });
}

void StorePlace::compact() {
  struct Ask {
    static Task<Result<void>> now(store::Store& store) {
      CO_TRY(const store::StoreStatus status, co_await store.status());
      (void)co_await store.compact(status.revision);
      co_return Result<void>();
    }
  };
  spawn(Ask::now(*store_));
}

template <class T>
Task<Result<T>> StoreLink::call(std::function<Task<Result<T>>(store::Store&)> make) {
  StorePlace& place = place_;
  std::function<void(std::function<void(Result<T>)>)> serve = [&place,
                                                               make](std::function<void(Result<T>)> reply) {
    place.spawn(answer<T>(make(place.store()), std::move(reply)));
  };
  return caller_.call<Result<T>>(place_.endpoint(), kLimit, std::move(serve));
}

Task<Result<store::Read>> StoreLink::get(std::string key) {
  return call<store::Read>([key](store::Store& store) { return store.get(key); });
}
Task<Result<store::ListPage>> StoreLink::list(store::ListRequest request) {
  return call<store::ListPage>([request](store::Store& store) { return store.list(request); });
}
namespace {
Task<Result<store::Committed>> commit_for(StorePlace& place, store::Transaction transaction,
                                          std::string server) {
  place.disk().announce(transaction, server);
  auto committed = co_await place.store().commit(transaction);
  place.disk().forget(transaction);
  co_return committed;
}
}  // namespace

Task<Result<store::Committed>> StoreLink::commit(store::Transaction transaction) {
  const std::string server = caller_.context().network.name(caller_.machine());
  return call<store::Committed>([&place = place_, transaction, server](store::Store&) {
    return commit_for(place, transaction, server);
  });
}
Task<Result<Revision>> StoreLink::compact(Revision revision) {
  return call<Revision>([revision](store::Store& store) { return store.compact(revision); });
}
Task<Result<store::LeaseId>> StoreLink::grant_lease(Duration time_to_live) {
  return call<store::LeaseId>(
      [time_to_live](store::Store& store) { return store.grant_lease(time_to_live); });
}
Task<Result<void>> StoreLink::keep_alive(store::LeaseId lease) {
  return call<void>([lease](store::Store& store) { return store.keep_alive(lease); });
}
Task<Result<void>> StoreLink::revoke_lease(store::LeaseId lease) {
  return call<void>([lease](store::Store& store) { return store.revoke_lease(lease); });
}
Task<Result<store::StoreStatus>> StoreLink::status() {
  return call<store::StoreStatus>([](store::Store& store) { return store.status(); });
}

namespace {

using StoreFeed = Feed<Result<store::WatchBatch>>;

class LinkStream final : public store::WatchStream {
 public:
  LinkStream(Caller& caller, std::shared_ptr<StoreFeed> feed) : caller_(caller), feed_(std::move(feed)) {}
  ~LinkStream() override { caller_.close(feed_); }
  Task<Result<store::WatchBatch>> next() override { return caller_.next(feed_, closed_.token()); }
  void close() override { closed_.cancel({Errc::cancelled, "closed"}); }

 private:
  Caller& caller_;
  std::shared_ptr<StoreFeed> feed_;
  CancelSource closed_;
};

Task<Result<void>> serve_watch(Context& context, StorePlace& place, std::string prefix, Revision after,
                               std::shared_ptr<StoreFeed> feed, std::function<void(Result<bool>)> reply) {
  auto stream = co_await place.store().watch(prefix, after);
  if (!stream) {
    reply(stream.error());
    co_return Result<void>();
  }
  feed->serving = std::make_shared<CancelSource>(place.token());
  store::WatchStream& source = **stream;
  const CancelCallback on_close(feed->serving->token(), [&source] { source.close(); });
  reply(true);
  while (true) {
    Result<store::WatchBatch> batch = co_await source.next();
    const bool last = !batch;
    if (!push(context, feed, std::move(batch)) || last) break;
  }
  feed->serving.reset();
  co_return Result<void>();
}

}  // namespace

Task<Result<std::unique_ptr<store::WatchStream>>> StoreLink::watch(std::string prefix, Revision after) {
  auto feed = std::make_shared<StoreFeed>();
  feed->from = place_.endpoint();
  feed->to = caller_.machine();
  StorePlace& place = place_;
  Context& context = caller_.context();
  std::function<void(std::function<void(Result<bool>)>)> serve =
      [&context, &place, prefix, after, feed](std::function<void(Result<bool>)> reply) {
        place.spawn(serve_watch(context, place, prefix, after, feed, std::move(reply)));
      };
  auto opened = co_await caller_.call<Result<bool>>(place_.endpoint(), kLimit, std::move(serve));
  if (!opened) {
    caller_.close(feed);
    co_return opened.error();
  }
  std::unique_ptr<store::WatchStream> stream = std::make_unique<LinkStream>(caller_, feed);
  co_return stream;
}

}  // namespace moor::sim
