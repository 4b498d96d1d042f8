#include "block/core/nbd_client.h"

#include <algorithm>

#include "base/assert.h"

namespace moor::block::nbd {

namespace {

constexpr std::size_t kGreetingBytes = 18;
constexpr std::uint32_t kMaxChunks = 65'536;  // of one reply
constexpr std::uint32_t kMaxExtentBytes = 4 + 8 * 1'048'576u;
constexpr std::size_t kDirectFrom = 32u << 10;

bool is_private(std::uint16_t command) {
  return command >= kFirstPrivateCommand;
}
bool is(std::uint16_t command, Command which) {
  return command == static_cast<std::uint16_t>(which);
}

}  // namespace

Client::Client(BufferPool& pool, ClientOptions options)
    : pool_(&pool), options_(std::move(options)), out_(pool) {
  MOOR_ASSERT(options_.export_name.size() <= kMaxNameBytes, "an export name of {} bytes",
              options_.export_name.size());
}

void Client::fail(std::string why) {
  if (phase_ == Phase::ended) return;
  phase_ = Phase::ended;
  events_.emplace_back(ClientFailed{std::move(why)});
}

std::size_t Client::needed() const {
  switch (phase_) {
    case Phase::greeting: return kGreetingBytes;
    case Phase::option_header: return kOptionReplyBytes;
    case Phase::option_body: return option_bytes_;
    case Phase::reply_start: return kSimpleReplyBytes;
    case Phase::chunk_rest: return kChunkHeaderBytes - kSimpleReplyBytes;
    case Phase::chunk_body: return chunk_bytes_;
    case Phase::read_offset: return 8;
    default: MOOR_UNREACHABLE("no header in this phase");
  }
}

std::size_t Client::feed(Bytes bytes) {
  const std::size_t given = bytes.size();
  while (!bytes.empty() && phase_ != Phase::tls) {
    if (phase_ == Phase::ended) return given;
    if (phase_ == Phase::data) {
      feed_data(bytes);
      continue;
    }
    Bytes whole;
    if (take(head_, bytes, needed(), whole)) step(whole);
  }
  return given - bytes.size();
}

void Client::step(Bytes whole) {
  std::vector<std::byte> kept;
  if (!head_.empty()) {
    kept = std::exchange(head_, {});
    whole = kept;
  }
  switch (phase_) {
    case Phase::greeting: return on_greeting(whole);
    case Phase::option_header: return on_option_header(whole);
    case Phase::option_body: return on_option_reply(whole);
    case Phase::reply_start: return on_reply_start(whole);
    case Phase::chunk_rest:
      chunk_bytes_ = load_big_endian<std::uint32_t>(whole.data());
      return on_chunk_header();
    case Phase::chunk_body: return on_chunk_body(whole);
    case Phase::read_offset: return on_read_offset(load_big_endian<std::uint64_t>(whole.data()));
    default: MOOR_UNREACHABLE("no header in this phase");
  }
}

void Client::send(ClientRequest request) {
  MOOR_ASSERT(can_send(), "sent while not ready");
  const bool has_body = is(request.command, Command::write) || is_private(request.command);
  MOOR_ASSERT(!has_body || request.payload.size() == request.length);
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  auto& slot = slots_[index];
  ++slot.generation;
  slot.busy = true;
  ++in_flight_;

  std::byte* at = out_.put(kRequestHeaderBytes).data();
  at = store_big_endian(at, kRequestMagic);
  at = store_big_endian(at, request.flags);
  at = store_big_endian(at, request.command);
  at = store_big_endian(at, std::uint64_t{slot.generation} << 32 | index);
  at = store_big_endian(at, request.offset);
  store_big_endian(at, request.length);
  if (has_body) {
    out_.put_slice(std::move(request.payload));
  } else if (is(request.command, Command::read) && request.payload.empty()) {
    request.payload = pool_->allocate(request.length);
  }
  MOOR_ASSERT(!is(request.command, Command::read) ||
              (request.length > 0 && request.payload.size() == request.length));
  slot.request = std::move(request);
}

void Client::disconnect() {
  if (!is_ready()) return;
  std::byte* at = out_.put(kRequestHeaderBytes).data();
  at = store_big_endian(at, kRequestMagic);
  at = store_big_endian(at, std::uint16_t{0});
  at = store_big_endian(at, static_cast<std::uint16_t>(Command::disconnect));
  std::memset(at, 0, 20);
  phase_ = Phase::ended;
}

Client::Slot* Client::find(std::uint64_t cookie) {
  const auto index = static_cast<std::uint32_t>(cookie);
  if (index >= slots_.size() || !slots_[index].busy || slots_[index].generation != cookie >> 32)
    return nullptr;
  current_ = index;
  return &slots_[index];
}

void Client::on_reply_start(Bytes whole) {
  ByteReader reader(whole);
  const auto magic = reader.u32();
  if (magic == kSimpleReplyMagic) {
    const auto error = reader.u32();
    cookie_ = reader.u64();
    return on_simple(error);
  }
  if (magic != kStructuredReplyMagic || !remote_.structured) return fail("a reply without its magic");
  chunk_flags_ = reader.u16();
  chunk_type_ = reader.u16();
  cookie_ = reader.u64();
  phase_ = Phase::chunk_rest;
}

void Client::on_simple(std::uint32_t error) {
  Slot* slot = find(cookie_);
  if (slot == nullptr) return fail("a reply to nothing");
  if (slot->chunks > 0) return fail("a simple reply amid chunks");
  const auto command = slot->request.command;
  slot->error = error;
  if (is(command, Command::read)) {
    if (remote_.structured) return fail("a simple reply to a read");
    if (error == 0) {
      data_at_ = 0;
      data_left_ = slot->request.length;
      cover(*slot, {slot->request.offset, slot->request.length});
      chunk_flags_ = kReplyFlagDone;
      phase_ = Phase::data;
      return;
    }
  }
  if (error == 0 && is(command, Command::block_status)) return fail("a simple reply to block status");
  finish(*slot);
}

void Client::on_chunk_header() {
  const bool is_error = (chunk_type_ & kReplyTypeError) != 0;
  if ((chunk_flags_ & ~kReplyFlagDone) != 0) return fail("unknown chunk flags");
  if (cookie_ == kFarewellCookie && is_error) {
    if (chunk_bytes_ < 6 || chunk_bytes_ > 6 + kMaxErrorText) return fail("a malformed last word");
    phase_ = Phase::chunk_body;
    return;
  }
  Slot* slot = find(cookie_);
  if (slot == nullptr) return fail("a reply to nothing");
  if (++slot->chunks > kMaxChunks) return fail("too many chunks in one reply");
  const auto command = slot->request.command;
  phase_ = Phase::chunk_body;
  if (is_error) {
    if (chunk_bytes_ < 6 || chunk_bytes_ > 14 + kMaxErrorText) return fail("a malformed error");
    return;
  }
  switch (static_cast<ReplyType>(chunk_type_)) {
    case ReplyType::none:
      if (chunk_bytes_ != 0 || (chunk_flags_ & kReplyFlagDone) == 0) return fail("a malformed empty chunk");
      return end_chunk();
    case ReplyType::offset_data:
      if (!is(command, Command::read) || chunk_bytes_ <= 8 || chunk_bytes_ - 8 > slot->request.length) {
        return fail("data that was not asked for");
      }
      phase_ = Phase::read_offset;
      return;
    case ReplyType::offset_hole:
      if (!is(command, Command::read) || chunk_bytes_ != 12) return fail("a malformed hole");
      return;
    case ReplyType::block_status:
      if (!is(command, Command::block_status) || chunk_bytes_ < 12 || chunk_bytes_ % 8 != 4 ||
          chunk_bytes_ > kMaxExtentBytes) {
        return fail("a malformed block status");
      }
      return;
    case ReplyType::private_body:
      if (!is_private(command) || chunk_bytes_ > kMaxHelloAnswer || !slot->body.empty()) {
        return fail("a malformed private reply");
      }
      if (chunk_bytes_ == 0) end_chunk();
      return;
    default: return fail("an unknown chunk");
  }
}

void Client::on_error_chunk(Bytes body) {
  ByteReader reader(body);
  const auto error = reader.u32();
  const auto message = reader.text16(kMaxErrorText);
  const bool has_offset = static_cast<ReplyType>(chunk_type_) == ReplyType::error_offset;
  if (has_offset) reader.u64();
  const bool known = has_offset || static_cast<ReplyType>(chunk_type_) == ReplyType::error;
  if (reader.failed() || error == 0 || (known && reader.left() != 0)) return fail("a malformed error");
  if (cookie_ == kFarewellCookie) {
    phase_ = Phase::ended;
    events_.emplace_back(Farewell{std::string(message)});
    return;
  }
  auto& slot = slots_[current_];
  if (slot.error == 0) {
    slot.error = error;
    slot.message = message;
  }
  end_chunk();
}

void Client::on_extents_chunk(Bytes body) {
  auto& slot = slots_[current_];
  ByteReader reader(body);
  if (reader.u32() != context_id_ || !slot.extents.empty())
    return fail("a block status that was not asked for");
  std::uint64_t total = 0;
  while (reader.left() > 0) {
    const auto length = reader.u32();
    const auto state = reader.u32();
    // The last extent may reach beyond the request; none after it may.
    if (length == 0 || total >= slot.request.length) return fail("a malformed block status");
    total += length;
    slot.extents.push_back({length, (state & kStateHole) != 0, (state & kStateZero) != 0});
  }
  end_chunk();
}

void Client::on_chunk_body(Bytes body) {
  phase_ = Phase::reply_start;
  if ((chunk_type_ & kReplyTypeError) != 0) return on_error_chunk(body);
  auto& slot = slots_[current_];
  switch (static_cast<ReplyType>(chunk_type_)) {
    case ReplyType::offset_hole: {
      ByteReader reader(body);
      const auto offset = reader.u64();
      const auto length = reader.u32();
      if (length == 0 || !cover(slot, {offset, length})) return fail("a hole outside the request");
      std::memset(slot.request.payload.data() + (offset - slot.request.offset), 0, length);
      return end_chunk();
    }
    case ReplyType::block_status: return on_extents_chunk(body);
    case ReplyType::private_body: slot.body.assign(body.begin(), body.end()); return end_chunk();
    default: MOOR_UNREACHABLE("chunk type {} has no body", chunk_type_);
  }
}

bool Client::cover(Slot& slot, const Extent& extent) {
  const auto& request = slot.request;
  if (extent.offset < request.offset || extent.offset - request.offset > request.length ||
      extent.length > request.length - (extent.offset - request.offset)) {
    return false;
  }
  slot.covered.push_back(extent);
  return true;
}

// Every byte once: a gap would hand out what happened to be in the buffer.
bool Client::is_covered(Slot& slot) const {
  auto& covered = slot.covered;
  std::sort(covered.begin(), covered.end(),
            [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::uint64_t at = slot.request.offset;
  for (const auto& extent : covered) {
    if (extent.offset != at) return false;
    at = extent.end();
  }
  return at == slot.request.offset + slot.request.length;
}

void Client::on_read_offset(std::uint64_t offset) {
  auto& slot = slots_[current_];
  data_left_ = chunk_bytes_ - 8;
  if (!cover(slot, {offset, data_left_})) return fail("data outside the request");
  data_at_ = offset - slot.request.offset;
  phase_ = Phase::data;
}

void Client::feed_data(Bytes& bytes) {
  const auto part = std::min(data_left_, bytes.size());
  std::memcpy(slots_[current_].request.payload.data() + data_at_, bytes.data(), part);
  bytes = bytes.subspan(part);
  data_at_ += part;
  data_left_ -= part;
  if (data_left_ == 0) data_complete();
}

Slice Client::direct_space() const {
  if (phase_ != Phase::data || data_left_ < kDirectFrom) return {};
  return slots_[current_].request.payload.part(data_at_, data_left_);
}

void Client::direct_filled(std::size_t bytes) {
  MOOR_ASSERT(phase_ == Phase::data && bytes <= data_left_);
  data_at_ += bytes;
  data_left_ -= bytes;
  if (data_left_ == 0) data_complete();
}

void Client::data_complete() {
  phase_ = Phase::reply_start;
  end_chunk();
}

void Client::end_chunk() {
  phase_ = Phase::reply_start;
  if ((chunk_flags_ & kReplyFlagDone) == 0) return;
  auto& slot = slots_[current_];
  const bool good = slot.error == 0;
  if (good && is(slot.request.command, Command::read) && !is_covered(slot)) return fail("a read with gaps");
  if (good && is(slot.request.command, Command::block_status) && slot.extents.empty()) {
    return fail("a block status without extents");
  }
  finish(slot);
}

void Client::finish(Slot& slot) {
  ClientReply reply;
  reply.id = slot.request.id;
  reply.error = slot.error;
  reply.message = std::move(slot.message);
  if (slot.error == 0) {
    if (is(slot.request.command, Command::read)) reply.data = std::move(slot.request.payload);
    reply.extents = std::move(slot.extents);
    reply.body = std::move(slot.body);
  }
  const auto generation = slot.generation;
  auto covered = std::move(slot.covered);
  covered.clear();
  slot = Slot{};
  slot.generation = generation;
  slot.covered = std::move(covered);  // keeps its memory: one allocation per slot, not per read
  free_slots_.push_back(current_);
  --in_flight_;
  phase_ = Phase::reply_start;
  events_.emplace_back(std::move(reply));
}

}  // namespace moor::block::nbd
