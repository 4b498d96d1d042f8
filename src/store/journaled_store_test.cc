// What JournaledStore does when the journal below is slow, full or broken.
#include "store/journaled_store.h"

#include "base/task_group.h"

namespace moor::store {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;

// Answers when the test says so, and with what the test says. What was answered well is what a restart would
// find.
class ScriptedJournal final : public Journal {
 public:
  struct Script {
    std::vector<std::pair<JournalBatch, Done>> pending;
    JournalContent kept;
  };
  explicit ScriptedJournal(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  void append(JournalBatch batch, Done done) override {
    script_->pending.emplace_back(std::move(batch), std::move(done));
  }
  std::uint64_t bytes() const override { return 0; }

  // The oldest one; what fails takes all behind it along.
  static void answer(Executor& executor, Script& script, const Result<void>& result) {
    ASSERT_FALSE(script.pending.empty());
    do {
      auto [batch, done] = std::move(script.pending.front());
      script.pending.erase(script.pending.begin());
      if (result) keep(script.kept, std::move(batch));
      executor.post([done = std::move(done), result] { done(result); });
    } while (!result && !script.pending.empty());
  }

 private:
  static void keep(JournalContent& kept, JournalBatch batch) {
    for (Record& record : batch.records) {
      kept.revision = record.revision;
      kept.records.push_back(std::move(record));
    }
    for (const LeaseRecord& lease : batch.leases) {
      std::erase_if(kept.leases, [&](const LeaseRecord& other) { return other.id == lease.id; });
      if (lease.time_to_live) kept.leases.push_back(lease);
    }
    if (batch.compacted) kept.compacted = *batch.compacted;
    std::erase_if(kept.records, [&](const Record& record) {
      return std::find(batch.forget.begin(), batch.forget.end(), record.revision) != batch.forget.end();
    });
  }
  std::shared_ptr<Script> script_;
};

class JournaledStoreTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }
  void open(JournalContent content) {
    script_ = std::make_shared<ScriptedJournal::Script>();
    script_->kept = content;
    auto store = JournaledStore::open(executor_, std::make_unique<ScriptedJournal>(script_),
                                      std::move(content), options_);
    ASSERT_TRUE(store.ok()) << store.error().message;
    store_ = std::move(*store);
  }
  // Starts a write; its outcome lands in the slot once known.
  void start(Transaction transaction, std::optional<Result<Committed>>& slot) {
    struct Run {
      static Task<Result<void>> run(Store* store, Transaction transaction,
                                    std::optional<Result<Committed>>* slot) {
        slot->emplace(co_await store->commit(std::move(transaction)));
        co_return Result<void>();
      }
    };
    group_.spawn(Run::run(store_.get(), std::move(transaction), &slot));
    executor_.run_ready();
  }
  static Transaction put(std::string key, std::string value) {
    return {{}, {Write::put(std::move(key), std::move(value))}};
  }
  void answer(const Result<void>& result) {
    ScriptedJournal::answer(executor_, *script_, result);
    executor_.run_ready();
  }
  std::string value_of(std::string key) {
    auto read = block_on(executor_, store_->get(std::move(key)));
    return read->entry ? *read->entry->value : "<absent>";
  }
  void TearDown() override {
    store_.reset();
    EXPECT_TRUE(block_on(executor_, group_.join()).ok());
  }

  JournaledOptions options_;
  ManualExecutor executor_;
  TaskGroup group_{executor_};
  std::shared_ptr<ScriptedJournal::Script> script_;
  std::unique_ptr<Store> store_;
};

TEST_F(JournaledStoreTest, NothingIsVisibleOrAcknowledgedBeforeItIsSafe) {
  std::optional<Result<Committed>> first;
  start(put("a", "1"), first);
  EXPECT_FALSE(first.has_value());
  EXPECT_EQ(value_of("a"), "<absent>");
  answer({});
  ASSERT_TRUE(first.has_value() && first->ok());
  EXPECT_EQ(value_of("a"), "1");
}

TEST_F(JournaledStoreTest, WritesGoToTheJournalAtTheEndOfTheirTurnAndAreAnsweredInOrder) {
  std::optional<Result<Committed>> slots[5];
  start(put("k0", "x"), slots[0]);
  for (int i = 1; i < 5; ++i) start(put("k" + std::to_string(i), "x"), slots[i]);
  ASSERT_EQ(script_->pending.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    answer({});
    for (int k = 0; k < 5; ++k) EXPECT_EQ(slots[k].has_value(), k <= i);
    EXPECT_EQ(value_of("k" + std::to_string(i)), "x");
  }
}

