#include "store/embedded/database.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "base/assert.h"
#include "store/embedded/directory.h"

namespace moor::store::embedded {
namespace {
namespace fs = std::filesystem;

constexpr const char* kSchema = R"(
CREATE TABLE entries(revision INTEGER PRIMARY KEY, txn INTEGER NOT NULL, key TEXT NOT NULL, value BLOB,
                     lease INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
CREATE TABLE leases(id INTEGER PRIMARY KEY, ttl_ns INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, compacted INTEGER NOT NULL,
                  entries INTEGER NOT NULL, leases INTEGER NOT NULL, digest INTEGER NOT NULL,
                  checksum INTEGER NOT NULL) STRICT;
)";

// secure_delete off: Debian's SQLite would overwrite each forgotten row, one more dirty page each. mmap off:
// a failing disk must give an error, not SIGBUS. The size limit gives the log back to the file system after a
// burst.
constexpr const char* kSettings =
    "PRAGMA synchronous=FULL; PRAGMA secure_delete=OFF; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;"
    "PRAGMA cell_size_check=ON; PRAGMA cache_size=-4096; PRAGMA journal_size_limit=67108864;";

constexpr const char* kWhatToDo =
    "; nothing was changed. `moord store check` lists the damage, `moord store import --force` restores an "
    "export";

Error damaged(const fs::path& file, const std::string& what) {
  return make_error(Errc::corrupt,
                    fmt::format("the store {} is damaged: {}{}", file.string(), what, kWhatToDo));
}

// SQLite's own words for damage, with ours around them.
Error explain(const fs::path& file, Error error) {
  if (error.code != Errc::corrupt) return std::move(error).with_context(file.string());
  return damaged(file, error.message);
}

std::uint32_t big_endian(const char* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Before SQLite touches the file: it would start to repair another program's database.
Result<void> check_header(const fs::path& file) {
  constexpr std::size_t kHeaderBytes = 100;
  constexpr std::size_t kApplicationIdOffset = 68;
  char header[kHeaderBytes] = {};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return errno_error(errno, "open " + file.string());
  stream.read(header, sizeof header);
  if (stream.gcount() != static_cast<std::streamsize>(sizeof header))
    return damaged(file, fmt::format("it has only {} bytes", stream.gcount()));
  if (std::string_view(header, 16) != std::string_view("SQLite format 3\0", 16))
    return damaged(file, "it does not begin like a database; it may also be another program's file");
  const std::uint32_t application = big_endian(header + kApplicationIdOffset);
  if (application != kApplicationId)
    return make_error(Errc::invalid,
                      fmt::format("{} is another program's SQLite database (application id {:#x}); "
                                  "choose another directory",
                                  file.string(), application));
  return {};
}

fs::path new_file(const Place& place) {
  return place.directory / (std::string(kFileName) + ".new");
}

Result<void> remove_with_companions(const fs::path& file) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) TRY_VOID(remove_file(file.string() + suffix));
  return {};
}
}  // namespace

Database::Database(fs::path file, Connection connection)
    : file_(std::move(file)), connection_(std::move(connection)) {}

bool Database::exists(const Place& place) {
  std::error_code ignored;  // what cannot be looked at is found again, with its reason, when it is opened
  return fs::exists(place.directory / kFileName, ignored);
}

Result<std::unique_ptr<Database>> Database::make_new(const Place& place) {
  const fs::path file = new_file(place);
  TRY_VOID(remove_with_companions(file));
  TRY_VOID(make_private_file(file));
  {
    TRY(Connection connection, Connection::open(file, place.vfs, Connection::Mode::create));
    TRY_VOID(connection.execute(
        fmt::format("PRAGMA page_size={}; PRAGMA auto_vacuum=NONE; PRAGMA synchronous=FULL;", kPageBytes)));
    TRY_VOID(connection.execute(
        fmt::format("BEGIN; {} INSERT INTO meta VALUES(1,0,0,0,0,0,{}); PRAGMA application_id={};"
                    "PRAGMA user_version={}; COMMIT; PRAGMA journal_mode=WAL;",
                    kSchema, static_cast<std::int64_t>(checksum(Meta{})), kApplicationId, kFormatVersion)));
  }
  return open_file(file, place.vfs);
}

