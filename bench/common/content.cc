#include "bench/common/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/assert.h"

namespace moor::bench {

void append_noise(std::string& text, std::size_t seed, std::size_t size) {
  // Eight letters of sixteen from each number: making the values must not be what is measured.
  constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0fu;
  constexpr std::uint64_t kLetters = 0x6161616161616161u;  // 'a' in each byte
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  std::size_t at = text.size();
  if (at >= size) return;
  text.resize(size);
  while (at < size) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const std::uint64_t letters = ((state >> 3) & kNibbles) + kLetters;
    const std::size_t count = std::min(size - at, sizeof letters);
    std::memcpy(text.data() + at, &letters, count);
    at += count;
  }
}

std::string object_value(std::size_t number, std::size_t bytes) {
  std::string text = fmt::format(R"({{"kind":"Snapshot","metadata":{{"name":"snap-{:07}"}},"pad":")", number);
  append_noise(text, number, bytes - 2);
  return text + "\"}";
}

Scratch::Scratch(const std::string& parent) {
  std::filesystem::create_directories(parent);
  path_ = parent + "/bench-XXXXXX";
  MOOR_ASSERT(mkdtemp(path_.data()) != nullptr, "cannot make a directory below {}", parent);
}

Scratch::~Scratch() {
  std::error_code ignored;  // a left-over scratch directory is no reason to fail a finished run
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace moor::bench
