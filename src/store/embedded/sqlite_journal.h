// SqliteJournal: makes a JournaledStore durable in one directory. One thread writes: whatever has come when
// it is free is one SQL transaction, synced before it is answered. A second thread copies the write-ahead log
// into the database in the background, so that writers wait neither for that nor for a log without end.
//
// The writer does not wait for the executor to hear of a batch before it takes the next: a busy loop comes to
// that only after much else, and the disk would stand still meanwhile.
//
// After anything but a lack of space the journal stops for good: the batch is not acknowledged, all later
// ones fail, and the files are left as they are. What a failed sync left on the disk is decided at the next
// open, from the disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/executor.h"
#include "store/embedded/database.h"
#include "store/embedded/directory.h"
#include "store/journal.h"

namespace moor::store::embedded {

// In pages of the write-ahead log.
struct CheckpointOptions {
  std::uint64_t start = 512;  // so much is new: the background copy begins
  // The log is so long that it begins anew, which holds the writer up for about a millisecond: rarely, so
  // that few writes meet it.
  std::uint64_t restart = 4'096;
  std::uint64_t finish = 32;    // so little is left that the writer itself copies it then
  std::uint64_t rounds = 4;     // of background copying before the writer finishes whatever is left
  std::uint64_t limit = 8'000;  // here the writer waits for the background copy
};

class SqliteJournal final : public Journal {
 public:
  // The journal and what it holds. See Database::open for the errors; unavailable: already open.
  static Result<std::pair<std::unique_ptr<SqliteJournal>, JournalContent>> open(
      Executor& executor, Place place, CheckpointOptions options = {});
  // Finishes the batch under way; then, unless stopped, copies and cuts the log. The executor must still be
  // there.
  ~SqliteJournal() override;

  void append(JournalBatch batch, Done done) override;
  // As of a second ago at most: a server asks with every consistent read, for something else.
  std::uint64_t bytes() const override;

 private:
  enum class Copy { idle, wanted, running, finish };  // finish: it is the writer's turn

  SqliteJournal(Executor& executor, DirectoryLock lock, std::unique_ptr<Pace> pace,
                std::unique_ptr<Database> database, Connection checkpointer, CheckpointOptions options);
  void write_batches();
  void answer(Gathered written, const Result<void>& result);
  void refuse_what_rests_on(const Gathered& failed, const Error& error);
  void tend_log();
  void finish_copy();
  void copy_log();
  Result<void> copy_rounds();
  void copy_failed(const Error& error);
  void stop(const Error& error);

  Executor& executor_;
  DirectoryLock lock_;                  // before the database: let go after it is closed
  std::unique_ptr<Pace> pace_;          // the background thread's; before both connections
  std::unique_ptr<Database> database_;  // the writer's, once its thread runs
  Connection checkpointer_;             // the background thread's
  const CheckpointOptions options_;
  mutable std::uint64_t bytes_ = 0;  // the executor's
  mutable TimePoint bytes_until_;    // asked for anew from then on
  std::atomic<std::uint64_t> frames_{0};
  std::atomic<std::uint64_t> copied_{0};  // of these

  std::mutex mutex_;  // all below
  std::condition_variable wake_writer_;
  std::condition_variable wake_copy_;
  Gathered waiting_;
  bool refusing_ = false;  // for lack of space; the writer waits until the executor knows
  Copy copy_ = Copy::idle;
  bool copy_lacks_space_ = false;
  bool closing_ = false;
  std::optional<Error> stopped_;

  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // the executor's

  std::thread writer_;
  std::thread copier_;
};

}  // namespace moor::store::embedded
