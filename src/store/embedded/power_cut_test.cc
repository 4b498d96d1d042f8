// The power goes at each single write, sync and truncation of a workload; the store is opened again on the
// bytes that a disk could have kept.
#include <gtest/gtest.h>

#include <random>

#include "base/log.h"
#include "base/loop.h"
#include "base/random.h"
#include "store/embedded/embedded_store.h"
#include "store/embedded/testing/fault_vfs.h"
#include "store/embedded/testing/temporary_directory.h"

namespace moor::store {
namespace {
using embedded::FaultVfs;
using embedded::TemporaryDirectory;
namespace fs = std::filesystem;

constexpr int kTransactions = 24;

EmbeddedOptions short_log(const std::string& vfs) {
  EmbeddedOptions options;
  options.vfs = vfs;
  // Several copies of the log within the workload.
  options.checkpoint = {.start = 12, .finish = 4, .rounds = 2, .limit = 40};
  return options;
}

Transaction numbered(int number) {
  const std::string text = std::to_string(number);
  Transaction transaction;
  transaction.writes = {Write::put("/a", text), Write::put("/big", text + ":" + std::string(5'000, 'x')),
                        Write::put("/history/" + text, text), Write::put("/z", text)};
  if (number > 8) transaction.writes.push_back(Write::remove("/history/" + std::to_string(number - 8)));
  return transaction;
}

struct Outcome {
  int acknowledged = 0;
  Revision revision = 0;  // of the last acknowledged write
};

Outcome run_workload(const fs::path& directory, const std::string& vfs) {
  Loop loop;
  Outcome outcome;
  auto store = open_embedded_store(loop, directory, short_log(vfs));
  if (!store) return outcome;
  for (int number = 1; number <= kTransactions; ++number) {
    const auto committed = block_on(loop, (*store)->commit(numbered(number)));
    if (!committed) break;
    outcome = {number, committed->last()};
    if (number % 10 == 0 && !block_on(loop, (*store)->compact(outcome.revision - 6))) break;
    if (number == 5 && !block_on(loop, (*store)->grant_lease(std::chrono::hours(1)))) break;
  }
  return outcome;
}

void check_survivors(const fs::path& directory, const Outcome& before) {
  Loop loop;
  auto opened = open_embedded_store(loop, directory);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Store& store = **opened;
  const auto value = [&](const std::string& key) {
    auto read = block_on(loop, store.get(key));
    return read->entry ? *read->entry->value : std::string("0");
  };
  const int number = std::stoi(value("/a"));
  // One transaction was under way; it is there whole, or not at all.
  EXPECT_GE(number, before.acknowledged);
  EXPECT_LE(number, before.acknowledged + 1);
  EXPECT_EQ(value("/z"), std::to_string(number));
  EXPECT_EQ(std::stoi(value("/big")), number);
  auto history = block_on(loop, store.list({.prefix = "/history/"}));
  EXPECT_EQ(history->entries.size(), static_cast<std::size_t>(std::min(number, 8)));
  const StoreStatus status = *block_on(loop, store.status());
  EXPECT_GE(status.revision, before.revision);
  // The history that is left has no hole, and revisions go on above.
  if (status.revision > status.compacted) {
    auto stream = block_on(loop, store.watch("", status.compacted));
    auto batch = block_on(loop, (*stream)->next());
    ASSERT_TRUE(batch.ok());
    Revision expected = status.compacted;
    for (const Event& event : batch->events) EXPECT_EQ(event.entry.revision, ++expected);
    EXPECT_EQ(expected, status.revision);
  }
  auto next = block_on(loop, store.put("/next", "x"));
  ASSERT_TRUE(next.ok());
  EXPECT_GT(*next, status.revision);
}

TEST(PowerCut, AtEveryWriteAndSyncLosesNothingAcknowledged) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  TemporaryDirectory temporary("/dev/shm");
  const fs::path empty = temporary.path() / "empty";
  {
    Loop loop;
    ASSERT_TRUE(open_embedded_store(loop, empty).ok());
  }
  configure_log(LogLevel::off, LogFormat::text);  // each cut would say that the store has stopped
  std::uint64_t cuts = 0;
  bool reached_the_end = false;
  constexpr std::uint64_t kMostOperations = 5'000;
  for (std::uint64_t nth = 1; !reached_the_end && nth < kMostOperations; ++nth) {
    const fs::path place = temporary.path() / "running";
    fs::copy(empty, place);
    FaultVfs vfs;
    vfs.cut_power_at(nth);
    const Outcome outcome = run_workload(place, vfs.name());
    reached_the_end = !vfs.is_cut();
    for (const auto unsynced :
         {FaultVfs::Unsynced::lost, FaultVfs::Unsynced::kept, FaultVfs::Unsynced::any_sectors}) {
      SCOPED_TRACE("cut at operation " + std::to_string(nth) + ", unsynced " +
                   std::to_string(static_cast<int>(unsynced)));
      const fs::path after = temporary.path() / "after";
      fs::create_directory(after);
      vfs.write_survivors(after, unsynced, random);
      // Before the first operation the files were not even opened for writing.
      if (!fs::exists(after / "store.db")) fs::copy_file(empty / "store.db", after / "store.db");
      check_survivors(after, outcome);
      if (testing::Test::HasFailure()) return;
      fs::remove_all(after);
    }
    fs::remove_all(place);
    ++cuts;
  }
  configure_log(LogLevel::warn, LogFormat::text);
  EXPECT_TRUE(reached_the_end);
  EXPECT_GT(cuts, 100u);
}

}  // namespace
}  // namespace moor::store