Result<void> Database::publish_new(const Place& place) {
  const fs::path file = new_file(place);
  TRY_VOID(sync_file(file));
  for (const char* suffix : {"-wal", "-shm", "-journal"}) TRY_VOID(remove_file(file.string() + suffix));
  std::error_code error;
  fs::rename(file, place.directory / kFileName, error);
  if (error) return errno_error(error.value(), "rename " + file.string());
  // A log of the store that was there before would be replayed into this one. A crash just here leaves both
  // together, which the next open finds by its checksums.
  for (const char* suffix : {"-wal", "-shm"})
    TRY_VOID(remove_file((place.directory / kFileName).string() + suffix));
  return sync_directory(place.directory);
}

Result<std::unique_ptr<Database>> Database::open(const Place& place) {
  const fs::path file = place.directory / kFileName;
  TRY_VOID(check_header(file));
  return open_file(file, place.vfs);
}

Result<std::unique_ptr<Database>> Database::open_file(const fs::path& file, const std::string& vfs) {
  auto connection = Connection::open(file, vfs, Connection::Mode::existing);
  if (!connection) return explain(file, connection.error());
  std::unique_ptr<Database> database(new Database(file, std::move(*connection)));
  if (auto set = database->connection_.execute(kSettings); !set) return explain(file, set.error());
  auto version = database->connection_.query_integer("PRAGMA user_version");
  if (!version) return explain(file, version.error());
  if (*version > kFormatVersion)
    return make_error(
        Errc::unsupported,
        fmt::format("the store {} has format {}, this program reads up to format {}: use a newer moord",
                    file.string(), *version, kFormatVersion));
  if (*version != kFormatVersion) return damaged(file, fmt::format("it names format {}", *version));
  if (auto prepared = database->prepare_statements(); !prepared) return explain(file, prepared.error());
  auto meta = database->read_meta();
  if (!meta) return explain(file, meta.error());
  database->meta_ = *meta;
  database->connection_.on_commit(
      [raw = database.get()](std::uint64_t frames) { raw->log_frames_ = frames; });
  return database;
}

Result<void> Database::prepare_statements() {
  // A table that is missing or of another shape fails here, as SQL: that is damage, not a bug.
  const auto prepare = [this](Statement& statement, std::string_view sql) -> Result<void> {
    auto prepared = connection_.prepare(sql);
    if (!prepared) return make_error(Errc::corrupt, prepared.error().message);
    statement = std::move(*prepared);
    return {};
  };
  TRY_VOID(prepare(begin_, "BEGIN IMMEDIATE"));
  TRY_VOID(prepare(commit_, "COMMIT"));
  TRY_VOID(
      prepare(insert_, "INSERT INTO entries(revision,txn,key,value,lease,checksum) VALUES(?,?,?,?,?,?)"));
  TRY_VOID(prepare(forget_, "DELETE FROM entries WHERE revision=? RETURNING checksum"));
  TRY_VOID(prepare(insert_lease_, "INSERT INTO leases(id,ttl_ns,checksum) VALUES(?,?,?)"));
  TRY_VOID(prepare(remove_lease_, "DELETE FROM leases WHERE id=? RETURNING checksum"));
  return prepare(write_meta_,
                 "UPDATE meta SET revision=?,compacted=?,entries=?,leases=?,digest=?,checksum=? WHERE id=1");
}

