// Which layer holds a block, for every block of the volume, in one byte each: a read costs the same over one
// snapshot or 250, and 100 GiB cost 25 MiB. It doubles as the head's map in memory. Pages never touched cost
// nothing.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "block/core/layer_map.h"

namespace moor::block {

// 1..252 name the slot of an immutable layer that holds the block's data.
struct LookupCode {
  static constexpr std::uint8_t absent = 0;  // in no layer: reads as zeros
  static constexpr std::uint8_t max_slot = 252;
  static constexpr std::uint8_t zero_below = 253;  // zeros, said by an immutable layer
  static constexpr std::uint8_t head_data = 254;
  static constexpr std::uint8_t head_zero = 255;

  static constexpr bool is_data(std::uint8_t code) {
    return code != absent && code != zero_below && code != head_zero;
  }
  static constexpr BlockState head_state(std::uint8_t code) {
    return code == head_data ? BlockState::data : code == head_zero ? BlockState::zero : BlockState::absent;
  }
};

class Lookup {
 public:
  Lookup() = default;
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup();

  // All absent.
  Result<void> reset(std::uint64_t blocks);
  // Keeps what is there; new blocks are absent.
  Result<void> grow(std::uint64_t blocks);

  std::uint64_t blocks() const { return blocks_; }
  std::uint8_t operator[](std::uint64_t block) const { return codes_[block]; }
  void set(std::uint64_t block, std::uint8_t code) { codes_[block] = code; }
  // First block at or after `from` (and below `end`) whose code differs from that of `from`.
  std::uint64_t run_end(std::uint64_t from, std::uint64_t end) const {
    std::uint64_t at = from + 1;
    while (at < end && codes_[at] == codes_[from]) ++at;
    return at;
  }

  // The head becomes the immutable layer of `slot`; the new head is empty.
  void seal_head(std::uint8_t slot);
  // Blocks of a sealed layer that is laid over what is there.
  void apply(std::uint64_t first_block, const MapSector& sector, std::uint8_t data_code,
             std::uint8_t zero_code);
  // The head's map sector as memory has it.
  MapSector head_sector(std::uint64_t sector) const;
  std::uint64_t count(std::uint8_t code) const;

 private:
  std::uint8_t* codes_ = nullptr;
  std::uint64_t blocks_ = 0;
};

}  // namespace moor::block
