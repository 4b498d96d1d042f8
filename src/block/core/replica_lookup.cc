#include "block/core/replica_lookup.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace moor::block {

Lookup::~Lookup() {
  if (codes_ != nullptr) munmap(codes_, blocks_);
}

Result<void> Lookup::reset(std::uint64_t blocks) {
  void* fresh =
      mmap(nullptr, blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return errno_error(errno, "memory for the lookup table");
  if (codes_ != nullptr) munmap(codes_, blocks_);
  codes_ = static_cast<std::uint8_t*>(fresh);
  blocks_ = blocks;
  return {};
}

Result<void> Lookup::grow(std::uint64_t blocks) {
  MOOR_ASSERT(codes_ != nullptr && blocks >= blocks_, "a lookup table only grows");
  void* moved = mremap(codes_, blocks_, blocks, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return errno_error(errno, "memory for the lookup table");
  codes_ = static_cast<std::uint8_t*>(moved);
  blocks_ = blocks;
  return {};
}

void Lookup::seal_head(std::uint8_t slot) {
  MOOR_ASSERT(slot >= 1 && slot <= LookupCode::max_slot, "slot {} is none", slot);
  for (std::uint64_t block = 0; block < blocks_; ++block) {
    const std::uint8_t code = codes_[block];
    // Writes only where something changes: untouched pages stay unallocated.
    if (code == LookupCode::head_data) {
      codes_[block] = slot;
    } else if (code == LookupCode::head_zero) {
      codes_[block] = LookupCode::zero_below;
    }
  }
}

void Lookup::apply(std::uint64_t first_block, const MapSector& sector, std::uint8_t data_code,
                   std::uint8_t zero_code) {
  sector.for_each([&](std::uint64_t index, BlockState state) {
    const std::uint64_t block = first_block + index;
    if (block < blocks_) codes_[block] = state == BlockState::data ? data_code : zero_code;
  });
}

MapSector Lookup::head_sector(std::uint64_t sector) const {
  MapSector result;
  const std::uint64_t first = sector * kMapBlocksPerSector;
  const std::uint64_t end = std::min(first + kMapBlocksPerSector, blocks_);
  for (std::uint64_t block = first; block < end; ++block) {
    const BlockState state = LookupCode::head_state(codes_[block]);
    if (state != BlockState::absent) result.set(block - first, state);
  }
  return result;
}

std::uint64_t Lookup::count(std::uint8_t code) const {
  return static_cast<std::uint64_t>(std::count(codes_, codes_ + blocks_, code));
}

}  // namespace moor::block
