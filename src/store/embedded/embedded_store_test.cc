// What the embedded store does beyond the contract of all stores: files, restarts, refusals.
#include "store/embedded/embedded_store.h"
#include "store/embedded/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/loop.h"
#include "base/task_group.h"
#include "store/embedded/testing/temporary_directory.h"

namespace moor::store {
namespace {
using embedded::TemporaryDirectory;
using testing::HasSubstr;
namespace fs = std::filesystem;

class EmbeddedStore : public testing::Test {
 protected:
  Result<std::unique_ptr<Store>> try_open() { return open_embedded_store(loop_, directory(), options_); }
  void open() {
    auto opened = try_open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store_ = std::move(*opened);
  }
  void close() { store_.reset(); }
  template <class T>
  T await(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  void put(const std::string& key, const std::string& value) {
    auto done = await(store_->put(key, value));
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  std::string get(const std::string& key) {
    auto read = await(store_->get(key));
    return read.ok() && read->entry ? *read->entry->value : "(none)";
  }
  StoreStatus status() { return *await(store_->status()); }
  fs::path directory() const { return temporary_.path() / "store"; }
  fs::path file() const { return directory() / "store.db"; }
  // As another program would: straight into the file.
  void sql(const std::string& text) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &raw), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, text.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_free(message);
    sqlite3_close(raw);
  }
  void expect_damaged(const std::string& what) {
    auto opened = try_open();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.code(), Errc::corrupt) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(what));
    EXPECT_THAT(opened.error().message, HasSubstr("moord store check"));
  }

  TemporaryDirectory temporary_;
  Loop loop_;
  EmbeddedOptions options_;
  std::unique_ptr<Store> store_;
};

TEST_F(EmbeddedStore, KeepsEverythingOverARestart) {
  open();
  put("/a", "one");
  put("/b", std::string("\0\xff", 2));
  put("/empty", "");
  put("/a", "two");
  put("/gone", "x");
  ASSERT_TRUE(await(store_->remove("/gone", 5)).ok());
  close();
  open();
  EXPECT_EQ(get("/a"), "two");
  EXPECT_EQ(get("/b"), std::string("\0\xff", 2));
  EXPECT_EQ(get("/empty"), "");
  EXPECT_EQ(get("/gone"), "(none)");
  EXPECT_EQ(status().revision, 6u);
  put("/a", "three");
  EXPECT_EQ(status().revision, 7u);
}

TEST_F(EmbeddedStore, WatchGoesOnOverARestartWithoutGapOrRepeat) {
  open();
  put("/a", "1");
  put("/a", "2");
  close();
  open();
  put("/a", "3");
  auto stream = await(store_->watch("/", 1));
  ASSERT_TRUE(stream.ok());
  auto batch = await((*stream)->next());
  ASSERT_TRUE(batch.ok());
  ASSERT_EQ(batch->events.size(), 2u);
  EXPECT_EQ(*batch->events[0].entry.value, "2");
  EXPECT_EQ(*batch->events[1].entry.value, "3");
}

TEST_F(EmbeddedStore, LeasesAndTheirKeysSurviveARestart) {
  open();
  auto lease = await(store_->grant_lease(std::chrono::hours(1)));
  auto ended = await(store_->grant_lease(std::chrono::hours(1)));
  ASSERT_TRUE(lease.ok() && ended.ok());
  Transaction write;
  write.writes.push_back(Write::put("/leased", make_value("x"), *lease));
  ASSERT_TRUE(await(store_->commit(write)).ok());
  ASSERT_TRUE(await(store_->revoke_lease(*ended)).ok());
  close();
  open();
  EXPECT_TRUE(await(store_->keep_alive(*lease)).ok());
  EXPECT_TRUE(await(store_->keep_alive(*ended)).is(Errc::not_found));
  ASSERT_TRUE(await(store_->revoke_lease(*lease)).ok());
  EXPECT_EQ(get("/leased"), "(none)");
}

