// The binary bodies of peer_wire.h: version first, numbers big-endian, texts with their length before them.
#include <fmt/format.h>

#include <limits>

#include "base/assert.h"
#include "block/core/peer_wire.h"

namespace moor::block {

namespace {

Error malformed_body(std::string_view what) {
  return make_error(Errc::invalid, fmt::format("malformed {}", what));
}

Result<void> check_version(ByteReader& reader, std::string_view what) {
  const auto version = reader.u16();
  if (reader.failed()) return malformed_body(what);
  if (version != kPeerWireVersion) {
    return make_error(Errc::unsupported, fmt::format("{} of version {} is not known here", what, version));
  }
  return {};
}

bool fits(std::string_view id) {
  return id.size() <= kMaxIdBytes;
}

Result<void> write_labels(ByteWriter& writer, const std::map<std::string, std::string>& labels) {
  if (labels.size() > kMaxLabels) return make_error(Errc::exhausted, "too many labels on a snapshot");
  writer.u16(static_cast<std::uint16_t>(labels.size()));
  for (const auto& [key, value] : labels) {
    if (key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) {
      return make_error(Errc::exhausted, "a label is too long");
    }
    writer.text16(key);
    writer.text16(value);
  }
  return {};
}

std::map<std::string, std::string> read_labels(ByteReader& reader) {
  std::map<std::string, std::string> labels;
  const auto count = reader.u16();
  if (count > kMaxLabels) reader.fail();
  for (int i = 0; i < count && !reader.failed(); ++i) {
    std::string key(reader.text16(kMaxLabelBytes));
    std::string value(reader.text16(kMaxLabelBytes));
    // In order and without repeats: what is understood has one spelling.
    if (!labels.empty() && key <= labels.rbegin()->first) reader.fail();
    labels.emplace_hint(labels.end(), std::move(key), std::move(value));
  }
  return labels;
}

bool read_bool(ByteReader& reader) {
  const auto value = reader.u8();
  if (value > 1) reader.fail();
  return value == 1;
}

// Ascending region numbers as runs (first, count): after a crash they tend to lie together.
Result<void> write_regions(ByteWriter& writer, const std::vector<std::uint64_t>& regions) {
  if (regions.size() > kMaxRegions) return make_error(Errc::exhausted, "too many dirty regions");
  std::vector<std::pair<std::uint64_t, std::uint32_t>> runs;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (i > 0 && regions[i] <= regions[i - 1]) return make_error(Errc::invalid, "regions must ascend");
    if (!runs.empty() && runs.back().first + runs.back().second == regions[i]) {
      ++runs.back().second;
    } else {
      runs.emplace_back(regions[i], 1);
    }
  }
  writer.u32(static_cast<std::uint32_t>(runs.size()));
  for (const auto& [first, count] : runs) {
    writer.u64(first);
    writer.u32(count);
  }
  return {};
}

std::vector<std::uint64_t> read_regions(ByteReader& reader) {
  std::vector<std::uint64_t> regions;
  const auto runs = reader.u32();
  std::uint64_t next = 0;  // the smallest number that the next run may start at
  for (std::uint32_t i = 0; i < runs && !reader.failed(); ++i) {
    const auto first = reader.u64();
    const auto count = reader.u32();
    const bool touches = i > 0 && first == next;  // a run that continues the one before has another spelling
    if (count == 0 || (i > 0 && first < next) || touches || count > kMaxRegions - regions.size() ||
        first > std::numeric_limits<std::uint64_t>::max() - count) {
      reader.fail();
      break;
    }
    for (std::uint32_t k = 0; k < count; ++k) regions.push_back(first + k);
    next = first + count;
  }
  return regions;
}

Result<void> write_layer(ByteWriter& writer, const Layer& layer) {
  if (!fits(layer.id) || !fits(layer.snapshot) || !fits(layer.parent) || !fits(layer.created)) {
    return make_error(Errc::exhausted, "a name in the chain is too long");
  }
  writer.text16(layer.id);
  writer.text16(layer.snapshot);
  writer.text16(layer.parent);
  writer.text16(layer.created);
  TRY_VOID(write_labels(writer, layer.labels));
  writer.u8(layer.removed ? 1 : 0);
  writer.u8(layer.user_created ? 1 : 0);
  writer.u8(layer.summed ? 1 : 0);
  writer.u64(layer.used_bytes);
  return {};
}

Layer read_layer(ByteReader& reader) {
  Layer layer;
  layer.id = reader.text16(kMaxIdBytes);
  layer.snapshot = reader.text16(kMaxIdBytes);
  layer.parent = reader.text16(kMaxIdBytes);
  layer.created = reader.text16(kMaxIdBytes);
  layer.labels = read_labels(reader);
  layer.removed = read_bool(reader);
  layer.user_created = read_bool(reader);
  layer.summed = read_bool(reader);
  layer.used_bytes = reader.u64();
  return layer;
}

bool is_private(PeerOp op) {
  return static_cast<std::uint16_t>(op) >= nbd::kFirstPrivateCommand;
}

bool is_snapshot(PeerOp op) {
  return op == PeerOp::snapshot_create || op == PeerOp::snapshot_mark_removed ||
         op == PeerOp::snapshot_purge || op == PeerOp::snapshot_revert;
}

Result<std::vector<std::byte>> encode_body(const PeerRequest& request) {
  ByteWriter writer;
  writer.u16(kPeerWireVersion);
  writer.u64(request.argument);
  if (request.op == PeerOp::clear_dirty) TRY_VOID(write_regions(writer, request.regions));
  if (is_snapshot(request.op)) {
    const auto& snapshot = request.snapshot;
    if (!fits(snapshot.name) || !fits(snapshot.layer_id) || !fits(snapshot.head_id) ||
        !fits(snapshot.created)) {
      return make_error(Errc::exhausted, "a name of the snapshot is too long");
    }
    writer.text16(snapshot.name);
    writer.text16(snapshot.layer_id);
    writer.text16(snapshot.head_id);
    writer.text16(snapshot.created);
    TRY_VOID(write_labels(writer, snapshot.labels));
    writer.u8(snapshot.user_created ? 1 : 0);
    writer.u64(snapshot.generation);
  }
  if (writer.out().size() > nbd::kMaxPrivateBody)
    return make_error(Errc::exhausted, "the command is too long");
  return writer.take();
}

Result<void> decode_body(PeerRequest& request, Bytes body) {
  ByteReader reader(body);
  TRY_VOID(check_version(reader, "private command"));
  request.argument = reader.u64();
  if (request.op == PeerOp::clear_dirty) request.regions = read_regions(reader);
  if (is_snapshot(request.op)) {
    auto& snapshot = request.snapshot;
    snapshot.name = reader.text16(kMaxIdBytes);
    snapshot.layer_id = reader.text16(kMaxIdBytes);
    snapshot.head_id = reader.text16(kMaxIdBytes);
    snapshot.created = reader.text16(kMaxIdBytes);
    snapshot.labels = read_labels(reader);
    snapshot.user_created = read_bool(reader);
    snapshot.generation = reader.u64();
  }
  if (!reader.complete()) return malformed_body("private command");
  return {};
}

}  // namespace

