// The map of a layer: two bits per 4 KiB block, in sectors of 512 bytes that each carry their own checksum. A
// disk writes a sector whole or not at all, so an update in place leaves the old sector or the new one and
// never a mixture; anything else is found by the checksum, which also covers where the sector belongs. A
// sector of zeros is one that was never written: all its blocks are absent. (That a written sector turned
// into zeros is found by the checksum over the whole map that volume.meta keeps for each immutable layer, and
// for the head at a clean stop.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/result.h"

namespace moor::block {

enum class BlockState : std::uint8_t { absent = 0, data = 1, zero = 2 };

inline constexpr std::uint64_t kSectorSize = 512;
inline constexpr std::uint64_t kMapBlocksPerSector = (kSectorSize - 8) * 4;

inline constexpr std::uint64_t map_sectors(std::uint64_t blocks) {
  return (blocks + kMapBlocksPerSector - 1) / kMapBlocksPerSector;
}

struct MapPlace {
  std::uint64_t file = 0;  // number of the layer's files
  std::uint64_t sector = 0;
};

class MapSector {
 public:
  BlockState get(std::uint64_t index) const {
    return static_cast<BlockState>((payload_[index / 4] >> (index % 4 * 2)) & 3);
  }
  void set(std::uint64_t index, BlockState state) {
    auto& byte = payload_[index / 4];
    const unsigned shift = index % 4 * 2;
    byte = static_cast<std::uint8_t>((byte & ~(3u << shift)) | (static_cast<unsigned>(state) << shift));
  }
  bool is_empty() const;

  // Calls visit(index, state) for each block that is not absent.
  template <class Visit>
  void for_each(Visit visit) const {
    // By words: opening looks at every sector of every layer, and most of their blocks are absent.
    static_assert(sizeof payload_ % sizeof(std::uint64_t) == 0);
    for (std::size_t at = 0; at < payload_.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, payload_.data() + at, sizeof word);
      if (word == 0) continue;
      for (std::uint64_t index = at * 4; index < (at + sizeof word) * 4; ++index) {
        const BlockState state = get(index);
        if (state != BlockState::absent) visit(index, state);
      }
    }
  }

  // An empty sector becomes zeros.
  void encode(MapPlace place, std::span<std::byte, kSectorSize> out) const;
  static Result<MapSector> decode(MapPlace place, std::span<const std::byte, kSectorSize> in);

 private:
  std::array<std::uint8_t, kSectorSize - 8> payload_{};
};

// The checksum over a whole map: chain it over its encoded sectors, from first to last.
std::uint32_t extend_map_crc(std::uint32_t crc, std::span<const std::byte> encoded);

}  // namespace moor::block
