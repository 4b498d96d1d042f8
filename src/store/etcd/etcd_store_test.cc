// What is special about the store in etcd, on one real server: revisions inside transactions, compaction,
// leases, foreign data, limits and slow readers. The contract itself is in contract_test.cc.
#include "store/etcd/etcd_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "base/task_group.h"
#include "store/etcd/under_test.h"
#include "store/etcd/wire.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct EtcdStoreTest : WithEtcd {
  void SetUp() override {
    WithEtcd::SetUp();
    if (IsSkipped()) return;
    start();
    store_ = open();
    ASSERT_NE(store_, nullptr);
  }
  void TearDown() override { store_.reset(); }

  Revision put(const std::string& key, const std::string& bytes = "x") {
    const auto revision = wait(store_->put(key, bytes));
    EXPECT_TRUE(revision.ok()) << revision.error().message;
    return revision.value_or(0);
  }
  Committed commit(Transaction transaction) {
    auto committed = wait(store_->commit(std::move(transaction)));
    EXPECT_TRUE(committed.ok()) << committed.error().message;
    return committed.ok() ? *committed : Committed{{0}};
  }
  // A page as text, read in pages of `limit`.
  std::string state_at(Revision revision, std::size_t limit, std::string prefix = "") {
    std::string text;
    ListRequest request{.prefix = std::move(prefix), .limit = limit, .revision = revision};
    while (true) {
      const auto page = wait(store_->list(request));
      if (!page) return "<" + page.error().message + ">";
      EXPECT_EQ(page->revision, revision);
      for (const Entry& entry : page->entries) text += entry.key + "=" + *entry.value + " ";
      if (!page->more) return text;
      EXPECT_EQ(page->entries.size(), limit);
      request.after = page->entries.back().key;
    }
  }
  std::string next_batch(WatchStream& stream) {
    const auto batch = wait(stream.next());
    if (!batch) return "<" + std::string(to_string(batch.code())) + ">";
    std::string text;
    for (const Event& event : batch->events)
      text += (event.kind == Event::Kind::put ? "+" : "-") + event.entry.key + " ";
    return text;
  }
  // As any other client of the same etcd would.
  void write_raw(const std::string& key, const std::string& value) {
    const auto link = Link::make(loop_, options());
    CommitCall call;
    call.changes.push_back({key, value, 0});
    ASSERT_TRUE(wait((*link)->commit(call, 5s)).has_value());
  }

  std::unique_ptr<Store> store_;
};

TEST_F(EtcdStoreTest, EveryStateInsideATransactionCanBeListed) {
  put("a", "0");
  put("c", "0");
  put("e", "0");
  Transaction transaction;
  transaction.writes = {Write::put("b", "1"), Write::remove("c"), Write::put("a", "1"), Write::remove("e"),
                        Write::put("d", "1")};
  const Committed committed = commit(std::move(transaction));
  const Revision later = put("z", "2");
  for (const std::size_t limit : {0, 1, 2, 3}) {
    const auto& at = committed.revisions;
    EXPECT_EQ(state_at(at[0], limit), "a=0 b=1 c=0 e=0 ");
    EXPECT_EQ(state_at(at[1], limit), "a=0 b=1 e=0 ");
    EXPECT_EQ(state_at(at[2], limit), "a=1 b=1 e=0 ");
    EXPECT_EQ(state_at(at[3], limit), "a=1 b=1 ");
    EXPECT_EQ(state_at(at[4], limit), "a=1 b=1 d=1 ");
    EXPECT_EQ(state_at(later, limit), "a=1 b=1 d=1 z=2 ");
    EXPECT_EQ(state_at(at[0], limit, "e"), "e=0 ");
  }
}

TEST_F(EtcdStoreTest, ARevisionJustBehindTheNewestIsNotThereYet) {
  const Revision newest = put("a");
  EXPECT_TRUE(wait(store_->list({.revision = newest})).ok());
  EXPECT_TRUE(wait(store_->list({.revision = newest + 1})).is(Errc::unavailable));
}

TEST_F(EtcdStoreTest, AWatchFromEveryRevisionOfATransactionDeliversTheRest) {
  put("w/a");
  Transaction transaction;
  transaction.writes = {Write::remove("w/a"), Write::put("other", "1"), Write::put("w/b", "1"),
                        Write::put("w/c", "1")};
  const Committed committed = commit(std::move(transaction));
  const std::vector<std::string> expected{"+w/b +w/c ", "+w/b +w/c ", "+w/c "};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    auto stream = wait(store_->watch("w/", committed.revisions[i]));
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(next_batch(**stream), expected[i]);
  }
}

