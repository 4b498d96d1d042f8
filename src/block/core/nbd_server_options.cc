// The negotiation half of the NBD server machine.
#include <algorithm>

#include "base/assert.h"
#include "block/core/nbd_server.h"

namespace moor::block::nbd {

namespace {

constexpr std::size_t kMaxInfoRequests = 64;
constexpr std::size_t kMaxContextQueries = 16;

bool query_matches(std::string_view query) {
  return query == kAllocationContext || query == "base:";
}

}  // namespace

void Server::option_reply(OptionReply type, Bytes body) {
  std::byte* at = out_.put(kOptionReplyBytes).data();
  at = store_big_endian(at, kOptionReplyMagic);
  at = store_big_endian(at, option_);
  at = store_big_endian(at, static_cast<std::uint32_t>(type));
  store_big_endian(at, static_cast<std::uint32_t>(body.size()));
  out_.put_bytes(body);
}

void Server::option_error(OptionReply type, std::string_view message) {
  option_reply(type, as_bytes(message.substr(0, kMaxErrorText)));
  end_option();
}

void Server::end_option() {
  phase_ = Phase::option_header;
}

void Server::on_option(Bytes body) {
  const auto option = static_cast<Option>(option_);
  const bool before_tls = option == Option::start_tls || option == Option::abort;
  if (tls_ == TlsMode::required && !secured_ && !before_tls) {
    if (option == Option::export_name) return fail("an export name before TLS");
    return option_error(OptionReply::error_tls_required, "this server serves over TLS only");
  }
  switch (option) {
    case Option::export_name: return on_export_name(body);
    case Option::abort:
      option_reply(OptionReply::ack);
      phase_ = Phase::ended;
      events_.emplace_back(Disconnected{});
      return;
    case Option::list:
      if (!body.empty()) return option_error(OptionReply::error_invalid, "LIST takes no data");
      phase_ = Phase::waiting;
      events_.emplace_back(ListRequested{});
      return;
    case Option::start_tls: return on_start_tls(body);
    case Option::info:
    case Option::go: return on_info_or_go(body);
    case Option::structured_reply:
      if (!body.empty()) return option_error(OptionReply::error_invalid, "STRUCTURED_REPLY takes no data");
      structured_ = true;
      option_reply(OptionReply::ack);
      return end_option();
    case Option::list_meta_context:
    case Option::set_meta_context: return on_meta_context(body);
  }
  option_error(OptionReply::error_unsupported, "unknown option");
}

void Server::on_export_name(Bytes body) {
  if (body.size() > kMaxNameBytes) return fail("an export name that is too long");
  open_name_ = as_text(body);
  phase_ = Phase::waiting;
  events_.emplace_back(OpenRequested{open_name_, true});
}

void Server::on_start_tls(Bytes body) {
  if (!body.empty()) return option_error(OptionReply::error_invalid, "STARTTLS takes no data");
  if (secured_) return option_error(OptionReply::error_invalid, "TLS is already in use");
  if (tls_ == TlsMode::none) return option_error(OptionReply::error_unsupported, "this server has no TLS");
  option_reply(OptionReply::ack);
  phase_ = Phase::waiting;
  events_.emplace_back(TlsRequested{});
}

void Server::tls_started() {
  MOOR_ASSERT(phase_ == Phase::waiting && option_ == static_cast<std::uint32_t>(Option::start_tls));
  secured_ = true;
  // What was agreed in the clear may have come from someone in the middle: it counts for nothing.
  structured_ = false;
  context_export_.reset();
  end_option();
}

void Server::on_info_or_go(Bytes body) {
  ByteReader reader(body);
  const auto name = reader.text32(kMaxNameBytes);
  const auto count = reader.u16();
  if (count > kMaxInfoRequests)
    return option_error(OptionReply::error_too_big, "too many information requests");
  wanted_infos_.clear();
  for (int i = 0; i < count; ++i) wanted_infos_.push_back(static_cast<Info>(reader.u16()));
  if (!reader.complete()) return option_error(OptionReply::error_invalid, "malformed option data");
  open_name_ = name;
  phase_ = Phase::waiting;
  events_.emplace_back(OpenRequested{open_name_, static_cast<Option>(option_) == Option::go});
}

void Server::on_meta_context(Bytes body) {
  const bool setting = static_cast<Option>(option_) == Option::set_meta_context;
  if (setting) context_export_.reset();
  if (!structured_) {
    return option_error(OptionReply::error_invalid, "meta contexts need structured replies");
  }
  ByteReader reader(body);
  const std::string name(reader.text32(kMaxNameBytes));
  const auto count = reader.u32();
  if (count > kMaxContextQueries) return option_error(OptionReply::error_too_big, "too many queries");
  bool matched = !setting && count == 0;  // an empty list asks for everything there is
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto query = reader.text32(kMaxNameBytes);
    matched = matched || (setting ? query == kAllocationContext : query_matches(query));
  }
  if (!reader.complete()) return option_error(OptionReply::error_invalid, "malformed option data");
  if (matched) {
    ByteWriter context;
    context.u32(setting ? kAllocationContextId : 0);
    context.bytes(as_bytes(kAllocationContext));
    option_reply(OptionReply::meta_context, context.out());
    if (setting) context_export_ = name;
  }
  option_reply(OptionReply::ack);
  end_option();
}

