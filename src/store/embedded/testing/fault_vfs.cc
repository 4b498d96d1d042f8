#include "store/embedded/testing/fault_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "base/assert.h"

namespace moor::store::embedded {
namespace {
constexpr std::size_t kSectorBytes = 512;

struct Change {
  std::size_t offset = 0;
  std::string bytes;
  bool truncation = false;  // to `offset`
};

void apply(std::string& image, const Change& change) {
  if (change.truncation) {
    image.resize(std::min(image.size(), change.offset));
    return;
  }
  if (image.size() < change.offset + change.bytes.size()) image.resize(change.offset + change.bytes.size());
  std::memcpy(image.data() + change.offset, change.bytes.data(), change.bytes.size());
}

struct Tracked {
  std::string durable;
  std::vector<Change> pending;
};

std::string read_all(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
}  // namespace

struct FaultVfs::State {
  sqlite3_vfs vfs{};
  sqlite3_vfs* below = nullptr;
  std::string name;
  mutable std::mutex mutex;  // all below
  std::optional<Fault> fault;
  std::uint64_t matched = 0;
  std::uint64_t hit = 0;
  std::uint64_t operations = 0;
  std::uint64_t cut_at = 0;  // 0: never
  bool cut = false;
  std::map<std::string, Tracked> files;