Result<Meta> Database::read_meta() {
  TRY(Statement read,
      connection_.prepare("SELECT revision,compacted,entries,leases,digest,checksum FROM meta WHERE id=1"));
  TRY(const bool row, read.step());
  if (!row) return make_error(Errc::corrupt, "it has no row of meta data");
  const Meta meta{read.integer(0), read.integer(1), read.integer(2), read.integer(3), read.integer(4)};
  if (checksum(meta) != read.integer(5))
    return make_error(Errc::corrupt, "the meta data has a wrong checksum");
  return meta;
}

Result<JournalContent> Database::load(std::vector<std::string>* problems) {
  std::vector<std::string> first;
  std::vector<std::string>* found_problems = problems == nullptr ? &first : problems;
  JournalContent content;
  content.revision = meta_.revision;
  content.compacted = meta_.compacted;
  Meta found = meta_;
  found.entries = found.leases = found.digest = 0;
  auto loaded = load_entries(content, found, found_problems);
  if (loaded) loaded = load_leases(content, found, found_problems);
  if (!loaded) return explain(file_, loaded.error());
  if (found_problems->size() < kMaxProblems && found != meta_)
    found_problems->push_back(
        fmt::format("rows are missing, extra or altered: {} entries and {} leases with digest {:016x} "
                    "where there should be {} and {} with {:016x}",
                    found.entries, found.leases, found.digest, meta_.entries, meta_.leases, meta_.digest));
  if (problems == nullptr && !first.empty()) return damaged(file_, first.front());
  return content;
}

Result<void> Database::load_entries(JournalContent& content, Meta& found,
                                    std::vector<std::string>* problems) {
  // A damaged count must not make us ask for all memory.
  content.records.reserve(std::min<std::uint64_t>(meta_.entries, bytes() / 16));
  TRY(Statement read,
      connection_.prepare("SELECT revision,txn,key,value,lease,checksum FROM entries ORDER BY revision"));
  while (problems->size() < kMaxProblems) {
    TRY(const bool row, read.step());
    if (!row) break;
    const EntryView view{read.integer(0), read.integer(1), read.integer(4),
                         read.bytes(2),   read.is_null(3), read.bytes(3)};
    const std::uint64_t sum = checksum(view);
    ++found.entries;
    found.digest += sum;
    if (sum != read.integer(5)) {
      problems->push_back(fmt::format("the entry of revision {} has a wrong checksum", view.revision));
      continue;
    }
    Record& record = content.records.emplace_back();
    record.revision = view.revision;
    record.transaction = view.transaction;
    record.key = view.key;
    if (!view.removal) record.value = make_value(std::string(view.value));
    record.lease = view.lease;
  }
  return {};
}

Result<void> Database::load_leases(JournalContent& content, Meta& found, std::vector<std::string>* problems) {
  TRY(Statement read, connection_.prepare("SELECT id,ttl_ns,checksum FROM leases ORDER BY id"));
  while (problems->size() < kMaxProblems) {
    TRY(const bool row, read.step());
    if (!row) break;
    const std::uint64_t sum = checksum(read.integer(0), read.integer(1));
    ++found.leases;
    found.digest += sum;
    if (sum != read.integer(2)) {
      problems->push_back(fmt::format("lease {} has a wrong checksum", read.integer(0)));
      continue;
    }
    content.leases.push_back({read.integer(0), Duration(static_cast<std::int64_t>(read.integer(1)))});
  }
  return {};
}

Result<void> Database::settle() {
  auto done = connection_.checkpoint(false);
  if (!done) return explain(file_, done.error());
  log_frames_ = 0;
  return {};
}

Result<void> Database::apply(const JournalBatch& batch) {
  MOOR_ASSERT(connection_.is_idle(), "a transaction was left open");
  Meta meta = meta_;
  auto result = transact(batch, meta);
  if (result) {
    meta_ = meta;
    return {};
  }
  // SQLite has rolled back by itself after some errors and not after others.
  if (!connection_.is_idle()) {
    if (auto undone = connection_.execute("ROLLBACK"); !undone)
      return make_error(Errc::internal,
                        fmt::format("{}; then {}", result.error().message, undone.error().message));
  }
  return explain(file_, result.error());
}

