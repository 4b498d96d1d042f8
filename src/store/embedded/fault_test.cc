// Disks that are full or fail: what was acknowledged stays, what was not is whole or absent, reads go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/loop.h"
#include "base/task_group.h"
#include "store/embedded/database.h"
#include "store/embedded/embedded_store.h"
#include "store/embedded/testing/fault_vfs.h"
#include "store/embedded/testing/temporary_directory.h"

namespace moor::store {
namespace {
using embedded::FaultVfs;
using embedded::TemporaryDirectory;
using testing::HasSubstr;
using Fault = FaultVfs::Fault;
using Failure = FaultVfs::Failure;
using Operation = FaultVfs::Operation;

class FailingDisk : public testing::Test {
 protected:
  void SetUp() override {
    options_.vfs = vfs_.name();
    open();
    ASSERT_TRUE(put("/kept", "before").ok());
  }
  void open() {
    auto opened = open_embedded_store(loop_, temporary_.path() / "store", options_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store_ = std::move(*opened);
  }
  void reopen() {
    store_.reset();
    open();
  }
  template <class T>
  T await(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  Result<Revision> put(const std::string& key, const std::string& value) {
    return await(store_->put(key, value));
  }
  Result<Committed> put_pair(const std::string& value) {
    Transaction pair;
    pair.writes = {Write::put("/left", value), Write::put("/right", value)};
    return await(store_->commit(std::move(pair)));
  }
  std::string get(const std::string& key) {
    auto read = await(store_->get(key));
    return read.ok() && read->entry ? *read->entry->value : "(none)";
  }
  // The store has stopped: says so, shows nothing of the failed write, reads, and after a restart is whole.
  void expect_stopped_then_recovered() {
    EXPECT_GT(vfs_.faults_hit(), 0u);
    ASSERT_FALSE(store_->ready().ok());
    EXPECT_EQ(get("/kept"), "before");
    EXPECT_EQ(get("/left"), "(none)");
    EXPECT_TRUE(put("/later", "x").is(Errc::unavailable));
    vfs_.clear();
    // The disk is well again; what a failed sync left behind is unknown, so nothing is written all the same.
    EXPECT_TRUE(put("/later", "x").is(Errc::unavailable));
    EXPECT_FALSE(store_->ready().ok());
    reopen();
    EXPECT_TRUE(store_->ready().ok());
    EXPECT_EQ(get("/kept"), "before");
    EXPECT_EQ(get("/later"), "(none)");
    EXPECT_EQ(get("/left"), get("/right"));
    EXPECT_TRUE(put("/later", "y").ok());
    EXPECT_EQ(get("/later"), "y");
  }

  TemporaryDirectory temporary_{"/dev/shm"};  // the faults are ours, no disk is needed
  FaultVfs vfs_;
  Loop loop_;
  EmbeddedOptions options_;
  std::unique_ptr<Store> store_;
};

TEST_F(FailingDisk, FullDiskRefusesWritesAndWorksAgainWhenSpaceReturns) {
  vfs_.inject({.failure = Failure::no_space, .lasting = true});
  for (int i = 0; i < 3; ++i) {
    auto refused = put_pair("refused");
    ASSERT_TRUE(refused.is(Errc::exhausted)) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr("full"));
  }
  EXPECT_TRUE(store_->ready().is(Errc::exhausted));
  EXPECT_EQ(get("/kept"), "before");
  EXPECT_EQ(get("/left"), "(none)");
  vfs_.clear();
  ASSERT_TRUE(put_pair("after").ok());
  EXPECT_TRUE(store_->ready().ok());
  reopen();
  EXPECT_EQ(get("/kept"), "before");
  EXPECT_EQ(get("/left"), "after");
  EXPECT_EQ(get("/right"), "after");
}

TEST_F(FailingDisk, FullDiskInTheMiddleOfAWriteLeavesNothingHalf) {
  // A transaction of many pages; the space ends in each of them in turn.
  for (std::uint64_t nth = 1; nth <= 12; ++nth) {
    vfs_.inject({.failure = Failure::no_space, .lasting = true, .space = (nth - 1) * 4120 + 2000});
    auto refused = put_pair(std::string(20'000, 'x'));
    ASSERT_TRUE(refused.is(Errc::exhausted)) << nth << ": " << refused.error().message;
    EXPECT_EQ(get("/left"), "(none)");
    vfs_.clear();
    ASSERT_TRUE(put("/step", std::to_string(nth)).ok());
  }
  reopen();
  EXPECT_EQ(get("/left"), "(none)");
  EXPECT_EQ(get("/step"), "12");
}

TEST_F(FailingDisk, FullDiskRefusedWriteIsNotFoundByAnOpenRightAfterIt) {
  vfs_.inject({.failure = Failure::no_space, .lasting = true, .space = 500});
  ASSERT_TRUE(put_pair("refused").is(Errc::exhausted));
  // A clean close would need space to copy the log: it must do without.
  store_.reset();
  vfs_.clear();
  open();
  EXPECT_EQ(get("/kept"), "before");
  EXPECT_EQ(get("/left"), "(none)");
}

// Writers that do not wait for one another: some have handed their write over when the space ends, and all of
// that goes, for it may rest on what was refused. Each write names the version that it follows.
TEST_F(FailingDisk, FullDiskRefusesWhatCameBehindItAndNothingElse) {
  constexpr int kWriters = 12;
  constexpr int kWrites = 150;
  struct Count {
    int acknowledged = 0;
    int refused = 0;
  } count;
  struct Run {
    static Task<Result<void>> write(Store* store, FaultVfs* vfs, Count* count, std::string key) {
      Revision last = 0;
      for (int done = 0; done < kWrites;) {
        Transaction next;
        next.compares.push_back(last == 0 ? Compare::absent(key) : Compare::at(key, last));
        next.writes.push_back(Write::put(key, std::to_string(done + 1)));
        auto kept = co_await store->commit(std::move(next));
        if (kept) {
          last = kept->last();
          ++done;
          if (++count->acknowledged % 40 == 0) vfs->inject({.failure = Failure::no_space, .lasting = true});
        } else {
          if (!kept.is(Errc::exhausted)) co_return kept.error();
          if (++count->refused % 5 == 0) vfs->clear();
        }
      }
      co_return Result<void>();
    }
  };
  TaskGroup group(loop_);
  for (int i = 0; i < kWriters; ++i)
    group.spawn(Run::write(store_.get(), &vfs_, &count, "/writer/" + std::to_string(i)));
  const auto result = await(group.join());
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(count.refused, 40);
  vfs_.clear();
  ASSERT_TRUE(put("/kept", "after").ok());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(get("/kept"), "after");
    for (int i = 0; i < kWriters; ++i)
      EXPECT_EQ(get("/writer/" + std::to_string(i)), std::to_string(kWrites));
    reopen();
  }
}

TEST_F(FailingDisk, ACommitIsOneWriteOfTheLogAndOneSync) {
  ASSERT_TRUE(put_pair(std::string(80'000, 'x')).ok());  // makes room for more than the next one
  const std::uint64_t before = vfs_.operations();
  ASSERT_TRUE(put_pair(std::string(5'000, 'x')).ok());
  EXPECT_EQ(vfs_.operations() - before, 2u);
}

TEST_F(FailingDisk, FewCommitsMakeTheLogLonger) {
  const auto log = temporary_.path() / "store" / "store.db-wal";
  int grew = 0;
  auto size = fs::file_size(log);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(put_pair(std::string(5'000, 'x')).ok());
    grew += fs::file_size(log) != size ? 1 : 0;
    size = fs::file_size(log);
  }
  EXPECT_GT(grew, 0);
  EXPECT_LT(grew, 20);
}

TEST_F(FailingDisk, ALogWithoutSpaceForRoomAheadDoesWithout) {
  const auto log = temporary_.path() / "store" / "store.db-wal";
  vfs_.inject({.failure = Failure::no_space, .file_ends_with = "-wal", .space = 500});
  // Of so many pages that it needs more room than the log has.
  ASSERT_TRUE(put_pair(std::string(60'000, 'x')).ok());
  EXPECT_EQ(vfs_.faults_hit(), 1u);
  const auto tight = fs::file_size(log);
  ASSERT_TRUE(put_pair(std::string(5'000, 'x')).ok());
  EXPECT_LT(fs::file_size(log), tight + 10 * embedded::kPageBytes);
  reopen();
  EXPECT_EQ(get("/left"), std::string(5'000, 'x'));
}

TEST_F(FailingDisk, FailedWriteStopsTheStore) {
  vfs_.inject({.operation = Operation::write});
  auto failed = put_pair("lost");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), Errc::timed_out) << failed.error().message;
  expect_stopped_then_recovered();
}

TEST_F(FailingDisk, FailedSyncStopsTheStoreForGood) {
  vfs_.inject({.operation = Operation::sync});
  auto failed = put_pair("unknown");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), Errc::timed_out) << failed.error().message;
  expect_stopped_then_recovered();
}

// The background copy of the log into the database, with a log so short that each write starts one.
class FailingCopy : public FailingDisk {
 protected:
  void SetUp() override {
    options_.checkpoint = {.start = 1, .finish = 1'000'000, .rounds = 1, .limit = 64};
    FailingDisk::SetUp();
  }
  // Writes until one is refused or `most` went well; answers how many did.
  int put_until_refused(int most) {
    for (int i = 0; i < most; ++i) {
      if (!put("/count", std::to_string(i)).ok()) return i;
    }
    return most;
  }
  // The copy that SetUp's write started may already be the one that fails: then none went well.
  static std::string last_of(int written) { return written == 0 ? "(none)" : std::to_string(written - 1); }
};

TEST_F(FailingCopy, FailedWriteToTheDatabaseStopsTheStoreAndLosesNothing) {
  vfs_.inject({.operation = Operation::write, .file_ends_with = "store.db", .lasting = true});
  const int written = put_until_refused(1000);
  ASSERT_LT(written, 1000);
  vfs_.clear();
  expect_stopped_then_recovered();
  EXPECT_EQ(get("/count"), last_of(written));
}

TEST_F(FailingCopy, FailedSyncOfTheDatabaseStopsTheStoreAndLosesNothing) {
  vfs_.inject({.operation = Operation::sync, .file_ends_with = "store.db"});
  const int written = put_until_refused(1000);
  ASSERT_LT(written, 1000);
  expect_stopped_then_recovered();
  EXPECT_EQ(get("/count"), last_of(written));
}

TEST_F(FailingCopy, NoSpaceForTheDatabaseLeavesEverythingInTheLog) {
  vfs_.inject({.failure = Failure::no_space, .file_ends_with = "store.db", .lasting = true});
  EXPECT_EQ(put_until_refused(300), 300);
  EXPECT_GT(vfs_.faults_hit(), 0u);
  EXPECT_TRUE(store_->ready().ok());
  const auto log = temporary_.path() / "store" / "store.db-wal";
  EXPECT_GT(std::filesystem::file_size(log), 300u * embedded::kPageBytes);
  vfs_.clear();
  // A commit that does not make the file longer has begun the log anew.
  bool anew = false;
  for (int i = 0; i < 5'000 && !anew; ++i) {
    const auto before = std::filesystem::file_size(log);
    ASSERT_TRUE(put("/count", "after").ok());
    anew = std::filesystem::file_size(log) == before;
  }
  EXPECT_TRUE(anew);
  reopen();
  EXPECT_EQ(get("/count"), "after");
  EXPECT_EQ(get("/kept"), "before");
}

TEST_F(FailingDisk, FailureWhileOpeningIsAnErrorAndAnotherOpenFindsEverything) {
  for (const Operation operation : {Operation::write, Operation::sync, Operation::truncate}) {
    // A log that the open has to copy: stop the store so that the close leaves it.
    ASSERT_TRUE(put("/logged", "x").ok());
    vfs_.inject({.operation = Operation::sync});
    ASSERT_FALSE(put_pair("unknown").ok());
    store_.reset();
    vfs_.inject({.operation = operation});
    auto opened = open_embedded_store(loop_, temporary_.path() / "store", options_);
    EXPECT_FALSE(opened.ok()) << static_cast<int>(operation);
    EXPECT_EQ(vfs_.faults_hit(), 1u);
    vfs_.clear();
    open();
    EXPECT_EQ(get("/kept"), "before");
    EXPECT_EQ(get("/left"), get("/right"));
  }
}

}  // namespace
}  // namespace moor::store