  // SQLITE_OK, or the error that the operation shall give. Called with the mutex held.
  int judge(Operation operation, const std::string& path, std::size_t& space) {
    space = 0;
    ++operations;
    if (cut_at != 0 && operations >= cut_at) cut = true;
    if (cut) return SQLITE_IOERR;
    if (!fault || fault->operation != operation || !path.ends_with(fault->file_ends_with)) return SQLITE_OK;
    ++matched;
    if (matched < fault->nth || (matched > fault->nth && !fault->lasting)) return SQLITE_OK;
    ++hit;
    space = fault->space;
    if (fault->failure == Failure::no_space) return SQLITE_FULL;
    switch (operation) {
      case Operation::write: return SQLITE_IOERR_WRITE;
      case Operation::sync: return SQLITE_IOERR_FSYNC;
      case Operation::truncate: return SQLITE_IOERR_TRUNCATE;
    }
    return SQLITE_IOERR;
  }
};

namespace {
using State = FaultVfs::State;
using Operation = FaultVfs::Operation;

struct File {
  sqlite3_file base;  // first: SQLite sees only this
  State* state;
  sqlite3_file* below;
  std::string* path;
};

File* file_of(sqlite3_file* base) {
  return reinterpret_cast<File*>(base);
}

int close_file(sqlite3_file* base) {
  File* file = file_of(base);
  const int code = file->below->pMethods->xClose(file->below);
  delete file->path;
  return code;
}

int read_file(sqlite3_file* base, void* buffer, int amount, sqlite3_int64 offset) {
  File* file = file_of(base);
  return file->below->pMethods->xRead(file->below, buffer, amount, offset);
}

int write_file(sqlite3_file* base, const void* buffer, int amount, sqlite3_int64 offset) {
  File* file = file_of(base);
  const std::lock_guard lock(file->state->mutex);
  Change change{static_cast<std::size_t>(offset),
                std::string(static_cast<const char*>(buffer), static_cast<std::size_t>(amount)), false};
  std::size_t space = 0;
  const bool was_cut = file->state->cut;
  const int code = file->state->judge(Operation::write, *file->path, space);
  // The write that the cut hits may still reach the disk in part.
  const bool reaches = code == SQLITE_OK || space > 0 || (file->state->cut && !was_cut);
  if (space > 0) change.bytes.resize(std::min(space, change.bytes.size() - 1));
  if (reaches) file->state->files[*file->path].pending.push_back(change);
  if (code != SQLITE_OK && space == 0) return code;
  const int written = file->below->pMethods->xWrite(file->below, change.bytes.data(),
                                                    static_cast<int>(change.bytes.size()), offset);
  return code != SQLITE_OK ? code : written;
}

int truncate_file(sqlite3_file* base, sqlite3_int64 size) {
  File* file = file_of(base);
  const std::lock_guard lock(file->state->mutex);
  std::size_t space = 0;
  const int code = file->state->judge(Operation::truncate, *file->path, space);
  if (code != SQLITE_OK) return code;
  file->state->files[*file->path].pending.push_back({static_cast<std::size_t>(size), "", true});
  return file->below->pMethods->xTruncate(file->below, size);
}

int sync_file_below(sqlite3_file* base, int flags) {
  File* file = file_of(base);
  const std::lock_guard lock(file->state->mutex);
  std::size_t space = 0;
  const int code = file->state->judge(Operation::sync, *file->path, space);
  if (code != SQLITE_OK) return code;
  Tracked& tracked = file->state->files[*file->path];
  for (const Change& change : tracked.pending) apply(tracked.durable, change);
  tracked.pending.clear();
  return file->below->pMethods->xSync(file->below, flags);
}

// The rest goes straight through.
int size_of_file(sqlite3_file* base, sqlite3_int64* size) {
  return file_of(base)->below->pMethods->xFileSize(file_of(base)->below, size);
}
int lock_file(sqlite3_file* base, int level) {
  return file_of(base)->below->pMethods->xLock(file_of(base)->below, level);
}
int unlock_file(sqlite3_file* base, int level) {
  return file_of(base)->below->pMethods->xUnlock(file_of(base)->below, level);
}
int check_reserved(sqlite3_file* base, int* out) {
  return file_of(base)->below->pMethods->xCheckReservedLock(file_of(base)->below, out);
}
int control_file(sqlite3_file* base, int operation, void* argument) {
  return file_of(base)->below->pMethods->xFileControl(file_of(base)->below, operation, argument);
}
int sector_size(sqlite3_file* base) {
  return file_of(base)->below->pMethods->xSectorSize(file_of(base)->below);
}
int characteristics(sqlite3_file* base) {
  return file_of(base)->below->pMethods->xDeviceCharacteristics(file_of(base)->below);
}
int shm_map(sqlite3_file* base, int page, int size, int extend, void volatile** out) {
  return file_of(base)->below->pMethods->xShmMap(file_of(base)->below, page, size, extend, out);
}
int shm_lock(sqlite3_file* base, int offset, int count, int flags) {
  return file_of(base)->below->pMethods->xShmLock(file_of(base)->below, offset, count, flags);
}
void shm_barrier(sqlite3_file* base) {
  file_of(base)->below->pMethods->xShmBarrier(file_of(base)->below);
}
int shm_unmap(sqlite3_file* base, int remove) {
  return file_of(base)->below->pMethods->xShmUnmap(file_of(base)->below, remove);
}

// Version 2: with shared memory, without mapped reads, which would go past this layer.
constexpr sqlite3_io_methods kMethods = {
    2,         close_file,  read_file,      write_file,   truncate_file, sync_file_below, size_of_file,
    lock_file, unlock_file, check_reserved, control_file, sector_size,   characteristics, shm_map,
    shm_lock,  shm_barrier, shm_unmap,      nullptr,      nullptr};

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* base, int flags, int* flags_out) {
  auto* state = static_cast<State*>(vfs->pAppData);
  File* file = file_of(base);
  file->base.pMethods = nullptr;
  file->state = state;
  file->below = reinterpret_cast<sqlite3_file*>(file + 1);
  const std::string path = name == nullptr ? "" : name;
  const int code = state->below->xOpen(state->below, name, file->below, flags, flags_out);
  if (code != SQLITE_OK) return code;
  file->path = new std::string(path);
  file->base.pMethods = &kMethods;
  const std::lock_guard lock(state->mutex);
  if (!path.empty() && !state->files.contains(path)) state->files[path].durable = read_all(path);
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs* vfs, const char* name, int sync_directory) {
  auto* state = static_cast<State*>(vfs->pAppData);
  const std::lock_guard lock(state->mutex);
  if (state->cut) return SQLITE_IOERR_DELETE;
  state->files.erase(name);
  return state->below->xDelete(state->below, name, sync_directory);
}

int access_file(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  auto* below = static_cast<State*>(vfs->pAppData)->below;
  return below->xAccess(below, name, flags, out);
}
int full_path(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  auto* below = static_cast<State*>(vfs->pAppData)->below;
  return below->xFullPathname(below, name, size, out);
}
int randomness(sqlite3_vfs* vfs, int size, char* out) {
  auto* below = static_cast<State*>(vfs->pAppData)->below;
  return below->xRandomness(below, size, out);
}
int sleep_below(sqlite3_vfs* vfs, int microseconds) {
  auto* below = static_cast<State*>(vfs->pAppData)->below;
  return below->xSleep(below, microseconds);
}
int current_time(sqlite3_vfs* vfs, double* out) {
  auto* below = static_cast<State*>(vfs->pAppData)->below;
  return below->xCurrentTime(below, out);
}
int last_error(sqlite3_vfs*, int, char*) {
  return 0;  // the faults are ours: the system knows of none
}
}  // namespace

FaultVfs::FaultVfs() : state_(std::make_unique<State>()) {
  static std::atomic<int> next{1};
  state_->name = "moor-fault-" + std::to_string(next++);
  state_->below = sqlite3_vfs_find(nullptr);
  MOOR_ASSERT(state_->below != nullptr);
  sqlite3_vfs& vfs = state_->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = static_cast<int>(sizeof(File)) + state_->below->szOsFile;
  vfs.mxPathname = state_->below->mxPathname;
  vfs.zName = state_->name.c_str();
  vfs.pAppData = state_.get();
  vfs.xOpen = open_file;
  vfs.xDelete = delete_file;
  vfs.xAccess = access_file;
  vfs.xFullPathname = full_path;
  vfs.xRandomness = randomness;
  vfs.xSleep = sleep_below;
  vfs.xCurrentTime = current_time;
  vfs.xGetLastError = last_error;
  MOOR_ASSERT(sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
}

FaultVfs::~FaultVfs() {
  sqlite3_vfs_unregister(&state_->vfs);
}

const std::string& FaultVfs::name() const {
  return state_->name;
}

void FaultVfs::inject(const Fault& fault) {
  const std::lock_guard lock(state_->mutex);
  state_->fault = fault;
  state_->matched = 0;
  state_->hit = 0;
}

void FaultVfs::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->fault.reset();
}

std::uint64_t FaultVfs::faults_hit() const {
  const std::lock_guard lock(state_->mutex);
  return state_->hit;
}

std::uint64_t FaultVfs::operations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->operations;
}

void FaultVfs::cut_power_at(std::uint64_t nth) {
  const std::lock_guard lock(state_->mutex);
  state_->cut_at = state_->operations + nth;
}

bool FaultVfs::is_cut() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cut;
}

void FaultVfs::write_survivors(const std::filesystem::path& target, Unsynced unsynced, Random& random) const {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [path, tracked] : state_->files) {
    std::string image = tracked.durable;
    for (const Change& change : tracked.pending) {
      if (unsynced == Unsynced::lost) continue;
      if (unsynced == Unsynced::kept || change.truncation) {
        if (unsynced == Unsynced::kept || random.chance(1, 2)) apply(image, change);
        continue;
      }
      // Sector by sector: disks tear large writes and take them in any order.
      for (std::size_t at = 0; at < change.bytes.size(); at += kSectorBytes) {
        if (random.chance(1, 2))
          apply(image, {change.offset + at, change.bytes.substr(at, kSectorBytes), false});
      }
    }
    std::ofstream(target / std::filesystem::path(path).filename(), std::ios::binary)
        .write(image.data(), static_cast<std::streamsize>(image.size()));
  }
}

}  // namespace moor::store::embedded