TEST_F(EtcdStoreTest, TheRevisionOfANeighbourInTheSameTransactionIsNotOnesOwn) {
  Transaction transaction;
  transaction.writes = {Write::put("a", "1"), Write::put("b", "1")};
  const Committed committed = commit(std::move(transaction));
  EXPECT_TRUE(wait(store_->update("a", "2", committed.revisions[1])).is(Errc::conflict));
  EXPECT_TRUE(wait(store_->update("b", "2", committed.revisions[0])).is(Errc::conflict));
  const auto page = wait(store_->list({}));
  EXPECT_TRUE(wait(store_->update("a", "2", page->revision)).is(Errc::conflict));
  EXPECT_TRUE(wait(store_->remove("a", 0)).is(Errc::conflict));
  EXPECT_TRUE(wait(store_->update("absent", "2", 0)).is(Errc::not_found));
  EXPECT_TRUE(wait(store_->update("b", "2", committed.revisions[1])).ok());
}

// The worst that validate() lets through: long keys in a hundred compares, ninety-nine removals of other
// keys, and a value that fills up the rest.
TEST_F(EtcdStoreTest, TheLargestTransactionsPassEtcdsLimits) {
  const auto key = [](const char* kind, int i) {
    std::string name = fmt::format("{}/{:03}/", kind, i);
    return name + std::string(kMaxKeyBytes - name.size(), 'k');
  };
  Transaction guards;
  Transaction victims;
  for (int i = 0; i < 100; ++i) guards.writes.push_back(Write::put(key("guard", i), "x"));
  for (int i = 0; i < 99; ++i) victims.writes.push_back(Write::put(key("victim", i), "x"));
  const Committed guarded = commit(std::move(guards));
  commit(std::move(victims));
  Transaction largest;
  std::size_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    largest.compares.push_back(Compare::at(key("guard", i), guarded.revisions[static_cast<std::size_t>(i)]));
    bytes += kMaxKeyBytes;
  }
  for (int i = 0; i < 99; ++i) {
    largest.writes.push_back(Write::remove(key("victim", i)));
    bytes += kMaxKeyBytes;
  }
  const std::size_t room = std::min(kMaxValueBytes, kMaxTransactionBytes - bytes - 3);
  largest.writes.push_back(Write::put("big", std::string(room, 'v')));
  Transaction wrong = largest;
  wrong.compares.back().revision = guarded.revisions[0];
  EXPECT_TRUE(wait(store_->commit(wrong)).is(Errc::conflict));
  EXPECT_EQ(commit(std::move(largest)).revisions.size(), 100u);
  EXPECT_EQ(wait(store_->status())->keys, 101u);
}

TEST_F(EtcdStoreTest, ForeignDataIsNamedAndNeverGuessedAround) {
  const Revision start = put("good");
  auto stream = wait(store_->watch("", start));
  ASSERT_TRUE(stream.ok());
  write_raw("/test/d/bad", "hello");
  const auto read = wait(store_->get("bad"));
  ASSERT_TRUE(read.is(Errc::corrupt));
  EXPECT_THAT(read.error().message, HasSubstr("/test/d/bad"));
  EXPECT_TRUE(wait(store_->list({})).is(Errc::corrupt));
  EXPECT_TRUE(wait(store_->list({.prefix = "good"})).ok());
  const auto batch = wait((*stream)->next());
  ASSERT_TRUE(batch.is(Errc::corrupt));
  EXPECT_THAT(batch.error().message, HasSubstr("/test/d/bad"));
  EXPECT_TRUE(wait(store_->update("bad", "x", start)).is(Errc::corrupt));
}

TEST_F(EtcdStoreTest, ARootThatIsNotOursIsRefusedAtOpen) {
  write_raw("/other/d/key", "hello");
  EtcdOptions other = options();
  other.root = "/other";
  const auto foreign = wait(open_etcd_store(loop_, other));
  ASSERT_TRUE(foreign.is(Errc::corrupt));
  EXPECT_THAT(foreign.error().message, HasSubstr("/other/d/key"));
  write_raw("/test/zzz", "hello");
  EXPECT_TRUE(wait(open_etcd_store(loop_, options())).is(Errc::corrupt));
  write_raw("/newer/f", "mooring-store 2");
  other.root = "/newer";
  EXPECT_TRUE(wait(open_etcd_store(loop_, other)).is(Errc::unsupported));
}

