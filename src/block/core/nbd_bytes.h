// Big-endian numbers in byte ranges, as NBD and our private messages write them. ByteReader is total: past
// the end it gives zeros and remembers that it failed, so a decoder checks once, at its end.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moor::block {

using Bytes = std::span<const std::byte>;

template <std::unsigned_integral T>
T to_big_endian(T value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <std::unsigned_integral T>
T load_big_endian(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return to_big_endian(value);
}

template <std::unsigned_integral T>
std::byte* store_big_endian(std::byte* to, T value) {
  value = to_big_endian(value);
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Gives `need` contiguous bytes of a stream: straight from `bytes` when they are all there, else collected in
// `head` over as many calls as they come in.
inline bool take(std::vector<std::byte>& head, Bytes& bytes, std::size_t need, Bytes& whole) {
  if (head.empty() && bytes.size() >= need) {
    whole = bytes.first(need);
    bytes = bytes.subspan(need);
    return true;
  }
  const auto part = std::min(need - head.size(), bytes.size());
  head.insert(head.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
  bytes = bytes.subspan(part);
  whole = head;
  return head.size() == need;
}

class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    const Bytes raw = bytes(sizeof(T));
    return raw.empty() ? T{0} : load_big_endian<T>(raw.data());
  }
  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  Bytes bytes(std::size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const Bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  // A text with its length before it; longer than `most` is a failure.
  std::string_view text32(std::size_t most) { return text(u32(), most); }
  std::string_view text16(std::size_t most) { return text(u16(), most); }

  std::size_t left() const { return rest_.size(); }
  Bytes rest() const { return rest_; }
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }
  // Everything was there and nothing is left over.
  bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view text(std::size_t size, std::size_t most) {
    if (size > most) failed_ = true;
    return failed_ ? std::string_view() : as_text(bytes(size));
  }

  Bytes rest_;
  bool failed_ = false;
};

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    std::byte raw[sizeof(T)];
    store_big_endian(raw, value);
    out_.insert(out_.end(), raw, raw + sizeof raw);
  }
  void u8(std::uint8_t value) { number(value); }
  void u16(std::uint16_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void bytes(Bytes bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void text32(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    bytes(as_bytes(text));
  }
  void text16(std::string_view text) {
    u16(static_cast<std::uint16_t>(text.size()));
    bytes(as_bytes(text));
  }
  const std::vector<std::byte>& out() const { return out_; }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

}  // namespace moor::block
