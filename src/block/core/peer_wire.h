// The messages of peer.h as bytes, and back. HELLO travels in the NBD export name, its answer in a private
// NBD_REP_INFO, private commands as NBD commands with a body, refusals as NBD error replies whose text starts
// with a word that programs read ("moor:superseded: …").
//
// Pure functions. Encoders fail (invalid, exhausted) on what breaks a bound; decoders are total: any bytes
// give a value or an Error (invalid; unsupported for a newer version), never more memory than the bounds
// below.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "block/core/nbd_bytes.h"
#include "block/core/nbd_client.h"
#include "block/core/nbd_protocol.h"
#include "block/core/nbd_server.h"
#include "block/core/peer.h"

namespace moor::block {

inline constexpr std::uint16_t kPeerWireVersion = 2;
inline constexpr std::size_t kMaxIdBytes = 253;  // volume, engine, layer and head ids, snapshot names
inline constexpr std::size_t kMaxTokenBytes = 512;
inline constexpr std::size_t kMaxLabels = 64;        // per layer
inline constexpr std::size_t kMaxLabelBytes = 1024;  // a key or a value
inline constexpr std::size_t kMaxLayers = 4096;
inline constexpr std::size_t kMaxUnsettled = 1u << 16;  // extents
inline constexpr std::size_t kMaxRegions = 1u << 22;    // 16 TiB of dirty regions

// Printable ASCII of at most 4096 bytes: "moor-hello/2?volume=…&epoch=…&engine=…&session=…&mode=…&token=…".
Result<std::string> encode_hello(const Hello& hello);
// not_found: the name is no HELLO at all, but may well be a plain export's name.
Result<Hello> decode_hello(std::string_view export_name);
// A HELLO for logs: the token is left out.
std::string describe(const Hello& hello);

Result<std::vector<std::byte>> encode_hello_answer(const HelloAnswer& answer);
Result<HelloAnswer> decode_hello_answer(Bytes bytes);
Result<std::vector<std::byte>> encode_unsettled(const Unsettled& unsettled);
Result<Unsettled> decode_unsettled(Bytes bytes);

struct Refusal {
  PeerRefusal reason = PeerRefusal::none;  // none: a refusal that is not one of ours
  std::string message;                     // for people
  bool operator==(const Refusal&) const = default;
};
std::string_view to_string(PeerRefusal reason);
// The text for nbd::Server::refuse() and farewell(), and the NBD error that goes with it.
std::string encode_refusal(const Refusal& refusal);
nbd::OptionReply refusal_reply(PeerRefusal reason);
Refusal decode_refusal(std::string_view text);

// A request as the NBD client sends it. `payload` is the data of a WRITE; a READ may name its buffer there.
Result<nbd::ClientRequest> encode_request(const PeerRequest& request, Slice payload, BufferPool& pool);
// `id` is the caller's name for the request (the wire's own tag stays with the NBD server).
Result<PeerRequest> decode_request(const nbd::Request& request, std::uint64_t id);

// Answers `request` on the server; READ's data goes with reply_read and not through here.
Result<void> send_reply(nbd::Server& server, const nbd::Request& request, const PeerReply& reply);
// The reply to `op`. A reply whose body is damaged becomes an Error: the connection is of no use then.
Result<PeerReply> decode_reply(PeerOp op, const nbd::ClientReply& reply);

}  // namespace moor::block
