#include "store/contract/contract.h"

#include <gmock/gmock.h>

#include "base/task_group.h"

namespace moor::store {
using namespace std::chrono_literals;
using testing::ElementsAre;

Revision StoreContract::created(std::string key, std::string bytes) {
  auto revision = wait(store().create(std::move(key), std::move(bytes)));
  EXPECT_TRUE(revision.ok()) << (revision.ok() ? "" : revision.error().message);
  return revision.value_or(0);
}

std::vector<Event> StoreContract::events_between(Revision after, Revision last, std::string prefix) {
  auto stream = wait(store().watch(std::move(prefix), after));
  std::vector<Event> events;
  if (!stream) {
    ADD_FAILURE() << stream.error().message;
    return events;
  }
  while (events.empty() || events.back().entry.revision < last) {
    auto batch = wait((*stream)->next());
    if (!batch) {
      ADD_FAILURE() << batch.error().message;
      return events;
    }
    events.insert(events.end(), batch->events.begin(), batch->events.end());
  }
  return events;
}

std::string StoreContract::value_of(std::string key) {
  auto read = wait(store().get(std::move(key)));
  if (!read) return "<error: " + read.error().message + ">";
  return read->entry ? *read->entry->value : "<absent>";
}

namespace {

std::vector<std::string> keys_of(const ListPage& page) {
  std::vector<std::string> keys;
  for (const Entry& entry : page.entries) keys.push_back(entry.key);
  return keys;
}

std::vector<std::string> summary(const std::vector<Event>& events) {
  std::vector<std::string> lines;
  for (const Event& event : events)
    lines.push_back(event.kind == Event::Kind::put ? event.entry.key + "=" + *event.entry.value
                                                   : "-" + event.entry.key);
  return lines;
}

TEST_P(StoreContract, StartsEmpty) {
  const auto page = wait(store().list({}));
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->entries.empty());
  EXPECT_TRUE(store().ready().ok());
  EXPECT_EQ(value_of("a"), "<absent>");
}

TEST_P(StoreContract, CreateUpdateRemoveFollowTheirPreconditions) {
  const Revision first = created("a/1", "one");
  EXPECT_TRUE(wait(store().create("a/1", "again")).is(Errc::already_exists));
  EXPECT_TRUE(wait(store().update("a/1", "two", first + 1000)).is(Errc::conflict));
  EXPECT_TRUE(wait(store().update("a/none", "two", first)).is(Errc::not_found));
  EXPECT_EQ(value_of("a/1"), "one");
  const auto second = wait(store().update("a/1", "two", first));
  ASSERT_TRUE(second.ok());
  EXPECT_GT(*second, first);
  EXPECT_EQ(value_of("a/1"), "two");
  EXPECT_TRUE(wait(store().remove("a/1", first)).is(Errc::conflict));
  const auto third = wait(store().remove("a/1", *second));
  ASSERT_TRUE(third.ok());
  EXPECT_GT(*third, *second);
  EXPECT_EQ(value_of("a/1"), "<absent>");
  EXPECT_TRUE(wait(store().remove("a/1", *third)).is(Errc::not_found));
  EXPECT_GT(created("a/1", "reborn"), *third);
}

TEST_P(StoreContract, AReadAnswersTheRevisionOfTheValueAndOfTheStore) {
  const Revision a = created("a");
  const Revision b = created("b");
  const auto read = wait(store().get("a"));
  ASSERT_TRUE(read.ok() && read->entry);
  EXPECT_EQ(read->entry->revision, a);
  EXPECT_GE(read->revision, b);
}

TEST_P(StoreContract, ATransactionIsAppliedWholeOrNotAtAll) {
  const Revision a = created("a", "old");
  Transaction refused;
  refused.compares = {Compare::at("a", a), Compare::absent("b"), Compare::exists("missing")};
  refused.writes = {Write::put("a", "new"), Write::put("b", "new")};
  const auto result = wait(store().commit(refused));
  EXPECT_TRUE(result.is(Errc::not_found));
  EXPECT_THAT(result.error().message, testing::HasSubstr("missing"));
  EXPECT_EQ(value_of("a"), "old");
  EXPECT_EQ(value_of("b"), "<absent>");

  Transaction accepted;
  accepted.compares = {Compare::at("a", a), Compare::absent("b")};
  accepted.writes = {Write::remove("a"), Write::put("c", "3"), Write::put("b", "2")};
  const auto committed = wait(store().commit(accepted));
  ASSERT_TRUE(committed.ok()) << committed.error().message;
  ASSERT_EQ(committed->revisions.size(), 3u);
  EXPECT_LT(a, committed->revisions[0]);
  EXPECT_LT(committed->revisions[0], committed->revisions[1]);
  EXPECT_LT(committed->revisions[1], committed->revisions[2]);
  EXPECT_EQ(wait(store().get("c"))->entry->revision, committed->revisions[1]);
  EXPECT_EQ(wait(store().get("b"))->entry->revision, committed->revisions[2]);
  EXPECT_EQ(value_of("a"), "<absent>");
}

TEST_P(StoreContract, RemovingWhatIsNotThereRefusesTheTransaction) {
  Transaction transaction;
  transaction.writes = {Write::put("a", "1"), Write::remove("missing")};
  EXPECT_TRUE(wait(store().commit(transaction)).is(Errc::not_found));
  EXPECT_EQ(value_of("a"), "<absent>");
}

TEST_P(StoreContract, LimitsAreRefusedWithTheirName) {
  Transaction many;
  for (std::size_t i = 0; i <= kMaxWrites; ++i)
    many.writes.push_back(Write::put("k" + std::to_string(i), "v"));
  EXPECT_TRUE(wait(store().commit(many)).is(Errc::exhausted));
  many.writes.pop_back();
  EXPECT_TRUE(wait(store().commit(many)).ok());
  EXPECT_TRUE(wait(store().create("large", std::string(kMaxValueBytes + 1, 'x'))).is(Errc::exhausted));
  EXPECT_TRUE(wait(store().create("large", std::string(kMaxValueBytes, 'x'))).ok());
  Transaction heavy;
  heavy.writes = {Write::put("h1", std::string(kMaxValueBytes, 'x')),
                  Write::put("h2", std::string(kMaxValueBytes / 2, 'x'))};
  EXPECT_TRUE(wait(store().commit(heavy)).is(Errc::exhausted));
  EXPECT_TRUE(wait(store().create("", "x")).is(Errc::invalid));
  EXPECT_TRUE(wait(store().create(std::string(kMaxKeyBytes + 1, 'k'), "x")).is(Errc::invalid));
  EXPECT_TRUE(wait(store().create("a\nb", "x")).is(Errc::invalid));
  EXPECT_TRUE(wait(store().commit({})).is(Errc::invalid));
  Transaction twice;
  twice.writes = {Write::put("a", "1"), Write::put("a", "2")};
  EXPECT_TRUE(wait(store().commit(twice)).is(Errc::invalid));
}

TEST_P(StoreContract, ValuesAreBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  created("bytes", bytes);
  created("empty", "");
  EXPECT_EQ(value_of("bytes"), bytes);
  EXPECT_EQ(value_of("empty"), "");
  EXPECT_EQ(wait(store().list({.prefix = "empty"}))->entries.size(), 1u);
}

TEST_P(StoreContract, ListsByPrefixInOrderOfKeys) {
  for (const char* key : {"b/2", "a/1", "b/10", "b", "b/1", "c"}) created(key);
  EXPECT_THAT(keys_of(*wait(store().list({.prefix = "b/"}))), ElementsAre("b/1", "b/10", "b/2"));
  EXPECT_THAT(keys_of(*wait(store().list({}))), ElementsAre("a/1", "b", "b/1", "b/10", "b/2", "c"));
  EXPECT_TRUE(wait(store().list({.prefix = "nothing/"}))->entries.empty());
}

TEST_P(StoreContract, PagesShowOneRevisionWhateverIsWrittenMeanwhile) {
  std::vector<Revision> revisions;
  for (int i = 0; i < 5; ++i) revisions.push_back(created("p/" + std::to_string(i), "old"));
  auto page = wait(store().list({.prefix = "p/", .limit = 2}));
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(keys_of(*page), ElementsAre("p/0", "p/1"));
  EXPECT_TRUE(page->more);
  ASSERT_TRUE(wait(store().update("p/2", "new", revisions[2])).ok());
  ASSERT_TRUE(wait(store().remove("p/3", revisions[3])).ok());
  created("p/31");
  const Revision at = page->revision;
  page = wait(store().list({.prefix = "p/", .after = "p/1", .limit = 2, .revision = at}));
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(keys_of(*page), ElementsAre("p/2", "p/3"));
  EXPECT_EQ(*page->entries[0].value, "old");
  EXPECT_EQ(page->entries[0].revision, revisions[2]);
  page = wait(store().list({.prefix = "p/", .after = "p/3", .limit = 2, .revision = at}));
  EXPECT_THAT(keys_of(*page), ElementsAre("p/4"));
  EXPECT_FALSE(page->more);
  EXPECT_THAT(keys_of(*wait(store().list({.prefix = "p/"}))),
              ElementsAre("p/0", "p/1", "p/2", "p/31", "p/4"));
}

TEST_P(StoreContract, APageThatEndsExactlyAtTheLastKeyHasNoMore) {
  created("p/1");
  created("p/2");
  const auto page = wait(store().list({.prefix = "p/", .limit = 2}));
  EXPECT_EQ(page->entries.size(), 2u);
  EXPECT_FALSE(page->more);
}

TEST_P(StoreContract, AListInTheMiddleOfATransactionsRevisionsIsNeverSeen) {
  Transaction pair;
  pair.writes = {Write::put("t/1", "x"), Write::put("t/2", "x")};
  const auto committed = wait(store().commit(pair));
  const auto page = wait(store().list({.prefix = "t/"}));
  EXPECT_EQ(page->entries.size(), 2u);
  EXPECT_GE(page->revision, committed->last());
}

TEST_P(StoreContract, ARevisionThatIsNotThereYetIsUnavailable) {
  const Revision a = created("a");
  EXPECT_TRUE(wait(store().list({.revision = a + 100'000})).is(Errc::unavailable));
}

TEST_P(StoreContract, AWatchSeesEveryWriteOnceInOrder) {
  const Revision start = created("w/0", "0");
  const Revision second = created("w/1", "1");
  created("other", "x");
  Transaction transaction;
  transaction.writes = {Write::put("w/2", "2"), Write::remove("w/0"), Write::put("w/1", "1b")};
  const auto committed = wait(store().commit(transaction));
  ASSERT_TRUE(committed.ok());
  const auto events = events_between(start, committed->last(), "w/");
  EXPECT_THAT(summary(events), ElementsAre("w/1=1", "w/2=2", "-w/0", "w/1=1b"));
  EXPECT_EQ(events[0].entry.revision, second);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[1 + i].entry.revision, committed->revisions[i]);
}

TEST_P(StoreContract, AWatchMayStartInTheMiddleOfATransaction) {
  created("w/0");
  Transaction transaction;
  transaction.writes = {Write::put("w/1", "1"), Write::remove("w/0"), Write::put("w/3", "3")};
  const auto committed = wait(store().commit(transaction));
  const auto events = events_between(committed->revisions[0], committed->last());
  EXPECT_THAT(summary(events), ElementsAre("-w/0", "w/3=3"));
}

TEST_P(StoreContract, AWatchWaitsForWhatComes) {
  const Revision start = created("w/0");
  auto stream = wait(store().watch("w/", start));
  ASSERT_TRUE(stream.ok());
  TaskGroup group(under_test_->executor());
  std::vector<Event> seen;
  struct Run {
    static Task<Result<void>> watch(WatchStream* stream, std::vector<Event>* seen) {
      while (seen->size() < 3) {
        CO_TRY(WatchBatch batch, co_await stream->next());
        seen->insert(seen->end(), batch.events.begin(), batch.events.end());
      }
      co_return Result<void>();
    }
    static Task<Result<void>> write(Store* store) {
      CO_TRY_VOID(co_await store->create("elsewhere", "x"));
      CO_TRY_VOID(co_await store->create("w/1", "x"));
      CO_TRY_VOID(co_await store->create("w/2", "x"));
      CO_TRY_VOID(co_await store->put("w/1", "y"));
      co_return Result<void>();
    }
  };
  group.spawn(Run::watch(stream->get(), &seen));
  group.spawn(Run::write(&store()));
  const auto joined = wait(group.join());
  EXPECT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_THAT(summary(seen), ElementsAre("w/1=x", "w/2=x", "w/1=y"));
}

TEST_P(StoreContract, ATransactionsEventsAreDeliveredTogether) {
  const Revision start = created("start");
  for (int i = 0; i < 30; ++i) {
    Transaction transaction;
    for (int k = 0; k < 70; ++k)
      transaction.writes.push_back(Write::put("t/" + std::to_string(k), std::to_string(i)));
    ASSERT_TRUE(wait(store().commit(transaction)).ok());
  }
  auto stream = wait(store().watch("t/", start));
  ASSERT_TRUE(stream.ok());
  std::size_t total = 0;
  while (total < 30u * 70u) {
    const auto batch = wait((*stream)->next());
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch->events.size() % 70, 0u);
    EXPECT_LE(batch->events.size(), kMaxWatchBatch + kMaxWrites);
    EXPECT_GE(batch->revision, batch->events.back().entry.revision);
    total += batch->events.size();
  }
}

TEST_P(StoreContract, AClosedWatchEnds) {
  const Revision start = created("a");
  auto stream = wait(store().watch("", start));
  ASSERT_TRUE(stream.ok());
  under_test_->executor().post([&] { (*stream)->close(); });
  EXPECT_TRUE(wait((*stream)->next()).is(Errc::cancelled));
}

TEST_P(StoreContract, CompactedRevisionsAreAnExplicitError) {
  const Revision first = created("a", "1");
  const Revision second = *wait(store().update("a", "2", first));
  const Revision third = *wait(store().update("a", "3", second));
  auto behind = wait(store().watch("", first));
  ASSERT_TRUE(behind.ok());
  const auto compacted = wait(store().compact(third));
  ASSERT_TRUE(compacted.ok()) << compacted.error().message;
  EXPECT_TRUE(wait(store().list({.revision = first})).is(Errc::expired));
  EXPECT_EQ(value_of("a"), "3");
  EXPECT_EQ(wait(store().get("a"))->entry->revision, third);
  const auto late = wait(store().watch("", first));
  if (late.ok()) {
    EXPECT_TRUE(wait((*late)->next()).is(Errc::expired));
  } else {
    EXPECT_EQ(late.code(), Errc::expired);
  }
  const Revision fourth = *wait(store().update("a", "4", third));
  EXPECT_THAT(summary(events_between(third, fourth)), ElementsAre("a=4"));
}

TEST_P(StoreContract, RemovedKeysDoNotComeBackAfterCompaction) {
  const Revision first = created("a", "1");
  const Revision second = *wait(store().remove("a", first));
  ASSERT_TRUE(wait(store().compact(second)).ok());
  EXPECT_EQ(value_of("a"), "<absent>");
  under_test_->reopen();
  EXPECT_EQ(value_of("a"), "<absent>");
  EXPECT_GT(created("a", "2"), second);
}

TEST_P(StoreContract, RacingWritersNeverLoseAnUpdate) {
  created("counter", "0");
  TaskGroup group(under_test_->executor());
  struct Writer {
    static Task<Result<void>> run(Store* store, int times) {
      for (int done = 0; done < times;) {
        CO_TRY(const Read read, co_await store->get("counter"));
        const int next = std::stoi(*read.entry->value) + 1;
        const auto written = co_await store->update("counter", std::to_string(next), read.entry->revision);
        if (written) ++done;
        if (!written && !written.is(Errc::conflict)) co_return written.error();
      }
      co_return Result<void>();
    }
  };
  for (int i = 0; i < 16; ++i) group.spawn(Writer::run(&store(), 10));
  const auto joined = wait(group.join());
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(value_of("counter"), "160");
}

TEST_P(StoreContract, AReopenedStoreHasEverythingThatWasAcknowledged) {
  const Revision a = created("a", "1");
  Transaction transaction;
  transaction.writes = {Write::put("b", "2"), Write::put("a", "1b")};
  const auto committed = wait(store().commit(transaction));
  if (!under_test_->reopen()) GTEST_SKIP() << "keeps nothing over a restart";
  EXPECT_EQ(value_of("a"), "1b");
  EXPECT_EQ(wait(store().get("b"))->entry->revision, committed->revisions[0]);
  EXPECT_THAT(summary(events_between(a, committed->last())), ElementsAre("b=2", "a=1b"));
  EXPECT_GT(created("c"), committed->last());
}

TEST_P(StoreContract, AnExpiredLeaseTakesItsKeysWithIt) {
  const auto lease = wait(store().grant_lease(2s));
  ASSERT_TRUE(lease.ok()) << lease.error().message;
  Transaction transaction;
  transaction.writes = {Write::put("l/1", make_value("x"), *lease),
                        Write::put("l/2", make_value("x"), *lease), Write::put("l/3", "x")};
  const auto committed = wait(store().commit(transaction));
  ASSERT_TRUE(committed.ok()) << committed.error().message;
  EXPECT_EQ(wait(store().get("l/1"))->entry->lease, *lease);
  // A later write without the lease takes the key out of it.
  const Revision kept = *wait(store().put("l/2", "kept"));
  under_test_->pass_time(6s);
  auto stream = wait(store().watch("l/", kept));
  const auto batch = wait((*stream)->next());
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(summary(batch->events), ElementsAre("-l/1"));
  EXPECT_EQ(value_of("l/1"), "<absent>");
  EXPECT_EQ(value_of("l/2"), "kept");
  EXPECT_EQ(value_of("l/3"), "x");
  EXPECT_TRUE(wait(store().keep_alive(*lease)).is(Errc::not_found));
  Transaction late;
  late.writes = {Write::put("l/4", make_value("x"), *lease)};
  EXPECT_TRUE(wait(store().commit(late)).is(Errc::not_found));
}

TEST_P(StoreContract, ALeaseKeptAliveStaysAndARevokedOneGoes) {
  const auto lease = wait(store().grant_lease(3s));
  ASSERT_TRUE(lease.ok());
  Transaction transaction;
  transaction.writes = {Write::put("l/1", make_value("x"), *lease)};
  ASSERT_TRUE(wait(store().commit(transaction)).ok());
  for (int i = 0; i < 2; ++i) {
    under_test_->pass_time(2s);
    ASSERT_TRUE(wait(store().keep_alive(*lease)).ok());
  }
  EXPECT_EQ(value_of("l/1"), "x");
  const auto revoked = wait(store().revoke_lease(*lease));
  EXPECT_TRUE(revoked.ok()) << revoked.error().message;
  EXPECT_EQ(value_of("l/1"), "<absent>");
  EXPECT_TRUE(wait(store().revoke_lease(*lease)).is(Errc::not_found));
}

TEST_P(StoreContract, StatusTellsRevisionAndKeys) {
  created("a");
  const Revision b = created("b");
  ASSERT_TRUE(wait(store().remove("b", b)).ok());
  const auto status = wait(store().status());
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->keys, 1u);
  EXPECT_GT(status->revision, b);
}

}  // namespace
}  // namespace moor::store