TEST_F(JournaledStoreTest, WhatTheJournalHasAtATimeIsBounded) {
  options_.batch_records = 3;
  open({});
  std::optional<Result<Committed>> slots[8];
  for (int i = 0; i < 8; ++i) start(put("k" + std::to_string(i), "x"), slots[i]);
  EXPECT_EQ(script_->pending.size(), 3u);
  answer({});
  EXPECT_EQ(script_->pending.size(), 3u);
  while (!script_->pending.empty()) {
    EXPECT_LE(script_->pending.size(), 3u);
    answer({});
  }
  for (auto& slot : slots) EXPECT_TRUE(slot.has_value() && slot->ok());
}

TEST_F(JournaledStoreTest, AFullJournalRefusesWhatRestsOnItAndGoesOnWhenSpaceReturns) {
  std::optional<Result<Committed>> kept, first, second;
  start(put("a", "old"), kept);
  answer({});
  start(put("a", "new"), first);
  start({{Compare::at("a", (*kept)->last() + 1)}, {Write::put("b", "after a")}}, second);
  answer(make_error(Errc::exhausted, "no space left"));
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_TRUE(first->is(Errc::exhausted));
  EXPECT_TRUE(second->is(Errc::exhausted));
  EXPECT_EQ(value_of("a"), "old");
  EXPECT_TRUE(store_->ready().is(Errc::exhausted));
  std::optional<Result<Committed>> third;
  start(put("b", "again"), third);
  answer({});
  ASSERT_TRUE(third.has_value() && third->ok());
  EXPECT_TRUE(store_->ready().ok());
  EXPECT_EQ(value_of("b"), "again");
}

TEST_F(JournaledStoreTest, AfterAFailedSyncNothingOfItIsVisibleAndReadsGoOn) {
  std::optional<Result<Committed>> kept, lost, waiting, later;
  start(put("a", "old"), kept);
  answer({});
  auto stream = block_on(executor_, store_->watch("", 0));
  EXPECT_EQ(block_on(executor_, (*stream)->next())->events.size(), 1u);
  start(put("a", "new"), lost);
  start(put("b", "x"), waiting);
  answer(make_error(Errc::internal, "fsync: Input/output error"));
  ASSERT_TRUE(lost.has_value() && waiting.has_value());
  EXPECT_TRUE(lost->is(Errc::timed_out));  // it may or may not be found at the next open
  EXPECT_TRUE(waiting->is(Errc::timed_out));
  EXPECT_EQ(value_of("a"), "old");
  start(put("c", "x"), later);
  ASSERT_TRUE(later.has_value());
  EXPECT_TRUE(later->is(Errc::unavailable));
  EXPECT_THAT(later->error().message, HasSubstr("Input/output error"));
  EXPECT_TRUE(store_->ready().is(Errc::unavailable));
  EXPECT_TRUE(script_->pending.empty());
}

TEST_F(JournaledStoreTest, AConflictWithAnInvisibleWriteIsToldOnlyOnceThatIsSettled) {
  std::optional<Result<Committed>> winner, loser;
  start({{Compare::absent("a")}, {Write::put("a", "first")}}, winner);
  start({{Compare::absent("a")}, {Write::put("a", "second")}}, loser);
  EXPECT_FALSE(loser.has_value());
  answer({});
  EXPECT_TRUE(winner.has_value() && winner->ok());
  EXPECT_FALSE(loser.has_value());
  answer({});  // the empty batch by which the loser waits
  ASSERT_TRUE(loser.has_value());
  EXPECT_TRUE(loser->is(Errc::already_exists));
}

TEST_F(JournaledStoreTest, TheLoserOfARaceWinsWhenTheWinnerIsLostToAFullDisk) {
  std::optional<Result<Committed>> winner, loser;
  start({{Compare::absent("a")}, {Write::put("a", "first")}}, winner);
  start({{Compare::absent("a")}, {Write::put("a", "second")}}, loser);
  answer(make_error(Errc::exhausted, "full"));
  EXPECT_TRUE(winner->is(Errc::exhausted));
  answer({});
  ASSERT_TRUE(loser.has_value());
  EXPECT_TRUE(loser->ok());
  EXPECT_EQ(value_of("a"), "second");
}

