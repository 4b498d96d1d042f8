#include "store/embedded/gather_vfs.h"

#include <sqlite3.h>

#include <atomic>
#include <utility>

#include "base/assert.h"

namespace moor::store::embedded {

struct GatherVfs::State {
  sqlite3_vfs vfs{};  // first: SQLite gives us only this
  sqlite3_vfs* below = nullptr;
  std::string name;
};

namespace {

// SQLite's own layer takes less than 128 KiB at a time: it never needs more than a page. A larger commit goes
// in several writes.
constexpr std::size_t kMostBytes = 64 * 1024;

struct Pieces {
  sqlite3_int64 start = 0;
  std::string bytes;
};

// The layer below has its own file behind this one.
struct LogFile {
  sqlite3_file base;  // first: SQLite sees only this
  sqlite3_file* below;
  Pieces* pieces;
};

LogFile* log_of(sqlite3_file* base) {
  return reinterpret_cast<LogFile*>(base);
}

// After an error SQLite gives the commit up and begins the next one at the same place.
int flush(LogFile* log) {
  Pieces& pieces = *log->pieces;
  if (pieces.bytes.empty()) return SQLITE_OK;
  const int code = log->below->pMethods->xWrite(log->below, pieces.bytes.data(),
                                                static_cast<int>(pieces.bytes.size()), pieces.start);
  pieces.bytes.clear();
  return code;
}

int write_log(sqlite3_file* base, const void* data, int amount, sqlite3_int64 offset) {
  LogFile* log = log_of(base);
  Pieces& pieces = *log->pieces;
  const auto size = static_cast<std::size_t>(amount);
  const bool follows = offset == pieces.start + static_cast<sqlite3_int64>(pieces.bytes.size());
  if (!follows || pieces.bytes.size() + size > kMostBytes) {
    const int code = flush(log);
    if (code != SQLITE_OK) return code;
  }
  if (pieces.bytes.empty()) pieces.start = offset;
  pieces.bytes.append(static_cast<const char*>(data), size);
  return SQLITE_OK;
}

int read_log(sqlite3_file* base, void* data, int amount, sqlite3_int64 offset) {
  LogFile* log = log_of(base);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log->below->pMethods->xRead(log->below, data, amount, offset);
}

int truncate_log(sqlite3_file* base, sqlite3_int64 size) {
  LogFile* log = log_of(base);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log->below->pMethods->xTruncate(log->below, size);
}

int sync_log(sqlite3_file* base, int flags) {
  LogFile* log = log_of(base);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log->below->pMethods->xSync(log->below, flags);
}

int size_of_log(sqlite3_file* base, sqlite3_int64* size) {
  LogFile* log = log_of(base);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log->below->pMethods->xFileSize(log->below, size);
}

int close_log(sqlite3_file* base) {
  LogFile* log = log_of(base);
  const int flushed = flush(log);
  delete log->pieces;
  const int closed = log->below->pMethods->xClose(log->below);
  return flushed != SQLITE_OK ? flushed : closed;
}

int lock_log(sqlite3_file* base, int level) {
  return log_of(base)->below->pMethods->xLock(log_of(base)->below, level);
}
int unlock_log(sqlite3_file* base, int level) {
  return log_of(base)->below->pMethods->xUnlock(log_of(base)->below, level);
}
int check_reserved(sqlite3_file* base, int* out) {
  return log_of(base)->below->pMethods->xCheckReservedLock(log_of(base)->below, out);
}
int control_log(sqlite3_file* base, int operation, void* argument) {
  return log_of(base)->below->pMethods->xFileControl(log_of(base)->below, operation, argument);
}
int sector_size(sqlite3_file* base) {
  return log_of(base)->below->pMethods->xSectorSize(log_of(base)->below);
}
int characteristics(sqlite3_file* base) {
  return log_of(base)->below->pMethods->xDeviceCharacteristics(log_of(base)->below);
}

// Version 1: shared memory and mapped reads belong to the database, never to its log.
constexpr sqlite3_io_methods kLogMethods = {
    1,        close_log,  read_log,       write_log,   truncate_log, sync_log,        size_of_log,
    lock_log, unlock_log, check_reserved, control_log, sector_size,  characteristics, nullptr,
    nullptr,  nullptr,    nullptr,        nullptr,     nullptr};

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* base, int flags, int* flags_out) {
  const auto* state = reinterpret_cast<const GatherVfs::State*>(vfs);
  if ((flags & SQLITE_OPEN_WAL) == 0) return state->below->xOpen(state->below, name, base, flags, flags_out);
  LogFile* log = log_of(base);
  log->base.pMethods = nullptr;
  log->below = reinterpret_cast<sqlite3_file*>(log + 1);
  const int code = state->below->xOpen(state->below, name, log->below, flags, flags_out);
  if (code != SQLITE_OK) return code;
  log->pieces = new Pieces;
  log->base.pMethods = &kLogMethods;
  return SQLITE_OK;
}

}  // namespace

std::unique_ptr<GatherVfs> GatherVfs::over(const std::string& below) {
  static std::atomic<std::uint64_t> next{1};
  auto state = std::make_unique<State>();
  state->below = sqlite3_vfs_find(below.empty() ? nullptr : below.c_str());
  if (state->below == nullptr) return nullptr;
  state->name = "moor-gather-" + std::to_string(next++);
  // Everything but opening a file is the business of the layer below, whose data this copy points to.
  state->vfs = *state->below;
  state->vfs.pNext = nullptr;
  state->vfs.zName = state->name.c_str();
  state->vfs.szOsFile = static_cast<int>(sizeof(LogFile)) + state->below->szOsFile;
  state->vfs.xOpen = open_file;
  MOOR_ASSERT(sqlite3_vfs_register(&state->vfs, 0) == SQLITE_OK);
  return std::unique_ptr<GatherVfs>(new GatherVfs(std::move(state)));
}

GatherVfs::GatherVfs(std::unique_ptr<State> state) : state_(std::move(state)) {}

GatherVfs::~GatherVfs() {
  sqlite3_vfs_unregister(&state_->vfs);
}

const std::string& GatherVfs::name() const {
  return state_->name;
}

}  // namespace moor::store::embedded