TEST_F(EtcdStoreTest, CompactionNeverHidesARemovalFromAWatch) {
  const Revision first = put("a");
  const Revision second = *wait(store_->remove("a", first));
  // etcd compacts to the very revision of the removal, and forgets the removal with it.
  ASSERT_EQ(*wait(store_->compact(second)), second);
  const auto gap = wait(store_->watch("", first));
  EXPECT_TRUE(gap.is(Errc::expired));
  auto stream = wait(store_->watch("", second));
  ASSERT_TRUE(stream.ok());
  put("b");
  EXPECT_EQ(next_batch(**stream), "+b ");
  EXPECT_EQ(wait(store_->status())->compacted, second);
  store_ = open();
  EXPECT_EQ(wait(store_->status())->compacted, second);
  EXPECT_EQ(*wait(store_->compact(first)), second);
}

TEST_F(EtcdStoreTest, CompactionInsideATransactionKeepsItsRest) {
  put("a");
  Transaction transaction;
  transaction.writes = {Write::put("b", "1"), Write::remove("a"), Write::put("c", "1")};
  const Committed committed = commit(std::move(transaction));
  put("d");
  const auto compacted = wait(store_->compact(committed.revisions[0]));
  ASSERT_TRUE(compacted.ok());
  EXPECT_LE(*compacted, committed.revisions[0]);
  auto stream = wait(store_->watch("", committed.revisions[0]));
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(next_batch(**stream), "-a +c +d ");
  EXPECT_EQ(state_at(committed.revisions[0], 0), "a=x b=1 ");
  EXPECT_EQ(*wait(store_->compact(committed.last())), committed.last());
  EXPECT_TRUE(wait(store_->watch("", committed.revisions[0])).is(Errc::expired));
  EXPECT_TRUE(wait(store_->list({.revision = committed.revisions[1]})).is(Errc::expired));
}

