// The negotiation half of the NBD client machine: one option at a time, GO last.
#include "base/assert.h"
#include "block/core/nbd_client.h"

namespace moor::block::nbd {

namespace {

constexpr std::uint32_t kMaxOptionReplies = 256;  // to one option of ours

}  // namespace

void Client::on_greeting(Bytes whole) {
  ByteReader reader(whole);
  if (reader.u64() != kServerMagic) return fail("this is no NBD server");
  if (reader.u64() != kOptionMagic) return fail("the server speaks oldstyle NBD only");
  const auto flags = reader.u16();
  if ((flags & kFixedNewstyle) == 0) return fail("the server does not speak fixed newstyle");
  store_big_endian(out_.put(4).data(), static_cast<std::uint32_t>(flags & (kFixedNewstyle | kNoZeroes)));
  if (options_.tls) return send_option(Option::start_tls, {});
  send_option(Option::structured_reply, {});
}

void Client::tls_started() {
  MOOR_ASSERT(phase_ == Phase::tls);
  secured_ = true;
  send_option(Option::structured_reply, {});
}

void Client::send_option(Option option, Bytes body) {
  std::byte* at = out_.put(kOptionHeaderBytes).data();
  at = store_big_endian(at, kOptionMagic);
  at = store_big_endian(at, static_cast<std::uint32_t>(option));
  store_big_endian(at, static_cast<std::uint32_t>(body.size()));
  out_.put_bytes(body);
  option_ = option;
  option_replies_ = 0;
  phase_ = Phase::option_header;
}

void Client::send_next_option() {
  if (option_ == Option::structured_reply && remote_.structured && options_.block_status) {
    ByteWriter body;
    body.text32(options_.export_name);
    body.u32(1);
    body.text32(kAllocationContext);
    return send_option(Option::set_meta_context, body.out());
  }
  send_go();
}

void Client::send_go() {
  ByteWriter body;
  body.text32(options_.export_name);
  body.u16(options_.watch_standby ? 4 : 3);
  body.u16(static_cast<std::uint16_t>(Info::block_size));
  body.u16(static_cast<std::uint16_t>(Info::hello_answer));
  body.u16(static_cast<std::uint16_t>(Info::export_id));
  if (options_.watch_standby) body.u16(static_cast<std::uint16_t>(Info::standby));
  send_option(Option::go, body.out());
}

void Client::on_option_header(Bytes whole) {
  ByteReader reader(whole);
  if (reader.u64() != kOptionReplyMagic) return fail("an option reply without its magic");
  if (reader.u32() != static_cast<std::uint32_t>(option_))
    return fail("a reply to an option that was not sent");
  option_reply_ = static_cast<OptionReply>(reader.u32());
  option_bytes_ = reader.u32();
  const bool large = option_reply_ == OptionReply::info;
  if (option_bytes_ > (large ? kMaxHelloAnswer + 2 : 2 * kMaxNameBytes))
    return fail("an option reply too long");
  if (++option_replies_ > kMaxOptionReplies) return fail("too many replies to one option");
  phase_ = Phase::option_body;
  if (option_bytes_ == 0) on_option_reply({});
}

void Client::on_option_reply(Bytes body) {
  phase_ = Phase::option_header;
  if ((static_cast<std::uint32_t>(option_reply_) & kOptionReplyError) != 0) {
    return on_option_error(option_reply_, as_text(body));
  }
  if (option_reply_ == OptionReply::info && option_ == Option::go) return on_info(body);
  if (option_reply_ == OptionReply::meta_context && option_ == Option::set_meta_context) {
    ByteReader reader(body);
    context_id_ = reader.u32();
    remote_.block_status = !reader.failed() && as_text(reader.rest()) == kAllocationContext;
    return;
  }
  if (option_reply_ != OptionReply::ack) return fail("an option reply out of place");
  if (!body.empty()) return fail("an acknowledgement with data");
  switch (option_) {
    case Option::start_tls:
      phase_ = Phase::tls;
      events_.emplace_back(TlsReady{});
      return;
    case Option::structured_reply: remote_.structured = true; return send_next_option();
    case Option::set_meta_context: return send_next_option();
    case Option::go: return become_ready();
    default: return fail("an acknowledgement out of place");
  }
}

void Client::on_option_error(OptionReply type, std::string_view message) {
  const bool optional = option_ == Option::structured_reply || option_ == Option::set_meta_context;
  // Without TLS being asked for, "TLS required" is final, whichever option hears it first.
  if (optional && type != OptionReply::error_tls_required && type != OptionReply::error_shutdown) {
    if (option_ == Option::set_meta_context) remote_.block_status = false;
    return send_next_option();
  }
  phase_ = Phase::ended;
  events_.emplace_back(Refused{type, std::string(message)});
}

void Client::on_info(Bytes body) {
  ByteReader reader(body);
  const auto type = static_cast<Info>(reader.u16());
  if (reader.failed()) return fail("malformed information");
  switch (type) {
    case Info::export_size:
      remote_.size = reader.u64();
      remote_.flags = reader.u16();
      has_size_ = true;
      if (!reader.complete()) return fail("malformed export information");
      return;
    case Info::block_size:
      remote_.minimum_block = reader.u32();
      remote_.preferred_block = reader.u32();
      remote_.maximum_payload = reader.u32();
      if (!reader.complete() || remote_.minimum_block == 0) return fail("malformed block size information");
      return;
    case Info::hello_answer: remote_.hello_answer.assign(reader.rest().begin(), reader.rest().end()); return;
    case Info::export_id:
      if (reader.rest().size() > kMaxNameBytes) return fail("an export id that is too long");
      remote_.export_id = as_text(reader.rest());
      return;
    case Info::standby: remote_.standby = reader.u8() == 1; return;
    default: return;  // the protocol allows more than we asked for
  }
}

void Client::become_ready() {
  if (!has_size_) return fail("the server gave no size");
  phase_ = Phase::reply_start;
  events_.emplace_back(Ready{remote_});
  remote_.hello_answer = {};  // may be megabytes, and is needed once
}

}  // namespace moor::block::nbd
