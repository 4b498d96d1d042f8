#include "store/journaled_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"
#include "base/plant.h"

namespace moor::store {
namespace {
using namespace std::chrono_literals;
constexpr Duration kLeaseRetry = 1s;  // after a lease's keys could not be removed for lack of space
constexpr Duration kShortestLease = 1s;

bool is_compare_failure(Errc code) {
  return code == Errc::conflict || code == Errc::already_exists || code == Errc::not_found;
}
}  // namespace

// A watch is a cursor into the history: it holds no events of its own, so however slow its reader is, it
// costs nothing.
class JournaledStore::Stream final : public WatchStream {
 public:
  Stream(JournaledStore& store, std::string prefix, Revision after)
      : store_(&store), prefix_(std::move(prefix)), cursor_(after) {
    number_ = ++store.last_stream_;
    store.streams_.emplace(number_, this);
  }
  ~Stream() override {
    if (store_ != nullptr) store_->streams_.erase(number_);
  }

  Task<Result<WatchBatch>> next() override {
    MOOR_ASSERT(!waiting_, "one next() at a time");
    while (true) {
      if (store_ == nullptr) co_return make_error(Errc::cancelled, "the watch was closed");
      WatchBatch batch;
      CO_TRY(cursor_, store_->mvcc_.collect(cursor_, prefix_, kMaxWatchBatch, batch.events));
      if (!batch.events.empty()) {
        batch.revision = cursor_;
        co_return batch;
      }
      waiting_.emplace(store_->executor_);
      const Completion<bool> wake = *waiting_;
      co_await wake;
      waiting_.reset();
    }
  }

  void close() override {
    if (store_ != nullptr) store_->streams_.erase(number_);
    store_ = nullptr;
    wake();
  }
  void wake() {
    if (waiting_) waiting_->set(true);
  }

