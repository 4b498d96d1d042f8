// A set of dirty-region numbers of one volume, one bit each: a tebibyte takes 32 KiB.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "block/core/types.h"

namespace moor::block::engine {

class RegionSet {
 public:
  void resize(std::uint64_t volume_bytes) {
    words_.resize(((volume_bytes + kRegionSize - 1) / kRegionSize + 63) / 64);
  }
  void insert(std::uint64_t region) {
    if (region / 64 < words_.size()) words_[region / 64] |= std::uint64_t{1} << (region % 64);
  }
  void erase(std::uint64_t region) {
    if (region / 64 < words_.size()) words_[region / 64] &= ~(std::uint64_t{1} << (region % 64));
  }
  void insert_range(std::uint64_t offset, std::uint64_t length) {
    if (length == 0) return;
    for (std::uint64_t r = offset / kRegionSize; r <= (offset + length - 1) / kRegionSize; ++r) insert(r);
  }
  bool contains_any(std::uint64_t offset, std::uint64_t length) const {
    if (length == 0) return false;
    for (std::uint64_t r = offset / kRegionSize; r <= (offset + length - 1) / kRegionSize; ++r) {
      if (r / 64 < words_.size() && (words_[r / 64] >> (r % 64) & 1) != 0) return true;
    }
    return false;
  }
  void subtract(const RegionSet& other) {
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) words_[i] &= ~other.words_[i];
  }
  void clear() { words_.assign(words_.size(), 0); }
  bool empty() const {
    for (const std::uint64_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }
  std::size_t count() const {
    std::size_t total = 0;
    for (const std::uint64_t word : words_) total += static_cast<std::size_t>(std::popcount(word));
    return total;
  }
  // Ascending, at most `limit`.
  std::vector<std::uint64_t> list(std::size_t limit) const {
    std::vector<std::uint64_t> found;
    for (std::size_t i = 0; i < words_.size() && found.size() < limit; ++i) {
      for (std::uint64_t word = words_[i]; word != 0 && found.size() < limit; word &= word - 1) {
        found.push_back(i * 64 + static_cast<std::uint64_t>(std::countr_zero(word)));
      }
    }
    return found;
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace moor::block::engine
