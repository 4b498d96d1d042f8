// Database: the file of an embedded store. Synchronous and without threads; the SqliteJournal puts it on one.
// Whoever opens it holds the DirectoryLock.
//
// The file says of itself what it must contain (row checksums, their number and sum, in the same transaction
// as the rows), so that load() finds missing, extra and altered rows: SQLite alone notices only what breaks
// its trees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/embedded/checksum.h"
#include "store/embedded/sqlite.h"
#include "store/journal.h"

namespace moor::store::embedded {

inline constexpr std::uint64_t kFormatVersion = 1;
// Of a new store; an older one keeps the 4 KiB it was made with. Objects of a volume have 2 to 3 KiB: three
// of them fit, where smaller pages held one each and log and copy were a fourth longer (bench/attach).
inline constexpr std::size_t kPageBytes = 8192;
inline constexpr std::uint64_t kApplicationId = 0x4d6f6f72;  // "Moor", in the SQLite header

struct Place {
  std::filesystem::path directory;
  std::string vfs;  // "" for the system's own; tests put faults here
};

class Database {
 public:
  // An empty store as `store.db.new`; publish_new() makes it the store. A crash in between leaves nothing of
  // meaning.
  static Result<std::unique_ptr<Database>> make_new(const Place& place);
  static Result<void> publish_new(const Place& place);
  static bool exists(const Place& place);

  // corrupt: not a database, or damaged. invalid: another program's database. unsupported: a newer format.
  // Reads only; nothing is changed before settle().
  static Result<std::unique_ptr<Database>> open(const Place& place);

  // Everything, verified. With `problems` it goes on after a damaged row and lists what is wrong (up to
  // kMaxProblems); without, the first problem is the error.
  static constexpr std::size_t kMaxProblems = 100;
  Result<JournalContent> load(std::vector<std::string>* problems = nullptr);

  // Moves all of the write-ahead log into the database with fresh writes and a sync that must succeed. Done
  // at each open: after a failed sync the log may be found in the page cache only.
  Result<void> settle();

  // One transaction, safe when this returns. exhausted: rolled back, goes on. Any other error: not to be used
  // any more.
  Result<void> apply(const JournalBatch& batch);
  // For import: from here on revisions start above this one, and states up to it are gone.
  Result<void> begin_after(Revision revision);
  // Gives free pages back to the file system.
  Result<void> vacuum();

  const Meta& meta() const { return meta_; }
  Connection& connection() { return connection_; }
  // Frames in the write-ahead log after the last commit.
  std::uint64_t log_frames() const { return log_frames_; }
  std::uint64_t bytes() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  Database(std::filesystem::path file, Connection connection);
  static Result<std::unique_ptr<Database>> open_file(const std::filesystem::path& file,
                                                     const std::string& vfs);
  Result<void> prepare_statements();
  Result<Meta> read_meta();
  Result<void> load_entries(JournalContent& content, Meta& found, std::vector<std::string>* problems);
  Result<void> load_leases(JournalContent& content, Meta& found, std::vector<std::string>* problems);
  Result<void> transact(const JournalBatch& batch, Meta& meta);
  Result<void> insert(const Record& record, Meta& meta);
  Result<void> write_lease(const LeaseRecord& lease, Meta& meta);
  Result<void> forget(Revision revision, Meta& meta);
  Result<void> write_meta(const Meta& meta);

  std::filesystem::path file_;
  Connection connection_;
  Statement begin_, commit_, insert_, forget_, insert_lease_, remove_lease_, write_meta_;
  Meta meta_;
  std::uint64_t log_frames_ = 0;
};

}  // namespace moor::store::embedded
