// Helpers for tests of the NBD machines: bytes as strings, splits, hand-written messages.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"
#include "block/core/nbd_client.h"
#include "block/core/nbd_protocol.h"
#include "block/core/nbd_server.h"

namespace moor::block::nbd::testing {

inline std::string drain(OutQueue& out) {
  std::string text;
  while (!out.empty()) {
    iovec piece{};
    out.gather(&piece, 1);
    text.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    out.consume(piece.iov_len);
  }
  return text;
}

// Numbers as they stand on the wire: wire(u32(1), u16(2), "text").
template <std::unsigned_integral T>
std::string big(T value) {
  std::string raw(sizeof value, '\0');
  store_big_endian(reinterpret_cast<std::byte*>(raw.data()), value);
  return raw;
}
inline std::string u16(std::uint64_t value) {
  return big(static_cast<std::uint16_t>(value));
}
inline std::string u32(std::uint64_t value) {
  return big(static_cast<std::uint32_t>(value));
}
inline std::string u64(std::uint64_t value) {
  return big(static_cast<std::uint64_t>(value));
}

inline std::string option(Option type, std::string_view body = {}) {
  return u64(kOptionMagic) + u32(static_cast<std::uint32_t>(type)) + u32(body.size()) + std::string(body);
}
inline std::string go_body(std::string_view name) {
  return u32(name.size()) + std::string(name) + u16(0);
}
inline std::string context_body(std::string_view name, const std::vector<std::string>& queries) {
  std::string body = u32(name.size()) + std::string(name) + u32(queries.size());
  for (const auto& query : queries) body += u32(query.size()) + query;
  return body;
}
struct RawRequest {
  std::uint16_t command = 0;
  std::uint64_t cookie = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint16_t flags = 0;
  std::string payload = {};
};
inline std::string raw(const RawRequest& request) {
  return u32(kRequestMagic) + u16(request.flags) + u16(request.command) + u64(request.cookie) +
         u64(request.offset) + u32(request.length) + request.payload;
}
inline std::uint16_t number(Command command) {
  return static_cast<std::uint16_t>(command);
}
inline std::string option_reply(Option option, OptionReply type, std::string_view body = {}) {
  return u64(kOptionReplyMagic) + u32(static_cast<std::uint32_t>(option)) +
         u32(static_cast<std::uint32_t>(type)) + u32(body.size()) + std::string(body);
}
inline std::string chunk(std::uint16_t flags, std::uint16_t type, std::uint64_t cookie,
                         std::string_view body) {
  return u32(kStructuredReplyMagic) + u16(flags) + u16(type) + u64(cookie) + u32(body.size()) +
         std::string(body);
}
inline std::string simple(std::uint32_t error, std::uint64_t cookie) {
  return u32(kSimpleReplyMagic) + u32(error) + u64(cookie);
}

}  // namespace moor::block::nbd::testing
