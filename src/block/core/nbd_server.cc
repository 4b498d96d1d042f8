#include "block/core/nbd_server.h"

#include <algorithm>

#include "base/assert.h"

namespace moor::block::nbd {

namespace {

constexpr std::size_t kMaxOptionBytes = 64u << 10;
// A payload that is too large is read and thrown away up to this, so that the client hears why; beyond, it is
// cheaper to drop the connection than to drain gigabytes.
constexpr std::uint64_t kMaxSkip = 2ull * kMaxRequestBytes;
// Below this, a copy is cheaper than a receive of its own.
constexpr std::size_t kTakeDirectFrom = 32u << 10;

}  // namespace

Server::Server(BufferPool& pool, TlsMode tls, ServerLimits limits)
    : pool_(&pool), tls_(tls), limits_(limits), out_(pool) {
  send_greeting();
}

void Server::send_greeting() {
  std::byte* at = out_.put(18).data();
  at = store_big_endian(at, kServerMagic);
  at = store_big_endian(at, kOptionMagic);
  store_big_endian(at, static_cast<std::uint16_t>(kFixedNewstyle | kNoZeroes));
}

void Server::fail(std::string why) {
  if (phase_ == Phase::ended) return;
  phase_ = Phase::ended;
  events_.emplace_back(Failed{std::move(why)});
}

bool Server::paused() const {
  return phase_ == Phase::waiting || (blocked_ && !has_room_for(blocked_bytes_)) ||
         out_.bytes() > limits_.out_bytes;
}

std::size_t Server::feed(Bytes bytes) {
  const std::size_t given = bytes.size();
  if (blocked_ && !paused()) {
    MOOR_ASSERT(head_.size() == kRequestHeaderBytes);
    const std::vector<std::byte> header = std::exchange(head_, {});
    blocked_ = false;
    on_request_header(header);
  }
  while (!bytes.empty() && !paused()) {
    Bytes whole;
    switch (phase_) {
      case Phase::client_flags:
        if (take(head_, bytes, 4, whole)) step_header(whole);
        break;
      case Phase::option_header:
        if (take(head_, bytes, kOptionHeaderBytes, whole)) step_header(whole);
        break;
      case Phase::option_body:
        if (take(head_, bytes, option_bytes_, whole)) step_header(whole);
        break;
      case Phase::request_header:
        if (take(head_, bytes, kRequestHeaderBytes, whole)) step_header(whole);
        break;
      case Phase::payload: feed_payload(bytes); break;
      case Phase::skip: feed_skip(bytes); break;
      case Phase::draining:
      case Phase::ended: bytes = {}; break;  // after its last word a client has nothing to say
      case Phase::waiting: MOOR_UNREACHABLE("fed while waiting");
    }
  }
  return given - bytes.size();
}

void Server::step_header(Bytes whole) {
  // `whole` may lie in head_, which the next header reuses: hand over a copy that nothing else touches.
  std::vector<std::byte> kept;
  if (!head_.empty()) {
    kept = std::exchange(head_, {});
    whole = kept;
  }
  switch (phase_) {
    case Phase::client_flags: return on_client_flags(whole);
    case Phase::option_header: return on_option_header(whole);
    case Phase::option_body: return on_option(whole);
    case Phase::request_header: return on_request_header(whole);
    default: MOOR_UNREACHABLE("no header in this phase");
  }
}

void Server::on_client_flags(Bytes whole) {
  const auto flags = load_big_endian<std::uint32_t>(whole.data());
  if ((flags & ~std::uint32_t{kFixedNewstyle | kNoZeroes}) != 0) return fail("unknown client flags");
  if ((flags & kFixedNewstyle) == 0) return fail("the client does not speak fixed newstyle");
  no_zeroes_ = (flags & kNoZeroes) != 0;
  phase_ = Phase::option_header;
}

void Server::on_option_header(Bytes whole) {
  ByteReader reader(whole);
  if (reader.u64() != kOptionMagic) return fail("an option without its magic");
  option_ = reader.u32();
  option_bytes_ = reader.u32();
  if (option_bytes_ > kMaxOptionBytes) return fail("an option that is too long");
  phase_ = Phase::option_body;
  if (option_bytes_ == 0) on_option({});
}

// ---- transmission ----

bool Server::has_room_for(std::uint32_t length) const {
  if (in_flight_ == 0) return true;
  return in_flight_ < limits_.requests && in_flight_bytes_ + length <= limits_.request_bytes;
}

void Server::on_request_header(Bytes whole) {
  ByteReader reader(whole);
  if (reader.u32() != kRequestMagic) return fail("a request without its magic");
  Request request;
  request.flags = reader.u16();
  request.command = reader.u16();
  const auto cookie = reader.u64();
  request.offset = reader.u64();
  request.length = reader.u32();

  if (request.is(Command::disconnect)) {
    phase_ = in_flight_ == 0 ? Phase::ended : Phase::draining;
    if (phase_ == Phase::ended) events_.emplace_back(Disconnected{});
    return;
  }
  if (const auto refusal = check(request)) return begin_skip(request, cookie, *refusal);

  const bool has_body = request.is(Command::write) || request.command >= kFirstPrivateCommand;
  const bool has_data = has_body || request.is(Command::read);
  const std::uint32_t data_bytes = has_data ? request.length : 0;
  if (!has_room_for(data_bytes)) {
    head_.assign(whole.begin(), whole.end());
    blocked_ = true;
    blocked_bytes_ = data_bytes;
    return;
  }
  request.tag = occupy(request, cookie);
  if (has_body && request.length > 0) {
    incoming_ = std::move(request);
    incoming_.payload = pool_->allocate(incoming_.length);
    payload_filled_ = 0;
    phase_ = Phase::payload;
    return;
  }
  events_.emplace_back(std::move(request));
}

std::optional<Server::Refusal> Server::check_flags(const Request& request) const {
  std::uint16_t known = export_.fua ? kFlagFua : 0;
  if (request.is(Command::read) && structured_) known |= kFlagDf;
  if (request.is(Command::write_zeroes)) known |= kFlagNoHole;
  if (request.is(Command::write_zeroes) && export_.fast_zero) known |= kFlagFastZero;
  if (request.is(Command::block_status)) known |= kFlagReqOne;
  if (export_.private_commands && (request.is(Command::write) || request.is(Command::write_zeroes)))
    known |= kFlagCopy;
  if ((request.flags & ~known) != 0) return Refusal{kErrInvalid, "a flag that was not offered"};
  return std::nullopt;
}

std::optional<Server::Refusal> Server::check(const Request& request) const {
  const auto invalid = [](std::string_view why) { return Refusal{kErrInvalid, why}; };
  if (request.command >= kFirstPrivateCommand) {
    if (!export_.private_commands || !structured_) return invalid("unknown command");
    if (request.length > kMaxPrivateBody) return invalid("the body is too long");
    return std::nullopt;
  }
  const auto command = static_cast<Command>(request.command);
  bool offered = false;
  bool changes = false;
  switch (command) {
    case Command::read: offered = true; break;
    case Command::write: offered = changes = true; break;
    case Command::flush: offered = export_.flush; break;
    case Command::trim: offered = export_.trim, changes = true; break;
    case Command::write_zeroes: offered = export_.write_zeroes, changes = true; break;
    case Command::block_status: offered = allocation_; break;
    default: break;
  }
  if (!offered) return invalid("a command that was not offered");
  if (const auto refusal = check_flags(request)) return refusal;
  if (command == Command::flush) {
    if (request.offset != 0 || request.length != 0) return invalid("flush takes no range");
    return std::nullopt;
  }
  if (changes && export_.read_only) return Refusal{kErrPerm, "the export is read-only"};
  if (request.length == 0) return invalid("an empty range");
  if (request.offset > export_.size || request.length > export_.size - request.offset) {
    return Refusal{changes && command != Command::trim ? kErrNoSpace : kErrInvalid, "beyond the end"};
  }
  if ((command == Command::read || command == Command::write) && request.length > export_.maximum_payload) {
    return Refusal{request.has(kFlagDf) ? kErrOverflow : kErrInvalid, "the payload is too long"};
  }
  const std::uint32_t block = export_.minimum_block;
  if (request.offset % block != 0 || request.length % block != 0)
    return invalid("not aligned to the block size");
  return std::nullopt;
}

void Server::begin_skip(const Request& request, std::uint64_t cookie, const Refusal& refusal) {
  // Only WRITE carries a payload in plain NBD, and a private command where we agreed on those. A client that
  // sends a private command elsewhere has lost the stream and is found out at the next header.
  const bool has_body = request.is(Command::write) ||
                        (request.command >= kFirstPrivateCommand && export_.private_commands && structured_);
  if (!has_body) return write_error(cookie, refusal.error, refusal.message);
  if (request.length > kMaxSkip) return fail("a payload that is far too long");
  if (request.length == 0) return write_error(cookie, refusal.error, refusal.message);
  incoming_cookie_ = cookie;
  skip_left_ = request.length;
  skip_refusal_ = refusal;
  phase_ = Phase::skip;
}

void Server::feed_skip(Bytes& bytes) {
  const auto part = std::min<std::uint64_t>(skip_left_, bytes.size());
  bytes = bytes.subspan(part);
  skip_left_ -= part;
  if (skip_left_ > 0) return;
  phase_ = Phase::request_header;
  write_error(incoming_cookie_, skip_refusal_.error, skip_refusal_.message);
}

void Server::feed_payload(Bytes& bytes) {
  const auto part = std::min(incoming_.payload.size() - payload_filled_, bytes.size());
  std::memcpy(incoming_.payload.data() + payload_filled_, bytes.data(), part);
  bytes = bytes.subspan(part);
  payload_filled_ += part;
  if (payload_filled_ == incoming_.payload.size()) payload_complete();
}

Slice Server::direct_space() const {
  if (phase_ != Phase::payload) return {};
  const auto left = incoming_.payload.size() - payload_filled_;
  return left < kTakeDirectFrom ? Slice() : incoming_.payload.part(payload_filled_, left);
}

void Server::direct_filled(std::size_t bytes) {
  MOOR_ASSERT(phase_ == Phase::payload && bytes <= incoming_.payload.size() - payload_filled_);
  payload_filled_ += bytes;
  if (payload_filled_ == incoming_.payload.size()) payload_complete();
}

void Server::payload_complete() {
  phase_ = Phase::request_header;
  events_.emplace_back(std::move(incoming_));
  incoming_ = {};
}

std::uint64_t Server::charge_of(const Slot& slot) const {
  const auto is = [&](Command command) { return slot.command == static_cast<std::uint16_t>(command); };
  return is(Command::read) || is(Command::write) || slot.command >= kFirstPrivateCommand ? slot.length : 0;
}

RequestTag Server::occupy(const Request& request, std::uint64_t cookie) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  auto& slot = slots_[index];
  slot =
      Slot{cookie, request.offset, request.length, slot.generation + 1, request.command, request.flags, true};
  ++in_flight_;
  in_flight_bytes_ += charge_of(slot);
  return {index, slot.generation};
}

Server::Slot Server::release(RequestTag tag) {
  MOOR_ASSERT(
      tag.slot < slots_.size() && slots_[tag.slot].busy && slots_[tag.slot].generation == tag.generation,
      "request {}/{} is not in flight", tag.slot, tag.generation);
  auto& slot = slots_[tag.slot];
  slot.busy = false;
  free_slots_.push_back(tag.slot);
  --in_flight_;
  in_flight_bytes_ -= charge_of(slot);
  if (phase_ == Phase::draining && in_flight_ == 0) {
    phase_ = Phase::ended;
    events_.emplace_back(Disconnected{});
  }
  return slot;
}

}  // namespace moor::block::nbd
