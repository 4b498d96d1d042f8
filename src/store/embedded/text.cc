#include "store/embedded/text.h"

#include <array>
#include <cstdint>

namespace moor::store::embedded {
namespace {
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The length of the sequence that begins here, 0 when it is none (RFC 3629: no overlong forms, no
// surrogates).
std::size_t sequence_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(i < bytes.size() ? bytes[i] : 0); };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return at(i) >= low && at(i) <= high;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool second = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}
}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      text.push_back(i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 63]);
  }
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  const Error bad = make_error(Errc::invalid, "not base64");
  if (text.size() % 4 != 0) return bad;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    std::size_t padding = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const char c = text[i + j];
      const std::size_t value = kAlphabet.find(c);
      if (c == '=' && i + 4 == text.size() && j >= 2) {
        ++padding;
      } else if (value == std::string_view::npos || padding > 0) {
        return bad;
      }
      group = group << 6 | (c == '=' ? 0u : static_cast<std::uint32_t>(value));
    }
    if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0)) return bad;
    for (std::size_t j = 0; j < 3 - padding; ++j) bytes.push_back(static_cast<char>(group >> (16 - 8 * j)));
  }
  return bytes;
}

}  // namespace moor::store::embedded