TEST_F(EmbeddedStore, CompactedHistoryLeavesTheFile) {
  open();
  for (int i = 0; i < 200; ++i) put("/a", std::to_string(i));
  ASSERT_TRUE(await(store_->compact(150)).ok());
  close();
  open();
  EXPECT_EQ(status().compacted, 150u);
  EXPECT_EQ(get("/a"), "199");
  EXPECT_TRUE(await(store_->watch("/", 149)).is(Errc::expired));
  EXPECT_TRUE(await(store_->watch("/", 150)).ok());
  close();
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &raw), SQLITE_OK);
  sqlite3_stmt* count = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(raw, "SELECT count(*) FROM entries", -1, &count, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_step(count), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int(count, 0), 51);
  sqlite3_finalize(count);
  sqlite3_close(raw);
}

TEST_F(EmbeddedStore, FilesAreForTheOwnerOnlyAndACleanCloseLeavesNoLog) {
  open();
  put("/a", "secret");
  close();
  struct stat info {};
  ASSERT_EQ(stat(directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(fs::file_size(file().string() + "-wal"), 0u);
  EXPECT_FALSE(fs::exists(file().string() + ".new"));
}

TEST_F(EmbeddedStore, SecondOpenIsRefusedAndNamesTheProcess) {
  open();
  auto second = try_open();
  ASSERT_TRUE(second.is(Errc::unavailable));
  EXPECT_THAT(second.error().message, HasSubstr("already open by process " + std::to_string(getpid())));
  close();
  open();
}

TEST_F(EmbeddedStore, AnotherProcessIsRefusedToo) {
  open();
  put("/a", "1");
  const pid_t child = fork();
  if (child == 0) {
    // Inherited descriptors share our lock; a program of its own would have none of them.
    Loop loop;
    const auto second = open_embedded_store(loop, directory());
    _exit(second.is(Errc::unavailable) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(EmbeddedStore, AlteredRowIsRefused) {
  open();
  put("/a", "1");
  close();
  sql("UPDATE entries SET value = x'32'");
  expect_damaged("revision 1 has a wrong checksum");
}

TEST_F(EmbeddedStore, MissingRowIsRefused) {
  open();
  put("/a", "1");
  put("/b", "1");
  close();
  sql("DELETE FROM entries WHERE revision = 2");
  expect_damaged("missing, extra or altered");
}

TEST_F(EmbeddedStore, RowOfAnotherStoreIsRefused) {
  open();
  put("/a", "1");
  close();
  // A row that is right in itself, with its own checksum, but not of this place.
  sql("INSERT INTO entries SELECT revision + 1, txn + 1, key, value, lease, checksum FROM entries");
  expect_damaged("revision 2 has a wrong checksum");
}

TEST_F(EmbeddedStore, AlteredMetaDataIsRefused) {
  open();
  put("/a", "1");
  close();
  sql("UPDATE meta SET revision = 0");
  expect_damaged("meta data has a wrong checksum");
}

TEST_F(EmbeddedStore, MissingTableIsRefused) {
  open();
  close();
  sql("DROP TABLE leases");
  expect_damaged("leases");
}

TEST_F(EmbeddedStore, FlippedBitAnywhereInTheDataIsRefused) {
  open();
  for (int i = 0; i < 50; ++i)
    put("/key/" + std::to_string(i), std::string(1000, static_cast<char>('a' + i % 26)));
  close();
  const auto size = fs::file_size(file());
  ASSERT_GT(size, 50'000u);
  std::string good(size, '\0');
  std::ifstream(file(), std::ios::binary).read(good.data(), static_cast<std::streamsize>(size));
  int refused = 0;
  int tried = 0;
  // Rows lie at the end of their pages.
  for (std::size_t at = embedded::kPageBytes * 5 - 500; at < size; at += embedded::kPageBytes, ++tried) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(file(), std::ios::binary).write(bad.data(), static_cast<std::streamsize>(size));
    auto opened = try_open();
    if (opened.is(Errc::corrupt)) ++refused;
  }
  EXPECT_EQ(refused, tried);
  std::ofstream(file(), std::ios::binary).write(good.data(), static_cast<std::streamsize>(size));
  open();
  EXPECT_EQ(status().keys, 50u);
}

TEST_F(EmbeddedStore, TruncatedOrEmptyFileIsRefusedNotStartedAnew) {
  open();
  for (int i = 0; i < 50; ++i) put("/key/" + std::to_string(i), std::string(1000, 'x'));
  close();
  fs::resize_file(file(), fs::file_size(file()) - 8192);
  expect_damaged("");
  fs::resize_file(file(), 0);
  expect_damaged("only 0 bytes");
  EXPECT_EQ(fs::file_size(file()), 0u);
}

TEST_F(EmbeddedStore, LogWithoutItsDatabaseIsRefused) {
  open();
  put("/a", "1");
  close();
  fs::remove(file());
  std::ofstream(file().string() + "-wal") << "something";
  EXPECT_TRUE(try_open().is(Errc::corrupt));
}

TEST_F(EmbeddedStore, NewerFormatIsRefusedNamingBothVersions) {
  open();
  close();
  sql("PRAGMA user_version = 7");
  auto opened = try_open();
  ASSERT_TRUE(opened.is(Errc::unsupported));
  EXPECT_THAT(opened.error().message, HasSubstr("format 7"));
  EXPECT_THAT(opened.error().message, HasSubstr("up to format 1"));
}

TEST_F(EmbeddedStore, AnotherProgramsDatabaseIsRefusedUntouched) {
  fs::create_directory(directory());
  sql("CREATE TABLE songs(name TEXT)");
  auto opened = try_open();
  ASSERT_TRUE(opened.is(Errc::invalid));
  EXPECT_THAT(opened.error().message, HasSubstr("another program's"));
  sql("SELECT name FROM songs");
}

TEST_F(EmbeddedStore, MissingParentDirectoryIsAnError) {
  EXPECT_TRUE(open_embedded_store(loop_, temporary_.path() / "no" / "such").is(Errc::not_found));
}

TEST_F(EmbeddedStore, HalfMadeStoreOfACrashIsMadeAnew) {
  fs::create_directory(directory());
  std::ofstream(file().string() + ".new") << "half";
  std::ofstream(file().string() + ".new-journal") << "half";
  open();
  put("/a", "1");
  close();
  open();
  EXPECT_EQ(get("/a"), "1");
}

Task<Result<void>> write_many(Store* store, int writer, int count, std::string value) {
  for (int i = 0; i < count; ++i)
    CO_TRY_VOID(co_await store->put("/w" + std::to_string(writer) + "/" + std::to_string(i % 20), value));
  co_return Result<void>();
}

TEST_F(EmbeddedStore, LogStaysShortWhileManyWrite) {
  options_.checkpoint.start = 50;
  options_.checkpoint.restart = 100;
  options_.checkpoint.finish = 10;
  options_.checkpoint.limit = 400;
  open();
  TaskGroup group(loop_);
  for (int writer = 0; writer < 16; ++writer)
    group.spawn(write_many(store_.get(), writer, 200, std::string(2000, 'v')));
  auto done = await(group.join());
  ASSERT_TRUE(done.ok()) << done.error().message;
  // 3,200 writes of 2 KB are 6 MB of pages at least; one batch beyond the limit is the most there can be.
  EXPECT_LT(fs::file_size(file().string() + "-wal"), (400u + 100u) * (embedded::kPageBytes + 100));
  close();
  open();
  EXPECT_EQ(status().revision, 3200u);
  EXPECT_EQ(status().keys, 16u * 20u);
}

TEST_F(EmbeddedStore, WritesUnderWayAtCloseAreAnsweredAndKeptWholeOrNotAtAll) {
  constexpr int kWriters = 4;
  // The four tasks stage their writes; the fifth turn hands them to the journal.
  for (const int turns : {kWriters, kWriters + 1}) {
    open();
    const Revision before = status().revision;
    TaskGroup group(loop_);
    for (int writer = 0; writer < kWriters; ++writer) group.spawn(write_many(store_.get(), writer, 1, "v"));
    for (int turn = 0; turn < turns; ++turn) ASSERT_TRUE(loop_.run_one());
    close();
    EXPECT_TRUE(await(group.join()).is(Errc::timed_out));
    open();
    EXPECT_EQ(status().revision - before, turns == kWriters ? 0u : 4u);
    close();
  }
}

}  // namespace
}  // namespace moor::store
