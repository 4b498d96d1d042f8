#include "store/embedded/gather_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/assert.h"

namespace moor::store::embedded {

struct GatherVfs::State {
  sqlite3_vfs vfs{};  // first: SQLite gives us only this
  sqlite3_vfs* below = nullptr;
  Pace* pace = nullptr;
  std::string name;
};

namespace {

// SQLite's own layer takes less than 128 KiB at a time: it never needs more than a page. A larger commit goes
// in several writes.
constexpr std::size_t kMostBytes = 64 * 1024;
// Room ahead: the log doubles, so that a small store stays small, up to so much at a time. With 1 MiB the
// commits that make room were the p99 of 64 writers (bench/store).
constexpr sqlite3_int64 kLargestStep = 256 * 1024;
constexpr char kZeros[kMostBytes] = {};

struct Log {
  // Not yet written.
  sqlite3_int64 start = 0;
  std::string bytes;
  sqlite3_int64 room = -1;  // the size of the file; -1: to be asked for
  bool is_short = false;    // there was no space for more room than needed
};

// The layer below has its own file behind this one.
struct File {
  sqlite3_file base;  // first: SQLite sees only this
  sqlite3_file* below;
  Log* log;    // null: the database
  Pace* pace;  // null: none
};

File* file_of(sqlite3_file* base) {
  return reinterpret_cast<File*>(base);
}

sqlite3_file* below(sqlite3_file* base) {
  return file_of(base)->below;
}

int write_zeros(sqlite3_file* file, sqlite3_int64 from, sqlite3_int64 to) {
  while (from < to) {
    const auto size = std::min(to - from, static_cast<sqlite3_int64>(kMostBytes));
    const int code = file->pMethods->xWrite(file, kZeros, static_cast<int>(size), from);
    if (code != SQLITE_OK) return code;
    from += size;
  }
  return SQLITE_OK;
}

// So that what is written up to `end` does not make the file longer.
int make_room(File* file, sqlite3_int64 end) {
  Log& log = *file->log;
  sqlite3_file* under = file->below;
  if (log.room < 0) {
    const int code = under->pMethods->xFileSize(under, &log.room);
    if (code != SQLITE_OK) return code;
  }
  if (end <= log.room) return SQLITE_OK;
  if (log.is_short) {
    log.room = end;
    return SQLITE_OK;
  }
  const auto step = std::clamp(log.room, static_cast<sqlite3_int64>(kMostBytes), kLargestStep);
  const int code = write_zeros(under, end, end + step);
  if (code == SQLITE_OK) {
    log.room = end + step;
    return SQLITE_OK;
  }
  if (code != SQLITE_FULL) return code;
  // Whether the space suffices without room ahead is for the commit itself to find out.
  log.is_short = true;
  const int cut = under->pMethods->xTruncate(under, log.room);
  log.room = end;
  return cut;
}

// After an error SQLite gives the commit up and begins the next one at the same place.
int flush(File* file) {
  Log& log = *file->log;
  if (log.bytes.empty()) return SQLITE_OK;
  const auto size = static_cast<int>(log.bytes.size());
  int code = make_room(file, log.start + size);
  if (code == SQLITE_OK) code = file->below->pMethods->xWrite(file->below, log.bytes.data(), size, log.start);
  if (code != SQLITE_OK) log.room = -1;
  log.bytes.clear();
  return code;
}

int write_log(sqlite3_file* base, const void* data, int amount, sqlite3_int64 offset) {
  Log& log = *file_of(base)->log;
  const auto size = static_cast<std::size_t>(amount);
  const bool follows = offset == log.start + static_cast<sqlite3_int64>(log.bytes.size());
  if (!follows || log.bytes.size() + size > kMostBytes) {
    const int code = flush(file_of(base));
    if (code != SQLITE_OK) return code;
  }
  if (log.bytes.empty()) log.start = offset;
  log.bytes.append(static_cast<const char*>(data), size);
  return SQLITE_OK;
}

int read_log(sqlite3_file* base, void* data, int amount, sqlite3_int64 offset) {
  const int code = flush(file_of(base));
  return code != SQLITE_OK ? code : below(base)->pMethods->xRead(below(base), data, amount, offset);
}

int truncate_log(sqlite3_file* base, sqlite3_int64 size) {
  const int code = flush(file_of(base));
  Log& log = *file_of(base)->log;
  log.room = -1;
  log.is_short = false;
  return code != SQLITE_OK ? code : below(base)->pMethods->xTruncate(below(base), size);
}

int sync_log(sqlite3_file* base, int flags) {
  const int code = flush(file_of(base));
  return code != SQLITE_OK ? code : below(base)->pMethods->xSync(below(base), flags);
}

int size_of_log(sqlite3_file* base, sqlite3_int64* size) {
  const int code = flush(file_of(base));
  return code != SQLITE_OK ? code : below(base)->pMethods->xFileSize(below(base), size);
}

int close_log(sqlite3_file* base) {
  const int flushed = flush(file_of(base));
  delete file_of(base)->log;
  const int closed = below(base)->pMethods->xClose(below(base));
  return flushed != SQLITE_OK ? flushed : closed;
}

int write_database(sqlite3_file* base, const void* data, int amount, sqlite3_int64 offset) {
  const int code = below(base)->pMethods->xWrite(below(base), data, amount, offset);
  if (code == SQLITE_OK) file_of(base)->pace->wrote(static_cast<std::size_t>(amount));
  return code;
}

// The rest goes to the layer below as it comes.
template <auto Method>
struct Forward;
template <class... Arguments, int (*sqlite3_io_methods::*Method)(sqlite3_file*, Arguments...)>
struct Forward<Method> {
  static int call(sqlite3_file* base, Arguments... arguments) {
    return (below(base)->pMethods->*Method)(below(base), arguments...);
  }
};
template <auto Method>
constexpr auto kForward = &Forward<Method>::call;

void forward_barrier(sqlite3_file* base) {
  below(base)->pMethods->xShmBarrier(below(base));
}

using Methods = sqlite3_io_methods;
// Version 2: no mapped reads, which this store does without.
constexpr Methods kForwarding = {2,
                                 kForward<&Methods::xClose>,
                                 kForward<&Methods::xRead>,
                                 kForward<&Methods::xWrite>,
                                 kForward<&Methods::xTruncate>,
                                 kForward<&Methods::xSync>,
                                 kForward<&Methods::xFileSize>,
                                 kForward<&Methods::xLock>,
                                 kForward<&Methods::xUnlock>,
                                 kForward<&Methods::xCheckReservedLock>,
                                 kForward<&Methods::xFileControl>,
                                 kForward<&Methods::xSectorSize>,
                                 kForward<&Methods::xDeviceCharacteristics>,
                                 kForward<&Methods::xShmMap>,
                                 kForward<&Methods::xShmLock>,
                                 forward_barrier,
                                 kForward<&Methods::xShmUnmap>,
                                 nullptr,
                                 nullptr};

constexpr Methods kDatabaseMethods = [] {
  Methods methods = kForwarding;
  methods.xWrite = write_database;
  return methods;
}();

constexpr Methods kLogMethods = [] {
  Methods methods = kForwarding;
  methods.iVersion = 1;  // shared memory belongs to the database, never to its log
  methods.xClose = close_log;
  methods.xRead = read_log;
  methods.xWrite = write_log;
  methods.xTruncate = truncate_log;
  methods.xSync = sync_log;
  methods.xFileSize = size_of_log;
  return methods;
}();

// The system's own layer for databases that one process has open: its connections share what SQLite knows of
// the log in memory, instead of through a file with locks. That it is one process, the directory's lock says.
constexpr const char* kOneProcess = "unix-excl";

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* base, int flags, int* flags_out) {
  const auto* state = reinterpret_cast<const GatherVfs::State*>(vfs);
  const bool is_log = (flags & SQLITE_OPEN_WAL) != 0;
  const bool is_paced = (flags & SQLITE_OPEN_MAIN_DB) != 0 && state->pace != nullptr;
  if (!is_log && !is_paced) return state->below->xOpen(state->below, name, base, flags, flags_out);
  File* file = file_of(base);
  file->base.pMethods = nullptr;
  file->below = reinterpret_cast<sqlite3_file*>(file + 1);
  const int code = state->below->xOpen(state->below, name, file->below, flags, flags_out);
  if (code != SQLITE_OK) return code;
  file->log = is_log ? new Log : nullptr;
  file->pace = state->pace;
  file->base.pMethods = is_log ? &kLogMethods : &kDatabaseMethods;
  return SQLITE_OK;
}

}  // namespace

std::unique_ptr<GatherVfs> GatherVfs::over(const std::string& below, Pace* pace) {
  static std::atomic<std::uint64_t> next{1};
  auto state = std::make_unique<State>();
  state->below = sqlite3_vfs_find(below.empty() ? kOneProcess : below.c_str());
  if (state->below == nullptr) return nullptr;
  state->pace = pace;
  state->name = "moor-gather-" + std::to_string(next++);
  // Everything but opening a file is the business of the layer below, whose data this copy points to.
  state->vfs = *state->below;
  state->vfs.pNext = nullptr;
  state->vfs.zName = state->name.c_str();
  state->vfs.szOsFile = static_cast<int>(sizeof(File)) + state->below->szOsFile;
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
