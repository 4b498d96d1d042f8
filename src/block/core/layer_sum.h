// The checksums of an immutable layer: CRC-32C per 4 KiB block, in pages of one disk sector that carry their
// own checksum. One sector, because a purge changes pages in place: a larger page torn by a power cut would
// take the sums of good blocks with it. Entries of blocks that are not data have no meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "base/result.h"
#include "block/core/disk_files.h"
#include "block/core/task_sync.h"
#include "block/core/types.h"

namespace moor::block {

inline constexpr std::uint64_t kSumPageSize = 512;
inline constexpr std::uint64_t kSumsPerPage = (kSumPageSize - 8) / 4;

struct SumPage {
  std::array<std::uint32_t, kSumsPerPage> sums{};

  void encode(std::uint64_t file, std::uint64_t page, std::span<std::byte, kSumPageSize> out) const;
  static Result<SumPage> decode(std::uint64_t file, std::uint64_t page,
                                std::span<const std::byte, kSumPageSize> in);
};

// Checksums that reads need again, most recently used first; bounded, so that verifying costs no memory per
// volume size. An entry covers a page's range of the volume, and each of its blocks remembers the layer whose
// sum it holds. A block is visible in one layer only, so the range that is read often fits the cache equally
// well over one snapshot or 250; pages of layers as entries would need 250 times the room.
class SumCache {
 public:
  static constexpr std::size_t kPages = 512;  // about 600 KiB with its index, for 252 MiB of volume

  explicit SumCache(DiskFiles& files) : files_(files), gate_(files.runner()) {}

  // Whether `data`, whole blocks from `first_block` on, is what was summed up; corrupt names the first that
  // is not.
  Task<Result<void>> verify(std::uint64_t layer, FileId sum_file, std::uint64_t first_block,
                            std::span<const std::byte> data);
  // The whole page, for those who change it (purge): a page never written reads as empty.
  Task<Result<SumPage>> load(std::uint64_t layer, FileId sum_file, std::uint64_t page);
  Task<Result<void>> store(std::uint64_t layer, FileId sum_file, std::uint64_t page, SumPage contents);
  void forget(std::uint64_t layer);

 private:
  // Numbers of layers are never used twice; one that does not fit is verified without the cache's help.
  using Owner = std::uint32_t;
  struct Entry {
    std::uint64_t page;
    std::array<std::uint32_t, kSumsPerPage> sums;
    std::array<Owner, kSumsPerPage> owners;  // 0: none
  };
  static Owner owner_of(std::uint64_t layer) { return layer <= 0xffffffff ? static_cast<Owner>(layer) : 0; }
  Entry& entry_for(std::uint64_t page);
  Entry* find(std::uint64_t page);
  static bool holds(const Entry* entry, Owner owner, std::uint64_t first, std::uint64_t end);

  DiskFiles& files_;
  Gate gate_;  // a page is not read while it is written: the reader would see, and keep, a mixture
  std::list<Entry> recent_;
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> index_;
};

}  // namespace moor::block
