#include "base/ids.h"

namespace moor {

std::string make_uuid(Random& random) {
  const std::uint64_t high = (random.next() & ~0xf000ull) | 0x4000;                        // version 4
  const std::uint64_t low = (random.next() & 0x3fffffffffffffffull) | 0x8000000000000000;  // variant 1
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(36, '-');
  std::size_t at = 0;
  for (const std::uint64_t word : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) {
      if (at == 8 || at == 13 || at == 18 || at == 23) ++at;
      text[at++] = kDigits[word >> shift & 0xf];
    }
  }
  return text;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

std::string make_suffix(Random& random, std::size_t length) {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text.push_back(kLetters[random.below(kLetters.size())]);
  return text;
}

}  // namespace moor