// Whoever hears of the full disk writes again at once, while the journal still reports what failed with it.
TEST_F(JournaledStoreTest, AWriteThatFollowsARefusalIsNotRefusedWithIt) {
  struct Run {
    static Task<Result<void>> twice(Store* store, std::optional<Result<Committed>>* first,
                                    std::optional<Result<Committed>>* second) {
      first->emplace(co_await store->commit(put("a", "1")));
      second->emplace(co_await store->commit(put("a", "2")));
      co_return Result<void>();
    }
  };
  std::optional<Result<Committed>> first, again, behind;
  group_.spawn(Run::twice(store_.get(), &first, &again));
  executor_.run_ready();
  start(put("b", "1"), behind);
  ASSERT_EQ(script_->pending.size(), 2u);
  answer(make_error(Errc::exhausted, "full"));
  EXPECT_TRUE(first->is(Errc::exhausted));
  EXPECT_TRUE(behind->is(Errc::exhausted));
  EXPECT_FALSE(again.has_value());
  answer({});
  ASSERT_TRUE(again.has_value() && again->ok());
  EXPECT_EQ(value_of("a"), "2");
  EXPECT_EQ(value_of("b"), "<absent>");
}

// What was to be erased with a batch that failed is erased later, and so is what an earlier one still holds.
TEST_F(JournaledStoreTest, AnAskedForCompactionGoesOnAfterAFullDisk) {
  options_.forget_per_batch = 2;
  open({});
  for (int i = 0; i < 9; ++i) {
    std::optional<Result<Committed>> slot;
    start(put("a", std::to_string(i)), slot);
    answer({});
  }
  ASSERT_EQ(script_->kept.records.size(), 9u);
  struct Compact {
    static Task<Result<void>> run(Store* store, std::optional<Result<Revision>>* slot) {
      slot->emplace(co_await store->compact(9));
      co_return Result<void>();
    }
  };
  std::optional<Result<Revision>> compacted;
  group_.spawn(Compact::run(store_.get(), &compacted));
  executor_.run_ready();
  answer(make_error(Errc::exhausted, "full"));
  EXPECT_TRUE(compacted->is(Errc::exhausted));
  EXPECT_EQ(script_->kept.records.size(), 9u);
  std::optional<Result<Committed>> slot;
  start(put("b", "x"), slot);
  while (!script_->pending.empty()) answer({});
  EXPECT_EQ(script_->kept.records.size(), 2u);
  EXPECT_EQ(script_->kept.compacted, 9u);
}

TEST_F(JournaledStoreTest, TooManyWaitingWritersAreTurnedAway) {
  options_.waiting_transactions = 3;
  open({});
  std::optional<Result<Committed>> slots[6];
  for (int i = 0; i < 6; ++i) start(put("k" + std::to_string(i), "x"), slots[i]);
  ASSERT_TRUE(slots[5].has_value());
  EXPECT_TRUE(slots[5]->is(Errc::unavailable));
  while (!script_->pending.empty()) answer({});
  EXPECT_TRUE(slots[2].has_value() && slots[2]->ok());
}

TEST_F(JournaledStoreTest, HistoryIsBoundedAndLeavesTheJournalInOrder) {
  options_.history_records = 20;
  options_.forget_per_batch = 3;
  options_.forget_gathered = 0;
  open({});
  for (int i = 0; i < 60; ++i) {
    std::optional<Result<Committed>> slot;
    start(put("a", std::to_string(i)), slot);
    while (!script_->pending.empty()) {
      EXPECT_LE(script_->pending[0].first.forget.size(), 3u);
      EXPECT_TRUE(
          std::is_sorted(script_->pending[0].first.forget.begin(), script_->pending[0].first.forget.end()));
      answer({});
    }
    ASSERT_TRUE(slot.has_value());
  }
  EXPECT_LE(script_->kept.records.size(), 21u);
  EXPECT_TRUE(block_on(executor_, store_->watch("", 1)).is(Errc::expired));
  // What is left is enough to start again with the same state and history.
  const JournalContent kept = script_->kept;
  const Revision compacted = block_on(executor_, store_->status())->compacted;
  open(kept);
  EXPECT_EQ(value_of("a"), "59");
  EXPECT_EQ(block_on(executor_, store_->status())->compacted, compacted);
  auto stream = block_on(executor_, store_->watch("", compacted));
  EXPECT_EQ(block_on(executor_, (*stream)->next())->events.size(), 60 - compacted);
}

