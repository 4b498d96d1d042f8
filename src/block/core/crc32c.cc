#include "block/core/crc32c.h"

#include <array>
#include <cstring>

namespace moor::block {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t) {
    for (std::size_t i = 0; i < 256; ++i) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint64_t load64(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_hardware(std::span<const std::byte> data,
                                                                std::uint32_t seed) {
  const std::byte* at = data.data();
  std::size_t left = data.size();
  std::uint64_t crc = ~seed;
  for (; left >= 8; left -= 8, at += 8) crc = __builtin_ia32_crc32di(crc, load64(at));
  auto narrow = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*at));
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t seed) {
  const std::byte* at = data.data();
  std::size_t left = data.size();
  std::uint32_t crc = ~seed;
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = load64(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; left > 0; --left, ++at)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_hardware(data, seed);
#endif
  return crc32c_portable(data, seed);
}

}  // namespace moor::block
