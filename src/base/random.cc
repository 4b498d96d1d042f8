#include "base/random.h"

#include <bit>
#include <cstring>

#include "base/assert.h"

namespace moor {

std::uint64_t Random::below(std::uint64_t bound) {
  MOOR_ASSERT(bound > 0);
  // Values past the last whole multiple of bound would favour small results; draw again (less than once on
  // average).
  const std::uint64_t limit = bound * (UINT64_MAX / bound);
  std::uint64_t value = next();
  while (value >= limit) value = next();
  return value % bound;
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  MOOR_ASSERT(low <= high);
  const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const std::uint64_t step = width == UINT64_MAX ? next() : below(width + 1);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + step);
}

void Random::fill(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t value = next();
    const std::size_t count = bytes.size() < sizeof value ? bytes.size() : sizeof value;
    std::memcpy(bytes.data(), &value, count);
    bytes = bytes.subspan(count);
  }
}

SeededRandom::SeededRandom(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    word = mixed ^ (mixed >> 31);
  }
}

std::uint64_t SeededRandom::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

}  // namespace moor