 private:
  JournaledStore* store_;  // null: closed
  std::string prefix_;
  Revision cursor_;
  std::uint64_t number_ = 0;
  std::optional<Completion<bool>> waiting_;
};

JournaledStore::JournaledStore(Executor& executor, std::unique_ptr<Journal> journal, JournaledOptions options)
    : executor_(executor), journal_(std::move(journal)), options_(options) {}

JournaledStore::~JournaledStore() {
  *alive_ = false;
  for (auto& [id, lease] : leases_) executor_.stop_timer(lease.timer);
  while (!streams_.empty()) streams_.begin()->second->close();
  const Error gone =
      make_error(Errc::timed_out, "the store was closed before the write was known to be safe");
  for (Batch& batch : sent_)
    for (Waiting& write : batch.writes) write.done(gone);
  for (Waiting& write : waiting_) write.done(gone);
}

Result<std::unique_ptr<JournaledStore>> JournaledStore::open(Executor& executor,
                                                             std::unique_ptr<Journal> journal,
                                                             JournalContent content,
                                                             JournaledOptions options) {
  std::unique_ptr<JournaledStore> store(new JournaledStore(executor, std::move(journal), options));
  const std::vector<LeaseRecord> leases = std::move(content.leases);
  TRY_VOID(store->mvcc_.load(std::move(content)));
  store->journal_compacted_ = store->mvcc_.compacted();
  // What an earlier run compacted but had not yet erased.
  store->forget(store->mvcc_.compact(store->mvcc_.compacted()));
  for (const LeaseRecord& lease : leases) {
    if (!lease.time_to_live)
      return make_error(Errc::corrupt, fmt::format("lease {} has no duration", lease.id));
    // Nobody could keep it alive while we were down: it starts anew.
    store->leases_[lease.id].time_to_live = *lease.time_to_live;
    store->arm_lease(lease.id, *lease.time_to_live);
    store->next_lease_ = std::max(store->next_lease_, lease.id + 1);
  }
  return store;
}

Task<Result<Read>> JournaledStore::get(std::string key) {
  co_return Read{mvcc_.get(key), mvcc_.revision()};
}

Task<Result<ListPage>> JournaledStore::list(ListRequest request) {
  co_return mvcc_.list(request);
}

Result<void> JournaledStore::admit(const Transaction& transaction) const {
  if (stopped_) return *stopped_;
  if (const std::size_t open = sent_writes_ + waiting_.size(); open >= options_.waiting_transactions)
    return make_error(Errc::unavailable, fmt::format("{} writes wait already: try again later", open));
  for (const Write& write : transaction.writes) {
    if (write.lease == 0) continue;
    const auto lease = leases_.find(write.lease);
    if (lease == leases_.end() || lease->second.ending)
      return make_error(Errc::not_found, fmt::format("lease {} does not exist or has ended", write.lease));
  }
  return {};
}

Task<Result<Committed>> JournaledStore::commit(Transaction transaction) {
  CO_TRY_VOID(admit(transaction));
  auto records = mvcc_.stage(transaction);
  if (!records && is_compare_failure(records.code()) && mvcc_.has_staged()) {
    // Refused by a write that nobody can see yet. The caller would read the old state and come straight back,
    // or hear of a conflict with something that is then lost to a full disk: look again once all of it is
    // settled.
    co_await settled();
    CO_TRY_VOID(admit(transaction));
    records = mvcc_.stage(transaction);
  }
  if (!records) co_return records.error();
  Committed committed;
  for (const Record& record : *records) committed.revisions.push_back(record.revision);
  const Completion<Result<void>> done(executor_);
  enqueue(std::move(*records), {}, [done](Result<void> result) { done.set(std::move(result)); });
  CO_TRY_VOID(co_await done);
  co_return committed;
}

Task<bool> JournaledStore::settled() {
  const Completion<bool> done(executor_);
  enqueue({}, {}, [done](const Result<void>& result) { done.set(result.ok()); });
  co_return co_await done;
}

void JournaledStore::enqueue(std::vector<Record> records, std::vector<LeaseRecord> leases, Done done) {
  waiting_.push_back({std::move(records), std::move(leases), std::move(done)});
  schedule_batch();
}

// At the end of this turn of the loop: all writes of the turn go together.
void JournaledStore::schedule_batch() {
  if (scheduled_ || stopped_) return;
  scheduled_ = true;
  executor_.post([this, alive = alive_] {
    if (!*alive) return;
    scheduled_ = false;
    send_batch();
  });
}

bool JournaledStore::journal_has_room() const {
  return sent_records_ < options_.batch_records && sent_bytes_ < options_.batch_bytes;
}

void JournaledStore::send_batch() {
  if (stopped_) return;
  JournalBatch batch;
  Batch sent;
  sent.last = sent_.empty() ? mvcc_.revision() : sent_.back().last;
  while (!waiting_.empty() && journal_has_room()) {
    Waiting& next = waiting_.front();
    for (Record& record : next.records) {
      const std::size_t bytes = record.key.size() + (record.value == nullptr ? 0 : record.value->size());
      ++sent.records;
      ++sent_records_;
      sent.bytes += bytes;
      sent_bytes_ += bytes;
      sent.last = record.revision;
      batch.records.push_back(std::move(record));
    }
    next.records.clear();
    std::move(next.leases.begin(), next.leases.end(), std::back_inserter(batch.leases));
    sent.writes.push_back(std::move(next));
    waiting_.pop_front();
  }
  sent.compacted = journal_compacted_;
  if (journal_compacted_ < mvcc_.compacted()) batch.compacted = mvcc_.compacted();
  while (has_to_forget() && sent_forgotten_ < options_.forget_per_batch) {
    batch.forget.push_back(*forget_.begin());
    forget_.erase(forget_.begin());
    ++sent_forgotten_;
  }
  if (sent.writes.empty() && batch.forget.empty() && !batch.compacted) return;
  if (MOOR_PLANT("store-shown-before-safe")) mvcc_.publish(sent.last);
  journal_compacted_ = mvcc_.compacted();
  sent.forgotten = batch.forget;
  sent_writes_ += sent.writes.size();
  sent_.push_back(std::move(sent));
  journal_->append(std::move(batch), [this, alive = alive_](const Result<void>& result) {
    if (*alive) batch_done(result);
  });
}

void JournaledStore::batch_done(const Result<void>& result) {
  if (refused_ > 0) {
    MOOR_ASSERT(!result.ok(), "a batch was kept that rests on one that was not");
    --refused_;
    return;
  }
  Batch batch = std::move(sent_.front());
  sent_.pop_front();
  if (!result) return batch_failed(std::move(batch), result.error());
  sent_writes_ -= batch.writes.size();
  sent_records_ -= batch.records;
  sent_bytes_ -= batch.bytes;
  sent_forgotten_ -= batch.forgotten.size();
  full_.reset();
  if (forget_.empty() && sent_forgotten_ == 0) clearing_ = false;
  mvcc_.publish(batch.last);
  wake_streams();
  // The callbacks may start new writes; they see this object in order: published, woken, ready for more.
  for (Waiting& write : batch.writes) write.done({});
  limit_history();
  if (!waiting_.empty() || has_to_forget()) schedule_batch();
}

void JournaledStore::batch_failed(Batch failed, const Error& error) {
  if (error.code == Errc::exhausted) {
    full_ = error;
    return refuse_all(std::move(failed), error, error);
  }
  stopped_ = make_error(Errc::unavailable, "the store has stopped writing: " + error.message +
                                               "; reads go on, restart the server to recover");
  log_error("the store has stopped writing", {{"error", error}});
  refuse_all(std::move(failed),
             make_error(Errc::timed_out, "it is not known whether the write was kept: " + error.message),
             *stopped_);
}

// Everything staged rests on what was just refused, so all of it goes.
void JournaledStore::refuse_all(Batch failed, const Error& sent_error, const Error& waiting_error) {
  mvcc_.drop_staged();
  journal_compacted_ = failed.compacted;
  sent_.push_front(std::move(failed));
  refused_ = sent_.size() - 1;
  const std::deque<Batch> sent = std::exchange(sent_, {});
  const std::deque<Waiting> waiting = std::exchange(waiting_, {});
  sent_writes_ = sent_records_ = sent_bytes_ = sent_forgotten_ = 0;
  for (const Batch& batch : sent) forget(batch.forgotten);
  for (const Batch& batch : sent)
    for (const Waiting& write : batch.writes) write.done(sent_error);
  for (const Waiting& write : waiting) write.done(waiting_error);
}

void JournaledStore::wake_streams() {
  for (const auto& [number, stream] : streams_) stream->wake();
}

Task<Result<std::unique_ptr<WatchStream>>> JournaledStore::watch(std::string prefix, Revision after) {
  if (after < mvcc_.compacted()) co_return compacted_error(after, mvcc_.compacted());
  co_return std::make_unique<Stream>(*this, std::move(prefix), after);
}

void JournaledStore::forget(const std::vector<Revision>& records) {
  forget_.insert(records.begin(), records.end());
}

// A little with every batch: forgetting thousands at once would hold up whoever writes next.
void JournaledStore::limit_history() {
  const Mvcc::HistoryLimit limit{options_.history_records, options_.history_bytes};
  if (mvcc_.history_records() <= limit.records && mvcc_.history_bytes() <= limit.bytes) return;
  forget(mvcc_.compact(mvcc_.excess_history(limit, options_.forget_per_batch)));
}

Task<Result<Revision>> JournaledStore::compact(Revision revision) {
  if (stopped_) co_return *stopped_;
  forget(mvcc_.compact(revision));
  clearing_ = true;
  const Revision compacted = mvcc_.compacted();
  const Completion<Result<void>> done(executor_);
  enqueue({}, {}, [done](Result<void> result) { done.set(std::move(result)); });
  CO_TRY_VOID(co_await done);
  co_return compacted;
}

Task<Result<LeaseId>> JournaledStore::grant_lease(Duration time_to_live) {
  if (stopped_) co_return *stopped_;
  if (time_to_live < kShortestLease) co_return make_error(Errc::invalid, "a lease lasts at least one second");
  const LeaseId id = next_lease_++;
  const Completion<Result<void>> done(executor_);
  enqueue({}, {{id, time_to_live}}, [done](Result<void> result) { done.set(std::move(result)); });
  CO_TRY_VOID(co_await done);
  leases_[id].time_to_live = time_to_live;
  arm_lease(id, time_to_live);
  co_return id;
}

void JournaledStore::arm_lease(LeaseId lease, Duration after) {
  LeaseState& state = leases_.at(lease);
  executor_.stop_timer(state.timer);
  state.timer =
      executor_.start_timer(executor_.clock().now() + after, [this, lease] { end_lease(lease, nullptr); });
}

Task<Result<void>> JournaledStore::keep_alive(LeaseId lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.ending)
    co_return make_error(Errc::not_found, fmt::format("lease {} does not exist or has ended", lease));
  arm_lease(lease, found->second.time_to_live);
  co_return Result<void>();
}