Result<std::vector<std::byte>> encode_hello_answer(const HelloAnswer& answer) {
  if (answer.chain.size() > kMaxLayers) return make_error(Errc::exhausted, "the chain is too long");
  if (!fits(answer.head_id)) return make_error(Errc::exhausted, "the head's id is too long");
  ByteWriter writer;
  writer.u16(kPeerWireVersion);
  writer.u64(answer.size);
  writer.u64(answer.generation);
  writer.u64(answer.served);
  writer.u64(answer.wrote);
  writer.u8(answer.clean ? 1 : 0);
  writer.u8(answer.rebuilding ? 1 : 0);
  writer.text16(answer.head_id);
  TRY_VOID(write_regions(writer, answer.dirty));
  writer.u32(static_cast<std::uint32_t>(answer.chain.size()));
  for (const auto& layer : answer.chain) TRY_VOID(write_layer(writer, layer));
  if (writer.out().size() > nbd::kMaxHelloAnswer)
    return make_error(Errc::exhausted, "the answer is too long");
  return writer.take();
}

Result<HelloAnswer> decode_hello_answer(Bytes bytes) {
  ByteReader reader(bytes);
  TRY_VOID(check_version(reader, "HELLO answer"));
  HelloAnswer answer;
  answer.size = reader.u64();
  answer.generation = reader.u64();
  answer.served = reader.u64();
  answer.wrote = reader.u64();
  answer.clean = read_bool(reader);
  answer.rebuilding = read_bool(reader);
  answer.head_id = reader.text16(kMaxIdBytes);
  answer.dirty = read_regions(reader);
  const auto layers = reader.u32();
  if (layers > kMaxLayers) return malformed_body("HELLO answer");
  for (std::uint32_t i = 0; i < layers && !reader.failed(); ++i) answer.chain.push_back(read_layer(reader));
  if (!reader.complete()) return malformed_body("HELLO answer");
  return answer;
}

Result<std::vector<std::byte>> encode_unsettled(const Unsettled& unsettled) {
  if (unsettled.extents.size() > kMaxUnsettled) return make_error(Errc::exhausted, "too much is under way");
  ByteWriter writer;
  writer.u16(kPeerWireVersion);
  writer.u64(unsettled.served);
  writer.u32(static_cast<std::uint32_t>(unsettled.extents.size()));
  for (const Extent& extent : unsettled.extents) {
    writer.u64(extent.offset);
    writer.u64(extent.length);
  }
  return writer.take();
}

