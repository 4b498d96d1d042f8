// The replies of the NBD server machine: simple ones for clients that know no better, else structured.
#include <algorithm>

#include "base/assert.h"
#include "block/core/nbd_server.h"

namespace moor::block::nbd {

namespace {

constexpr std::size_t kMaxExtentsPerReply = 1024;  // the client asks again for the rest
constexpr std::uint32_t kLongestExtent = 0xffff'f000;

bool is_read(std::uint16_t command) {
  return command == static_cast<std::uint16_t>(Command::read);
}

// NBD knows these few; a backend's other errors become EIO rather than a number that clients misread.
std::uint32_t known_error(std::uint32_t error) {
  switch (error) {
    case kErrPerm:
    case kErrIo:
    case kErrNoMemory:
    case kErrInvalid:
    case kErrNoSpace:
    case kErrOverflow:
    case kErrNotSupported:
    case kErrShutdown: return error;
    default: return kErrIo;
  }
}

}  // namespace

void Server::simple_reply(std::uint64_t cookie, std::uint32_t error) {
  std::byte* at = out_.put(kSimpleReplyBytes).data();
  at = store_big_endian(at, kSimpleReplyMagic);
  at = store_big_endian(at, error);
  store_big_endian(at, cookie);
}

// Writes a chunk's header and leaves room for `extra` bytes of it behind; `length` counts all of the payload.
std::byte* Server::chunk(const Slot& slot, ReplyType type, std::uint32_t length, std::size_t extra,
                         bool done) {
  std::byte* at = out_.put(kChunkHeaderBytes + extra).data();
  at = store_big_endian(at, kStructuredReplyMagic);
  at = store_big_endian(at, done ? kReplyFlagDone : std::uint16_t{0});
  at = store_big_endian(at, static_cast<std::uint16_t>(type));
  at = store_big_endian(at, slot.cookie);
  return store_big_endian(at, length);
}

void Server::write_error(std::uint64_t cookie, std::uint32_t error, std::string_view message) {
  MOOR_ASSERT(error != 0, "an error reply without an error");
  error = known_error(error);
  if (!structured_) return simple_reply(cookie, error);
  message = message.substr(0, 1024);
  Slot slot;
  slot.cookie = cookie;
  std::byte* at = chunk(slot, ReplyType::error, static_cast<std::uint32_t>(6 + message.size()), 6, true);
  at = store_big_endian(at, error);
  store_big_endian(at, static_cast<std::uint16_t>(message.size()));
  out_.put_text(message);
}

void Server::reply_done(RequestTag tag) {
  const Slot slot = release(tag);
  MOOR_ASSERT(!is_read(slot.command), "a read needs data");
  // A simple reply is allowed here even when structured ones were negotiated, and is 4 bytes shorter; the
  // private commands keep to chunks, so that their client needs one path only.
  if (slot.command < kFirstPrivateCommand) return simple_reply(slot.cookie, 0);
  chunk(slot, ReplyType::none, 0, 0, true);
}

void Server::reply_error(RequestTag tag, std::uint32_t error, std::string_view message) {
  const Slot slot = release(tag);
  write_error(slot.cookie, error, message);
}

void Server::reply_read(RequestTag tag, Slice data) {
  const Slot slot = release(tag);
  MOOR_ASSERT(is_read(slot.command) && data.size() == slot.length, "{} bytes for a read of {}", data.size(),
              slot.length);
  if (structured_) {
    std::byte* at = chunk(slot, ReplyType::offset_data, slot.length + 8, 8, true);
    store_big_endian(at, slot.offset);
  } else {
    simple_reply(slot.cookie, 0);
  }
  out_.put_slice(std::move(data));
}

void Server::reply_read(RequestTag tag, std::vector<ReadPiece> pieces) {
  const Slot slot = release(tag);
  std::uint64_t total = 0;
  for (const auto& piece : pieces) {
    MOOR_ASSERT(piece.length > 0 && (piece.data.empty() || piece.data.size() == piece.length));
    total += piece.length;
  }
  MOOR_ASSERT(is_read(slot.command) && total == slot.length, "{} bytes for a read of {}", total, slot.length);

  const auto put = [&](ReadPiece& piece) {
    if (piece.data.empty()) {
      out_.put_zeroes(piece.length);
    } else {
      out_.put_slice(std::move(piece.data));
    }
  };
  if (!structured_ || (slot.flags & kFlagDf) != 0) {
    if (structured_) {
      store_big_endian(chunk(slot, ReplyType::offset_data, slot.length + 8, 8, true), slot.offset);
    } else {
      simple_reply(slot.cookie, 0);
    }
    for (auto& piece : pieces) put(piece);
    return;
  }
  std::uint64_t offset = slot.offset;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto& piece = pieces[i];
    const bool last = i + 1 == pieces.size();
    if (piece.data.empty()) {
      std::byte* at = chunk(slot, ReplyType::offset_hole, 12, 12, last);
      store_big_endian(store_big_endian(at, offset), piece.length);
    } else {
      store_big_endian(chunk(slot, ReplyType::offset_data, piece.length + 8, 8, last), offset);
      put(piece);
    }
    offset += piece.length;
  }
}

void Server::reply_block_status(RequestTag tag, const std::vector<BlockStatus>& extents) {
  const Slot slot = release(tag);
  MOOR_ASSERT(slot.command == static_cast<std::uint16_t>(Command::block_status) && !extents.empty());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> described;
  const std::size_t most = (slot.flags & kFlagReqOne) != 0 ? 1 : kMaxExtentsPerReply;
  std::uint64_t left = slot.length;
  for (const auto& extent : extents) {
    if (left == 0) break;
    const auto length =
        static_cast<std::uint32_t>(std::min({extent.length, left, std::uint64_t{kLongestExtent}}));
    const std::uint32_t state = (extent.hole ? kStateHole : 0) | (extent.zero ? kStateZero : 0);
    MOOR_ASSERT(length > 0, "an empty extent");
    left -= length;
    if (!described.empty() && described.back().second == state) {
      described.back().first += length;
    } else if (described.size() == most) {
      break;
    } else {
      described.emplace_back(length, state);
    }
    if (length < extent.length) break;
  }
  const auto bytes = static_cast<std::uint32_t>(4 + 8 * described.size());
  store_big_endian(chunk(slot, ReplyType::block_status, bytes, 4, true), kAllocationContextId);
  for (const auto& [length, state] : described) {
    store_big_endian(store_big_endian(out_.put(8).data(), length), state);
  }
}

void Server::reply_private(RequestTag tag, Bytes body) {
  const Slot slot = release(tag);
  MOOR_ASSERT(slot.command >= kFirstPrivateCommand && body.size() <= kMaxHelloAnswer);
  chunk(slot, ReplyType::private_body, static_cast<std::uint32_t>(body.size()), 0, true);
  out_.put_bytes(body);
}

void Server::farewell(std::string_view message) {
  if (in_transmission() && structured_) write_error(kFarewellCookie, kErrShutdown, message);
  if (phase_ == Phase::waiting && static_cast<Option>(option_) != Option::export_name &&
      static_cast<Option>(option_) != Option::start_tls) {
    option_error(OptionReply::error_shutdown, message);
  }
  phase_ = Phase::ended;
  head_.clear();
  blocked_ = false;
}

}  // namespace moor::block::nbd
