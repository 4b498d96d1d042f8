// The dirty-region log: which 4 MiB regions were written since the last clean point, on disk before the first
// such write. One bit per region in a file of sectors that each carry a checksum and are updated in place (a
// sector is written whole or not at all). Too many bits only cost a resync; a missing one would lose the
// members' agreement.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/disk_files.h"
#include "block/core/task_sync.h"
#include "block/core/types.h"

namespace moor::block {

inline constexpr std::string_view kDirtyName = "dirty.log";

struct RegionRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // inclusive
};

inline constexpr std::uint64_t regions_of(std::uint64_t size) {
  return (size + kRegionSize - 1) / kRegionSize;
}

class DirtyLog {
 public:
  explicit DirtyLog(DiskFiles& files) : files_(files), mutex_(files.runner()) {}

  static Task<Result<void>> create(DiskFiles& files, std::uint64_t size);
  Task<Result<void>> load(std::uint64_t size);
  // Makes room on disk for a larger volume; harmless when the volume then does not grow.
  Task<Result<void>> grow(std::uint64_t size);

  bool is_marked(RegionRange range) const;
  Task<Result<void>> mark(RegionRange range);
  // Not synced: a bit that comes back after a crash is only too many. Regions for which `keep` says so stay.
  Task<Result<void>> clear(std::vector<std::uint64_t> regions, std::function<bool(std::uint64_t)> keep);

  std::vector<std::uint64_t> regions() const;  // ascending

 private:
  Task<Result<void>> write_sectors(std::uint64_t first, std::uint64_t last, bool sync);

  DiskFiles& files_;
  AsyncMutex mutex_;
  FileId file_ = 0;
  std::vector<bool> wanted_;   // what the file shall say
  std::vector<bool> durable_;  // bits known to be on disk
};

}  // namespace moor::block