// The watch is stuck behind a full buffer when etcd forgets what it has not read yet.
TEST_F(EtcdStoreTest, CompactionUnderAWatcherThatIsBehindExpiresIt) {
  EtcdOptions small = options();
  small.watch_buffer_events = 1;
  small.watch_patience = 100s;
  const auto reader = open(small);
  const Revision start = put("a", "0");
  auto stream = wait(reader->watch("", start));
  ASSERT_TRUE(stream.ok());
  Revision last = 0;
  const std::string large(200'000, 'x');
  for (int i = 0; i < 400; ++i) last = put("a", large);  // more than connection and server buffer
  ASSERT_TRUE(wait(store_->compact(last)).ok());
  // Either way without a gap: what was on its way already, in order, then the end.
  Revision seen = start;
  while (true) {
    const auto batch = wait((*stream)->next());
    if (!batch) {
      EXPECT_EQ(batch.code(), Errc::expired);
      break;
    }
    for (const Event& event : batch->events) {
      EXPECT_EQ(etcd_revision(event.entry.revision), etcd_revision(seen) + 1);
      seen = event.entry.revision;
    }
    if (seen == last) break;
  }
}

TEST_F(EtcdStoreTest, AReaderThatIsTooSlowIsEndedNotBuffered) {
  EtcdOptions small = options();
  small.watch_buffer_bytes = 4096;
  small.watch_patience = 300ms;
  const auto reader = open(small);
  small.watch_patience = 100s;
  const auto patient = open(small);
  const Revision start = put("a");
  auto slow = wait(reader->watch("", start));
  auto late = wait(patient->watch("", start));
  ASSERT_TRUE(slow.ok() && late.ok());
  for (int i = 0; i < 200; ++i) put("a", std::string(1000, 'x'));
  int seen = 0;
  while (seen < 200) {
    const auto batch = wait((*late)->next());
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    seen += static_cast<int>(batch->events.size());
  }
  EXPECT_EQ(seen, 200);
  pass(600ms);
  const auto ended = wait((*slow)->next());
  EXPECT_TRUE(ended.is(Errc::expired));
}

TEST_F(EtcdStoreTest, TheKeysOfALeaseLeaveWithRevisionsOfTheirOwn) {
  const auto lease = wait(store_->grant_lease(100s));
  ASSERT_TRUE(lease.ok());
  Revision last = 0;
  for (const char* half : {"x", "y"}) {
    Transaction transaction;
    for (int i = 0; i < 60; ++i)
      transaction.writes.push_back(Write::put(fmt::format("{}/{:02}", half, i), make_value("v"), *lease));
    last = commit(std::move(transaction)).last();
  }
  auto stream = wait(store_->watch("", last));
  ASSERT_TRUE(wait(store_->revoke_lease(*lease)).ok());
  const auto batch = wait((*stream)->next());
  ASSERT_TRUE(batch.ok());
  ASSERT_EQ(batch->events.size(), 120u);
  Revision before = last;
  for (const Event& event : batch->events) {
    EXPECT_EQ(event.kind, Event::Kind::remove);
    EXPECT_GT(event.entry.revision, before);
    before = event.entry.revision;
  }
  EXPECT_TRUE(wait(store_->list({}))->entries.empty());
  // A state inside the expiry, and a watch from there.
  const Revision middle = batch->events[99].entry.revision;
  EXPECT_EQ(wait(store_->list({.revision = middle}))->entries.size(), 20u);
  auto rest = wait(store_->watch("", middle));
  EXPECT_EQ(wait((*rest)->next())->events.size(), 20u);
  EXPECT_GT(put("after"), before);
}

TEST_F(EtcdStoreTest, MoreKeysThanFitIntoOneRevisionExpireTheWatch) {
  const auto lease = wait(store_->grant_lease(100s));
  Revision last = 0;
  for (int part = 0; part < 3; ++part) {
    Transaction transaction;
    for (int i = 0; i < 100; ++i)
      transaction.writes.push_back(Write::put(fmt::format("{}/{:02}", part, i), make_value("v"), *lease));
    last = commit(std::move(transaction)).last();
  }
  auto stream = wait(store_->watch("", last));
  ASSERT_TRUE(wait(store_->revoke_lease(*lease)).ok());
  EXPECT_EQ(next_batch(**stream), "<expired>");
  const auto page = wait(store_->list({}));
  EXPECT_TRUE(page->entries.empty());
  auto again = wait(store_->watch("", page->revision));
  put("after");
  EXPECT_EQ(next_batch(**again), "+after ");
}

TEST_F(EtcdStoreTest, LongListsComeInPartsOfOneState) {
  std::map<std::string, std::size_t> expected;
  for (int i = 0; i < 30; ++i) {
    Transaction transaction;
    for (int k = 0; k < 100; ++k) {
      const std::string key = fmt::format("k/{:02}/{:02}", i, k);
      const std::size_t size = k == 0 ? 300'000 : 10;
      transaction.writes.push_back(Write::put(key, std::string(size, 'x')));
      expected[key] = size;
    }
    commit(std::move(transaction));
  }
  const auto page = wait(store_->list({.prefix = "k/"}));
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_FALSE(page->more);
  std::map<std::string, std::size_t> found;
  for (const Entry& entry : page->entries) found[entry.key] = entry.value->size();
  EXPECT_EQ(found, expected);
}

TEST_F(EtcdStoreTest, TwoServersShareOneStore) {
  const auto second = open();
  const Revision start = put("a", "1");
  auto stream = wait(second->watch("", start));
  ASSERT_TRUE(stream.ok());
  const Revision b = put("b", "1");
  EXPECT_EQ(next_batch(**stream), "+b ");
  EXPECT_EQ(wait(second->get("b"))->entry->revision, b);
  EXPECT_TRUE(wait(second->update("a", "2", start)).ok());
  EXPECT_TRUE(wait(store_->update("a", "3", start)).is(Errc::conflict));
}

struct Endings {
  std::optional<Errc> watch;
  std::optional<Errc> commit;
  std::optional<Errc> read;
};
Task<Result<void>> until_closed(WatchStream* stream, Endings* endings) {
  const auto batch = co_await stream->next();
  endings->watch = batch.code();
  co_return Result<void>();
}
Task<Result<void>> commit_hanging(Store* store, Endings* endings) {
  const auto revision = co_await store->put("k", "v");
  endings->commit = revision.code();
  co_return Result<void>();
}
Task<Result<void>> read_hanging(Store* store, Endings* endings) {
  const auto read = co_await store->get("k");
  endings->read = read.code();
  co_return Result<void>();
}

TEST_F(EtcdStoreTest, ClosingTheStoreEndsWhatIsUnderWay) {
  const Revision start = put("a");
  auto stream = wait(store_->watch("", start));
  server_->freeze(0);
  Endings endings;
  TaskGroup group(loop_);
  group.spawn(until_closed(stream->get(), &endings));
  group.spawn(commit_hanging(store_.get(), &endings));
  group.spawn(read_hanging(store_.get(), &endings));
  pass(200ms);
  store_.reset();
  EXPECT_TRUE(wait(group.join()).ok());
  EXPECT_EQ(endings.watch, Errc::cancelled);
  EXPECT_EQ(endings.commit, Errc::timed_out);
  EXPECT_EQ(endings.read, Errc::cancelled);
}

}  // namespace
}  // namespace moor::store::etcd