// Removes the keys in transactions of the usual size and, last, the lease itself: a crash in between leaves a
// lease that ends again.
void JournaledStore::end_lease(LeaseId lease, Done done) {
  LeaseState& state = leases_.at(lease);
  executor_.stop_timer(state.timer);
  state.timer = 0;
  state.ending = true;
  const std::vector<std::string> keys = mvcc_.keys_of_lease(lease);
  for (std::size_t start = 0; start < keys.size(); start += kMaxWrites) {
    Transaction transaction;
    for (std::size_t i = start; i < std::min(start + kMaxWrites, keys.size()); ++i)
      transaction.writes.push_back(Write::remove(keys[i]));
    auto records = mvcc_.stage(transaction);
    MOOR_ASSERT(records.ok(), "a leased key cannot be removed: {}", records.error().message);
    enqueue(std::move(*records), {},
            [](const Result<void>&) {});  // the lease's own record below tells the outcome
  }
  enqueue({}, {{lease, std::nullopt}}, [this, lease, done = std::move(done)](Result<void> result) {
    if (result) {
      leases_.erase(lease);
    } else if (*alive_ && !stopped_) {
      leases_.at(lease).ending = false;
      arm_lease(lease, kLeaseRetry);
    }
    if (done) done(std::move(result));
  });
}

Task<Result<void>> JournaledStore::revoke_lease(LeaseId lease) {
  if (stopped_) co_return *stopped_;
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.ending)
    co_return make_error(Errc::not_found, fmt::format("lease {} does not exist or has ended", lease));
  const Completion<Result<void>> done(executor_);
  end_lease(lease, [done](Result<void> result) { done.set(std::move(result)); });
  co_return co_await done;
}

Task<Result<StoreStatus>> JournaledStore::status() {
  co_return StoreStatus{mvcc_.revision(), mvcc_.compacted(), mvcc_.keys(), journal_->bytes()};
}

Result<void> JournaledStore::ready() const {
  if (stopped_) return *stopped_;
  if (full_) return *full_;
  return {};
}

}  // namespace moor::store
