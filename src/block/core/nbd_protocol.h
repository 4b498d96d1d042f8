// Numbers of the NBD protocol (github.com/NetworkBlockDevice/nbd, doc/proto.md) and of our private range.
#pragma once

#include <cstdint>

namespace moor::block::nbd {

inline constexpr std::uint64_t kServerMagic = 0x4e42444d41474943;  // "NBDMAGIC"
inline constexpr std::uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
inline constexpr std::uint64_t kOptionReplyMagic = 0x0003e889045565a9;
inline constexpr std::uint32_t kRequestMagic = 0x25609513;
inline constexpr std::uint32_t kSimpleReplyMagic = 0x67446698;
inline constexpr std::uint32_t kStructuredReplyMagic = 0x668e33ef;

inline constexpr std::size_t kRequestHeaderBytes = 28;
inline constexpr std::size_t kSimpleReplyBytes = 16;
inline constexpr std::size_t kChunkHeaderBytes = 20;
inline constexpr std::size_t kOptionHeaderBytes = 16;
inline constexpr std::size_t kOptionReplyBytes = 20;
inline constexpr std::size_t kMaxNameBytes = 4096;  // the protocol's bound on every string

// Handshake flags, of the server (16 bits) and of the client (32 bits).
inline constexpr std::uint16_t kFixedNewstyle = 1 << 0;
inline constexpr std::uint16_t kNoZeroes = 1 << 1;

// Transmission flags.
inline constexpr std::uint16_t kHasFlags = 1 << 0;
inline constexpr std::uint16_t kReadOnly = 1 << 1;
inline constexpr std::uint16_t kSendFlush = 1 << 2;
inline constexpr std::uint16_t kSendFua = 1 << 3;
inline constexpr std::uint16_t kRotational = 1 << 4;
inline constexpr std::uint16_t kSendTrim = 1 << 5;
inline constexpr std::uint16_t kSendWriteZeroes = 1 << 6;
inline constexpr std::uint16_t kSendDf = 1 << 7;
inline constexpr std::uint16_t kCanMultiConn = 1 << 8;
inline constexpr std::uint16_t kSendFastZero = 1 << 11;

enum class Option : std::uint32_t {
  export_name = 1,
  abort = 2,
  list = 3,
  start_tls = 5,
  info = 6,
  go = 7,
  structured_reply = 8,
  list_meta_context = 9,
  set_meta_context = 10,
};

enum class OptionReply : std::uint32_t {
  ack = 1,
  server = 2,
  info = 3,
  meta_context = 4,
  error_unsupported = 0x80000001,
  error_policy = 0x80000002,
  error_invalid = 0x80000003,
  error_platform = 0x80000004,
  error_tls_required = 0x80000005,
  error_unknown = 0x80000006,
  error_shutdown = 0x80000007,
  error_block_size_required = 0x80000008,
  error_too_big = 0x80000009,
};
inline constexpr std::uint32_t kOptionReplyError = 0x80000000;

enum class Info : std::uint16_t {
  export_size = 0,
  name = 1,
  description = 2,
  block_size = 3,
  // Ours: the answer to HELLO (peer_wire.h). Clients ignore types that they do not know.
  hello_answer = 0x8001,
  // Ours: which life of the volume this is (data-plane: "export id"). Equal ids: what was acknowledged is
  // there.
  export_id = 0x8002,
  // Ours: one byte, 1 while the engine is the standby of a move. Whoever asks for it has pages to drop when
  // that ends, so its connection is closed at the activation; it comes again and sees the 0.
  standby = 0x8003,
};

enum class Command : std::uint16_t {
  read = 0,
  write = 1,
  disconnect = 2,
  flush = 3,
  trim = 4,
  cache = 5,
  write_zeroes = 6,
  block_status = 7,
};
// Commands from here on are ours; they carry `length` bytes of body.
inline constexpr std::uint16_t kFirstPrivateCommand = 0x8000;

inline constexpr std::uint16_t kFlagFua = 1 << 0;
inline constexpr std::uint16_t kFlagNoHole = 1 << 1;
inline constexpr std::uint16_t kFlagDf = 1 << 2;
inline constexpr std::uint16_t kFlagReqOne = 1 << 3;
inline constexpr std::uint16_t kFlagFastZero = 1 << 4;
inline constexpr std::uint16_t kFlagCopy = 1 << 15;  // ours, with private commands: see PeerRequest::copy

inline constexpr std::uint16_t kReplyFlagDone = 1 << 0;
enum class ReplyType : std::uint16_t {
  none = 0,
  offset_data = 1,
  offset_hole = 2,
  block_status = 5,
  private_body = 0x4001,  // ours: the body that answers a private command
  error = 0x8001,
  error_offset = 0x8002,
};
inline constexpr std::uint16_t kReplyTypeError = 0x8000;

// A last word of the server that answers no request: an error chunk with this cookie. Ours.
inline constexpr std::uint64_t kFarewellCookie = ~std::uint64_t{0};

inline constexpr std::uint32_t kErrPerm = 1;
inline constexpr std::uint32_t kErrIo = 5;
inline constexpr std::uint32_t kErrNoMemory = 12;
inline constexpr std::uint32_t kErrInvalid = 22;
inline constexpr std::uint32_t kErrNoSpace = 28;
inline constexpr std::uint32_t kErrOverflow = 75;
inline constexpr std::uint32_t kErrNotSupported = 95;
inline constexpr std::uint32_t kErrShutdown = 108;

inline constexpr std::uint32_t kStateHole = 1 << 0;
inline constexpr std::uint32_t kStateZero = 1 << 1;
inline constexpr char kAllocationContext[] = "base:allocation";
inline constexpr std::uint32_t kAllocationContextId = 1;

// The largest bodies taken outside READ and WRITE. A HELLO answer lists dirty regions and the chain.
inline constexpr std::uint32_t kMaxPrivateBody = 4u << 20;
inline constexpr std::uint32_t kMaxHelloAnswer = 16u << 20;
inline constexpr std::uint32_t kMaxErrorText = 4096;

}  // namespace moor::block::nbd
