#include "store/embedded/maintenance.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/mvcc.h"

namespace moor::store::embedded {
namespace {
constexpr std::size_t kForgetPerBatch = 5'000;

void tell(const Progress& progress, const char* what, std::uint64_t done, std::uint64_t total) {
  if (progress) progress(what, done, total);
}

// SQLite's check of its own trees, free list and page use.
Result<void> check_structure(Connection& connection, std::vector<std::string>& problems) {
  TRY(Statement check, connection.prepare(fmt::format("PRAGMA integrity_check({})", Database::kMaxProblems)));
  while (problems.size() < Database::kMaxProblems) {
    TRY(const bool row, check.step());
    if (!row) break;
    if (check.bytes(0) != "ok") problems.emplace_back(check.bytes(0));
  }
  return {};
}

// Errors of reading are findings here.
void note(const Result<void>& result, std::vector<std::string>& problems) {
  if (!result) problems.push_back(result.error().message);
}

}  // namespace

Result<DirectoryLock> lock_existing(const Place& place) {
  if (!Database::exists(place)) {
    const Place below{place.directory / "store", ""};
    return make_error(
        Errc::not_found,
        fmt::format(
            "there is no store in {}{}", place.directory.string(),
            Database::exists(below) ? fmt::format("; there is one in {}", below.directory.string()) : ""));
  }
  return DirectoryLock::acquire(place.directory, false);
}

Result<CheckReport> check_store(const Place& place, const Progress& progress) {
  TRY(const DirectoryLock lock, lock_existing(place));
  CheckReport report;
  auto opened = Database::open(place);
  if (!opened) {
    if (opened.code() != Errc::corrupt) return opened.error();
    report.problems.push_back(opened.error().message);
    auto connection = Connection::open(place.directory / kFileName, place.vfs, Connection::Mode::existing);
    if (connection) note(check_structure(*connection, report.problems), report.problems);
    return report;
  }
  Database& database = **opened;
  report.meta = database.meta();
  report.bytes = database.bytes();
  const std::uint64_t entries = report.meta.entries;
  tell(progress, "checking the structure of the file", 0, entries);
  note(check_structure(database.connection(), report.problems), report.problems);
  tell(progress, "checking the entries", 0, entries);
  auto content = database.load(&report.problems);
  if (!content) {
    report.problems.push_back(content.error().message);
    return report;
  }
  tell(progress, "checking the history", entries, entries);
  Mvcc mvcc;
  note(mvcc.load(std::move(*content)), report.problems);
  report.keys = mvcc.keys();
  return report;
}

Result<CompactReport> compact_store(const Place& place, const Progress& progress) {
  TRY(const DirectoryLock lock, lock_existing(place));
  TRY(const std::unique_ptr<Database> database, Database::open(place));
  CompactReport report;
  report.bytes_before = database->bytes();
  tell(progress, "reading", 0, database->meta().entries);
  TRY(JournalContent content, database->load());
  TRY_VOID(database->settle());
  Mvcc mvcc;
  TRY_VOID(mvcc.load(std::move(content)));
  // Ascending, so that a crash in between never leaves a value without its removal.
  const std::vector<Revision> forgotten = mvcc.compact(mvcc.revision());
  report.compacted = mvcc.compacted();
  report.forgotten = forgotten.size();
  std::size_t done = 0;
  do {
    JournalBatch batch;
    const std::size_t end = std::min(done + kForgetPerBatch, forgotten.size());
    batch.forget.assign(forgotten.begin() + static_cast<std::ptrdiff_t>(done),
                        forgotten.begin() + static_cast<std::ptrdiff_t>(end));
    batch.compacted = report.compacted;
    TRY_VOID(database->apply(batch));
    done = end;
    tell(progress, "forgetting old entries", done, forgotten.size());
  } while (done < forgotten.size());
  tell(progress, "giving space back", 0, database->meta().entries);
  TRY_VOID(database->vacuum());
  report.bytes_after = database->bytes();
  return report;
}

}  // namespace moor::store::embedded
