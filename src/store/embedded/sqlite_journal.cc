#include "store/embedded/sqlite_journal.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

namespace moor::store::embedded {
namespace fs = std::filesystem;

namespace {
constexpr int kCopyNiceness = 10;

// A log without its database, or the other way round, is no new store.
Result<void> create_if_missing(const Place& place) {
  if (Database::exists(place)) return {};
  const fs::path log = place.directory / (std::string(kFileName) + "-wal");
  std::error_code error;
  if (fs::file_size(log, error) > 0 && !error)
    return make_error(Errc::corrupt, fmt::format("{} is missing but its log {} is there: was it moved away? "
                                                 "Put it back, or remove the log to start empty",
                                                 (place.directory / kFileName).string(), log.string()));
  {
    TRY(auto made, Database::make_new(place));
    TRY_VOID(made->settle());
  }
  return Database::publish_new(place);
}
}  // namespace

Result<std::pair<std::unique_ptr<SqliteJournal>, JournalContent>> SqliteJournal::open(
    Executor& executor, Place place, CheckpointOptions options) {
  TRY(DirectoryLock lock, DirectoryLock::acquire(place.directory, true));
  TRY_VOID(create_if_missing(place));
  TRY(std::unique_ptr<Database> database, Database::open(place));
  TRY(JournalContent content, database->load());
  TRY_VOID(database->settle());
  TRY(std::unique_ptr<Pace> pace, Pace::of(database->file()));
  TRY(Connection checkpointer,
      Connection::open(database->file(), place.vfs, Connection::Mode::existing, pace.get()));
  TRY_VOID(checkpointer.execute("PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864;"));
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(
      executor, std::move(lock), std::move(pace), std::move(database), std::move(checkpointer), options));
  return std::pair(std::move(journal), std::move(content));
}

SqliteJournal::SqliteJournal(Executor& executor, DirectoryLock lock, std::unique_ptr<Pace> pace,
                             std::unique_ptr<Database> database, Connection checkpointer,
                             CheckpointOptions options)
    : executor_(executor),
      lock_(std::move(lock)),
      pace_(std::move(pace)),
      database_(std::move(database)),
      checkpointer_(std::move(checkpointer)),
      options_(options) {
  writer_ = std::thread([this] { write_batches(); });
  copier_ = std::thread([this] { copy_log(); });
}

SqliteJournal::~SqliteJournal() {
  *alive_ = false;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_writer_.notify_all();
  wake_copy_.notify_all();
  copier_.join();
  writer_.join();
  if (stopped_) return;
  // A failure loses nothing: the log holds everything, and the next open copies it.
  if (auto settled = database_->settle(); !settled)
    log_warn("the store's log could not be copied at close", {{"error", settled.error()}});
}

void SqliteJournal::append(JournalBatch batch, Done done) {
  {
    const std::lock_guard lock(mutex_);
    MOOR_ASSERT(!closing_, "appended to a journal that closes");
    waiting_.add(std::move(batch), std::move(done));
  }
  wake_writer_.notify_one();
}

std::uint64_t SqliteJournal::bytes() const {
  const TimePoint now = executor_.clock().now();
  if (bytes_ == 0 || now >= bytes_until_) {
    bytes_ = database_->bytes();
    bytes_until_ = now + std::chrono::seconds(1);
  }
  return bytes_;
}

void SqliteJournal::write_batches() {
  while (true) {
    Gathered next;
    std::optional<Error> stopped;
    {
      std::unique_lock lock(mutex_);
      const auto may_write = [this] { return !waiting_.empty() && !refusing_; };
      wake_writer_.wait(lock, [&] { return may_write() || closing_; });
      if (!may_write()) return;
      next = std::exchange(waiting_, {});
      stopped = stopped_;
    }
    if (stopped) {
      answer(std::move(next), *stopped);
      continue;
    }
    const Result<void> result = database_->apply(next.batch);
    if (!result && !result.is(Errc::exhausted)) stop(result.error());
    frames_ = database_->log_frames();
    answer(std::move(next), result);
    // After the answer: only the batch behind it may have to wait.
    tend_log();
  }
}

void SqliteJournal::answer(Gathered written, const Result<void>& result) {
  if (!result.is(Errc::exhausted)) {
    executor_.post([written = std::move(written), result] { written.tell(result); });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    refusing_ = true;
  }
  executor_.post([this, alive = alive_, failed = std::move(written), error = result.error()] {
    if (*alive) refuse_what_rests_on(failed, error);
  });
}

// On the executor, as append() is: what was appended up to now may rest on what failed, what comes later
// knows of it.
void SqliteJournal::refuse_what_rests_on(const Gathered& failed, const Error& error) {
  Gathered rest;
  {
    const std::lock_guard lock(mutex_);
    rest = std::exchange(waiting_, {});
    refusing_ = false;
  }
  failed.tell(error);
  rest.tell(error);
}

void SqliteJournal::tend_log() {
  {
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    if (frames_ < copied_) copied_ = 0;  // the log has begun anew
    if (copy_ == Copy::idle && frames_ - copied_ >= options_.start) {
      copy_ = Copy::wanted;
      wake_copy_.notify_one();
    }
    // A copy that lacks space would hold up writes that still find some.
    if (frames_ >= options_.limit && !copy_lacks_space_)
      wake_writer_.wait(lock, [this] { return copy_ == Copy::finish || copy_ == Copy::idle || closing_; });
    if (copy_ != Copy::finish) return;
  }
  finish_copy();
}

// Nobody else writes now, so the log gets fully copied and the next commit starts it from the beginning.
void SqliteJournal::finish_copy() {
  auto done = database_->connection().checkpoint(true);
  if (!done) copy_failed(done.error());
  const std::lock_guard lock(mutex_);
  if (done) copy_lacks_space_ = false;
  copy_ = Copy::idle;
}

void SqliteJournal::copy_log() {
  // On a machine with few cores the copy would otherwise be where the loop or the writer wants to run. A
  // failure costs only that.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kCopyNiceness));
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_copy_.wait(lock, [this] { return copy_ == Copy::wanted || closing_; });
      if (closing_) return;
      copy_ = Copy::running;
    }
    auto done = copy_rounds();
    if (!done) copy_failed(done.error());
    {
      const std::lock_guard lock(mutex_);
      if (done) copy_lacks_space_ = false;
      copy_ = done && frames_ >= options_.restart ? Copy::finish : Copy::idle;
    }
    wake_writer_.notify_all();
  }
}

Result<void> SqliteJournal::copy_rounds() {
  for (std::uint64_t round = 0; round < options_.rounds; ++round) {
    TRY(const CheckpointProgress progress, checkpointer_.checkpoint(true));
    copied_ = progress.copied;
    if (frames_ < options_.restart || progress.copied + options_.finish >= frames_) break;
  }
  return {};
}

// Without space the log keeps everything and the copy is tried again later. Anything else means that the disk
// fails.
void SqliteJournal::copy_failed(const Error& error) {
  if (error.code != Errc::exhausted) return stop(error);
  const std::lock_guard lock(mutex_);
  if (!std::exchange(copy_lacks_space_, true))
    log_warn("no space to copy the store's log into the database", {{"error", error}});
}

void SqliteJournal::stop(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) stopped_ = error;
}

}  // namespace moor::store::embedded