Result<Unsettled> decode_unsettled(Bytes bytes) {
  ByteReader reader(bytes);
  TRY_VOID(check_version(reader, "list of what is unsettled"));
  Unsettled unsettled;
  unsettled.served = reader.u64();
  const auto count = reader.u32();
  if (count > kMaxUnsettled) return malformed_body("list of what is unsettled");
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    Extent extent;
    extent.offset = reader.u64();
    extent.length = reader.u64();
    if (extent.length == 0 || extent.length > std::numeric_limits<std::uint64_t>::max() - extent.offset) {
      reader.fail();
    }
    unsettled.extents.push_back(extent);
  }
  if (!reader.complete()) return malformed_body("list of what is unsettled");
  return unsettled;
}

Result<nbd::ClientRequest> encode_request(const PeerRequest& request, Slice payload, BufferPool& pool) {
  nbd::ClientRequest wire;
  wire.id = request.id;
  wire.command = static_cast<std::uint16_t>(request.op);
  if (is_private(request.op)) {
    TRY(const auto body, encode_body(request));
    wire.payload = pool.copy_of(body);
    wire.length = static_cast<std::uint32_t>(body.size());
    return wire;
  }
  if (request.op == PeerOp::disconnect) return make_error(Errc::invalid, "disconnect is not a request");
  wire.flags = (request.fua ? nbd::kFlagFua : 0) | (request.no_hole ? nbd::kFlagNoHole : 0) |
               (request.fast_zero ? nbd::kFlagFastZero : 0) | (request.copy ? nbd::kFlagCopy : 0);
  wire.offset = request.offset;
  wire.length = request.length;
  wire.payload = std::move(payload);
  return wire;
}

Result<PeerRequest> decode_request(const nbd::Request& wire, std::uint64_t id) {
  PeerRequest request;
  request.id = id;
  request.op = static_cast<PeerOp>(wire.command);
  switch (request.op) {
    case PeerOp::read:
    case PeerOp::write:
    case PeerOp::flush:
    case PeerOp::trim:
    case PeerOp::write_zeroes:
    case PeerOp::block_status:
      request.fua = wire.has(nbd::kFlagFua);
      request.no_hole = wire.has(nbd::kFlagNoHole);
      request.fast_zero = wire.has(nbd::kFlagFastZero);
      request.copy = wire.has(nbd::kFlagCopy);
      request.offset = wire.offset;
      request.length = wire.length;
      return request;
    case PeerOp::store_generation:
    case PeerOp::mark_served:
    case PeerOp::clear_dirty:
    case PeerOp::snapshot_create:
    case PeerOp::snapshot_mark_removed:
    case PeerOp::snapshot_purge:
    case PeerOp::snapshot_revert:
    case PeerOp::chain:
    case PeerOp::set_rebuilding:
    case PeerOp::store_wrote:
    case PeerOp::unsettled:
    case PeerOp::expand: TRY_VOID(decode_body(request, wire.payload.span())); return request;
    case PeerOp::disconnect: break;
  }
  return make_error(Errc::unsupported, fmt::format("command {:#x} is not known here", wire.command));
}

Result<void> send_reply(nbd::Server& server, const nbd::Request& request, const PeerReply& reply) {
  if (reply.error != 0) {
    server.reply_error(request.tag, reply.error, reply.message);
    return {};
  }
  if (request.is(nbd::Command::block_status)) {
    server.reply_block_status(request.tag, reply.extents);
    return {};
  }
  if ((reply.state || reply.unsettled) && request.command >= nbd::kFirstPrivateCommand) {
    auto body = reply.state ? encode_hello_answer(*reply.state) : encode_unsettled(*reply.unsettled);
    if (!body) {
      // The engine hears that it failed, instead of a connection that hangs.
      server.reply_error(request.tag, nbd::kErrOverflow, body.error().message);
      return body.error();
    }
    server.reply_private(request.tag, *body);
    return {};
  }
  server.reply_done(request.tag);
  return {};
}

Result<PeerReply> decode_reply(PeerOp op, const nbd::ClientReply& wire) {
  PeerReply reply;
  reply.id = wire.id;
  reply.error = wire.error;
  reply.message = wire.message;
  reply.extents = wire.extents;
  if (op == PeerOp::chain && wire.error == 0) {
    TRY(reply.state, decode_hello_answer(wire.body));
  }
  if (op == PeerOp::unsettled && wire.error == 0) {
    TRY(reply.unsettled, decode_unsettled(wire.body));
  }
  return reply;
}

}  // namespace moor::block