// Whatever of it has left the journal when the process ends: a removal must not leave before what it removed.
TEST_F(JournaledStoreTest, WhatGathersToBeForgottenComesBackWithNoRestart) {
  options_.history_records = 8;
  options_.forget_per_batch = 2;
  options_.forget_gathered = 12;
  open({});
  std::map<std::string, std::string> expected;
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(i * 7 % 11);
    const bool removal = i % 3 == 2;
    std::optional<Result<Committed>> slot;
    start(removal ? Transaction{{}, {Write::remove(key)}} : put(key, std::to_string(i)), slot);
    if (removal)
      expected.erase(key);
    else
      expected[key] = std::to_string(i);
    while (!script_->pending.empty()) {
      answer({});
      Mvcc again;
      ASSERT_TRUE(again.load(script_->kept).ok());
      std::map<std::string, std::string> found;
      const auto page = again.list({});
      for (const Entry& entry : page->entries) found[entry.key] = *entry.value;
      EXPECT_EQ(found, expected) << "after write " << i;
    }
    ASSERT_TRUE(slot.has_value());
    most = std::max(most, script_->kept.records.size());
  }
  EXPECT_LE(most, 11u + 8 + 12 + 2);  // what is live, history, what gathers, a batch
  EXPECT_GT(most, 12u + 8) << "nothing gathered";
}

TEST_F(JournaledStoreTest, HistoryThatIsFarTooLongIsForgottenInSteps) {
  JournalContent content;
  for (Revision revision = 1; revision <= 100; ++revision)
    content.records.push_back({revision, revision, "k" + std::to_string(revision), make_value("x"), 0});
  content.revision = 100;
  options_.history_records = 20;
  options_.forget_per_batch = 10;
  open(std::move(content));
  Revision compacted = 0;
  for (int i = 0; i < 12; ++i) {
    std::optional<Result<Committed>> slot;
    start(put("a" + std::to_string(i), "x"), slot);
    answer({});
    ASSERT_TRUE(slot.has_value() && slot->ok());
    const Revision now = block_on(executor_, store_->status())->compacted;
    EXPECT_LE(now - compacted, 10u);
    compacted = now;
  }
  EXPECT_EQ(compacted, 112u - 20u);
  EXPECT_EQ(value_of("k1"), "x");
}

TEST_F(JournaledStoreTest, ALeaseWhoseEndFindsNoSpaceEndsLater) {
  std::optional<Result<LeaseId>> lease;
  struct Grant {
    static Task<Result<void>> run(Store* store, std::optional<Result<LeaseId>>* slot) {
      slot->emplace(co_await store->grant_lease(5s));
      co_return Result<void>();
    }
  };
  group_.spawn(Grant::run(store_.get(), &lease));
  executor_.run_ready();
  answer({});
  ASSERT_TRUE(lease.has_value() && lease->ok());
  std::optional<Result<Committed>> slot;
  start({{}, {Write::put("a", make_value("x"), **lease)}}, slot);
  answer({});
  executor_.advance(5s);
  answer(make_error(Errc::exhausted, "full"));
  EXPECT_EQ(value_of("a"), "x");
  executor_.advance(2s);
  answer({});
  EXPECT_EQ(value_of("a"), "<absent>");
  EXPECT_TRUE(script_->kept.leases.empty());
}

TEST_F(JournaledStoreTest, ALeaseOutlivesARestartAndThenEnds) {
  JournalContent content;
  content.leases.push_back({7, 10s});
  content.records.push_back({1, 1, "a", make_value("x"), 7});
  content.revision = 1;
  open(content);
  executor_.advance(9s);
  EXPECT_EQ(value_of("a"), "x");
  executor_.advance(2s);
  answer({});
  EXPECT_EQ(value_of("a"), "<absent>");
}

TEST_F(JournaledStoreTest, ContentThatMakesNoSenseIsRefused) {
  JournalContent content;
  content.records = {{2, 2, "a", make_value("x"), 0}, {1, 1, "b", make_value("x"), 0}};
  content.revision = 2;
  auto store = JournaledStore::open(executor_, std::make_unique<ScriptedJournal>(script_), content);
  EXPECT_TRUE(store.is(Errc::corrupt));
}

}  // namespace
}  // namespace moor::store