void Server::list(const std::vector<ListedExport>& exports) {
  MOOR_ASSERT(phase_ == Phase::waiting && static_cast<Option>(option_) == Option::list);
  for (const auto& listed : exports) {
    ByteWriter body;
    body.text32(std::string_view(listed.name).substr(0, kMaxNameBytes));
    body.bytes(as_bytes(std::string_view(listed.description).substr(0, kMaxNameBytes)));
    option_reply(OptionReply::server, body.out());
  }
  option_reply(OptionReply::ack);
  end_option();
}

bool Server::asked_for(Info type) const {
  return std::find(wanted_infos_.begin(), wanted_infos_.end(), type) != wanted_infos_.end();
}

std::uint16_t Server::transmission_flags() const {
  std::uint16_t flags = kHasFlags;
  if (export_.read_only) flags |= kReadOnly;
  if (export_.flush) flags |= kSendFlush;
  if (export_.fua) flags |= kSendFua;
  if (export_.rotational) flags |= kRotational;
  if (export_.trim && !export_.read_only) flags |= kSendTrim;
  if (export_.write_zeroes && !export_.read_only) flags |= kSendWriteZeroes;
  if (export_.write_zeroes && export_.fast_zero && !export_.read_only) flags |= kSendFastZero;
  if (structured_) flags |= kSendDf;
  if (export_.multi_conn) flags |= kCanMultiConn;
  return flags;
}

void Server::info_replies() {
  ByteWriter size;
  size.u16(static_cast<std::uint16_t>(Info::export_size));
  size.u64(export_.size);
  size.u16(transmission_flags());
  option_reply(OptionReply::info, size.out());

  ByteWriter blocks;
  blocks.u16(static_cast<std::uint16_t>(Info::block_size));
  blocks.u32(export_.minimum_block);
  blocks.u32(export_.preferred_block);
  blocks.u32(export_.maximum_payload);
  option_reply(OptionReply::info, blocks.out());

  const auto text = [&](Info type, std::string_view value) {
    if (!asked_for(type)) return;
    ByteWriter body;
    body.u16(static_cast<std::uint16_t>(type));
    body.bytes(as_bytes(value.substr(0, kMaxNameBytes)));
    option_reply(OptionReply::info, body.out());
  };
  text(Info::name, export_.name);
  text(Info::description, export_.description);
  if (!export_.export_id.empty()) text(Info::export_id, export_.export_id);
  text(Info::standby, std::string_view(export_.standby ? "\1" : "\0", 1));
  for (const auto& [type, value] : export_.private_infos) {
    ByteWriter body;
    body.u16(static_cast<std::uint16_t>(type));
    body.bytes(value);
    option_reply(OptionReply::info, body.out());
  }
}

void Server::accept(ExportDescription description) {
  const auto option = static_cast<Option>(option_);
  MOOR_ASSERT(phase_ == Phase::waiting && option != Option::list && option != Option::start_tls);
  MOOR_ASSERT(description.maximum_payload <= kMaxRequestBytes && description.minimum_block > 0);
  export_ = std::move(description);
  if (option == Option::export_name) {
    std::byte* at = out_.put(no_zeroes_ ? 10 : 134).data();
    at = store_big_endian(at, export_.size);
    at = store_big_endian(at, transmission_flags());
    if (!no_zeroes_) std::memset(at, 0, 124);
  } else {
    info_replies();
    option_reply(OptionReply::ack);
    if (option == Option::info) return end_option();
  }
  // A context holds for the export that it was negotiated for, and for no other.
  allocation_ = export_.block_status && context_export_ == open_name_;
  export_.private_infos.clear();
  phase_ = Phase::request_header;
}

void Server::refuse(OptionReply error, std::string_view message) {
  MOOR_ASSERT(phase_ == Phase::waiting);
  // EXPORT_NAME has no way to say no but to hang up.
  if (static_cast<Option>(option_) == Option::export_name)
    return fail("export refused: " + std::string(message));
  option_error(error, message);
}

}  // namespace moor::block::nbd