Result<void> Database::transact(const JournalBatch& batch, Meta& meta) {
  TRY_VOID(begin_.run());
  for (const Record& record : batch.records) TRY_VOID(insert(record, meta));
  for (const LeaseRecord& lease : batch.leases) TRY_VOID(write_lease(lease, meta));
  for (const Revision revision : batch.forget) TRY_VOID(forget(revision, meta));
  if (batch.compacted) meta.compacted = *batch.compacted;
  TRY_VOID(write_meta(meta));
  return commit_.run();
}

Result<void> Database::insert(const Record& record, Meta& meta) {
  MOOR_ASSERT(record.revision > meta.revision, "revision {} after {}", record.revision, meta.revision);
  const bool removal = record.value == nullptr;
  const EntryView view{record.revision, record.transaction,
                       record.lease,    record.key,
                       removal,         removal ? std::string_view() : *record.value};
  const std::uint64_t sum = checksum(view);
  insert_.bind(1, view.revision);
  insert_.bind(2, view.transaction);
  insert_.bind_text(3, view.key);
  if (removal)
    insert_.bind_null(4);
  else
    insert_.bind_blob(4, view.value);
  insert_.bind(5, view.lease);
  insert_.bind(6, sum);
  TRY_VOID(insert_.run());
  meta.revision = record.revision;
  ++meta.entries;
  meta.digest += sum;
  return {};
}

Result<void> Database::write_lease(const LeaseRecord& lease, Meta& meta) {
  if (!lease.time_to_live) {
    remove_lease_.bind(1, lease.id);
    auto row = remove_lease_.step();
    if (row && *row) {
      --meta.leases;
      meta.digest -= remove_lease_.integer(0);
    }
    remove_lease_.reset();
    if (!row) return row.error();
    if (!*row) return make_error(Errc::corrupt, fmt::format("lease {} is not there to be removed", lease.id));
    return {};
  }
  const auto nanoseconds = static_cast<std::uint64_t>(lease.time_to_live->count());
  const std::uint64_t sum = checksum(lease.id, nanoseconds);
  insert_lease_.bind(1, lease.id);
  insert_lease_.bind(2, nanoseconds);
  insert_lease_.bind(3, sum);
  TRY_VOID(insert_lease_.run());
  ++meta.leases;
  meta.digest += sum;
  return {};
}

Result<void> Database::forget(Revision revision, Meta& meta) {
  forget_.bind(1, revision);
  auto row = forget_.step();
  if (row && *row) {
    --meta.entries;
    meta.digest -= forget_.integer(0);
  }
  forget_.reset();
  if (!row) return row.error();
  if (!*row)
    return make_error(Errc::corrupt, fmt::format("revision {} is not there to be forgotten", revision));
  return {};
}

Result<void> Database::write_meta(const Meta& meta) {
  write_meta_.bind(1, meta.revision);
  write_meta_.bind(2, meta.compacted);
  write_meta_.bind(3, meta.entries);
  write_meta_.bind(4, meta.leases);
  write_meta_.bind(5, meta.digest);
  write_meta_.bind(6, checksum(meta));
  return write_meta_.run();
}

Result<void> Database::begin_after(Revision revision) {
  MOOR_ASSERT(revision >= meta_.revision);
  Meta meta = meta_;
  meta.revision = meta.compacted = revision;
  TRY_VOID(write_meta(meta));
  meta_ = meta;
  return {};
}

Result<void> Database::vacuum() {
  if (auto done = connection_.execute("VACUUM"); !done) return explain(file_, done.error());
  return settle();
}

std::uint64_t Database::bytes() const {
  std::uint64_t total = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file_.string() + suffix, error);
    if (!error) total += size;
  }
  return total;
}

}  // namespace moor::store::embedded
