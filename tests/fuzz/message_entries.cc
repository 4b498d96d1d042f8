#include <algorithm>

#include "base/assert.h"
#include "block/core/control_protocol.h"
#include "block/core/peer_wire.h"
#include "entries.h"

namespace moor::block::fuzz {

void peer_wire(Input input) {
  if (input.empty()) return;
  const Bytes bytes = std::as_bytes(input.subspan(1));
  const std::string_view text = as_text(bytes);
  BufferPool pool;
  switch (input[0] % 4) {
    case 0:
      // What was understood has one spelling, and it is the one that was given.
      if (const auto hello = decode_hello(text)) {
        // Hexadecimal digits may come in capitals; everything else is fixed.
        const auto again = encode_hello(*hello);
        MOOR_ASSERT(again.ok() && decode_hello(*again).value() == *hello);
      }
      break;
    case 1:
      if (const auto answer = decode_hello_answer(bytes)) {
        const auto again = encode_hello_answer(*answer);
        // Labels are sorted when written; equal content is what counts.
        MOOR_ASSERT(again.ok() && decode_hello_answer(*again).value() == *answer);
      }
      break;
    case 2: {
      nbd::Request request;
      if (bytes.size() < 2) return;
      request.command = load_big_endian<std::uint16_t>(bytes.data());
      request.payload = pool.copy_of(bytes.subspan(2));
      request.length = static_cast<std::uint32_t>(request.payload.size());
      if (const auto decoded = decode_request(request, 1)) {
        MOOR_ASSERT(encode_request(*decoded, request.payload, pool).ok());
      }
      break;
    }
    default: {
      const auto refusal = decode_refusal(text);
      if (refusal.reason != PeerRefusal::none) MOOR_ASSERT(encode_refusal(refusal) == text);
    }
  }
}

void control(Input input) {
  if (input.empty()) return;
  BufferPool pool;
  control::Session session(pool, Json::object({{"program", "fuzz"}}));
  if (input[0] & 1) {
    const std::string hello = R"({"id":0,"op":"hello","arguments":{"version":1}})";
    OutQueue frame(pool);
    control::write_frame(frame, hello);
    iovec piece{};
    frame.gather(&piece, 1);
    session.feed({static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
  }
  Bytes bytes = std::as_bytes(input.subspan(1));
  while (!bytes.empty()) {
    const auto part = input[0] & 2 ? std::min<std::size_t>(bytes.size(), 1 + input[0] / 4) : bytes.size();
    const auto taken = session.feed(bytes.first(part));
    auto events = session.take_events();
    for (auto& event : events) {
      if (const auto* call = std::get_if<control::Call>(&event)) session.reply(call->id, call->arguments);
    }
    session.event("tick", Json::object());
    session.out().clear();
    MOOR_ASSERT(taken > 0 || !events.empty(), "stuck");
    bytes = bytes.subspan(taken);
  }
  if (const auto message = control::decode_message(as_text(std::as_bytes(input.subspan(1))))) {
    MOOR_ASSERT(message->index() < 2);
  }
}

}  // namespace moor::block::fuzz
