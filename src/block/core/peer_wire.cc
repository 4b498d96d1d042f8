#include "block/core/peer_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace moor::block {

namespace {

constexpr std::string_view kHelloPrefix = "moor-hello/";
constexpr std::string_view kRefusalPrefix = "moor:";
constexpr std::array<std::pair<PeerRefusal, std::string_view>, 9> kRefusals{{
    {PeerRefusal::none, "none"},
    {PeerRefusal::wrong_token, "wrong-token"},
    {PeerRefusal::wrong_volume, "wrong-volume"},
    {PeerRefusal::old_epoch, "old-epoch"},
    {PeerRefusal::other_engine, "other-engine"},
    {PeerRefusal::old_session, "old-session"},
    {PeerRefusal::superseded, "superseded"},
    {PeerRefusal::damaged, "damaged"},
    {PeerRefusal::shutting_down, "shutting-down"},
}};

Error malformed(std::string_view what) {
  return make_error(Errc::invalid, fmt::format("malformed {}", what));
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_plain(c)) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// Only what escape() writes, so that one HELLO has one spelling.
Result<std::string> unescape(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (!is_plain(text[i])) return malformed("HELLO: a character that must be escaped");
      out.push_back(text[i]);
    } else {
      unsigned value = 0;
      if (i + 2 >= text.size()) return malformed("HELLO: a cut escape");
      const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
      if (error != std::errc() || end != text.data() + i + 3) return malformed("HELLO: a wrong escape");
      out.push_back(static_cast<char>(value));
      i += 2;
    }
    if (out.size() > most) return malformed("HELLO: a field that is too long");
  }
  return out;
}

// Takes "key=value" from the front of `rest`, up to the next '&'.
Result<std::string_view> field(std::string_view& rest, std::string_view key) {
  const auto end = std::min(rest.find('&'), rest.size());
  const auto item = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (!item.starts_with(key) || item.size() <= key.size() || item[key.size()] != '=') {
    return malformed(fmt::format("HELLO: {} is missing", key));
  }
  return item.substr(key.size() + 1);
}

Result<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return malformed("HELLO: a wrong number");
  }
  return value;
}

}  // namespace

namespace {
std::string_view word_of(HelloMode mode) {
  switch (mode) {
    case HelloMode::active: return "active";
    case HelloMode::inspect: return "inspect";
    case HelloMode::forward: return "forward";
  }
  return "inspect";
}
}  // namespace

Result<std::string> encode_hello(const Hello& hello) {
  if (hello.volume.size() > kMaxIdBytes || hello.engine.size() > kMaxIdBytes ||
      hello.token.size() > kMaxTokenBytes) {
    return make_error(Errc::invalid, "a field of the HELLO is too long");
  }
  auto name = fmt::format("{}{}?volume={}&epoch={}&engine={}&session={}&mode={}&token={}", kHelloPrefix,
                          kPeerWireVersion, escape(hello.volume), hello.epoch, escape(hello.engine),
                          hello.session, word_of(hello.mode), escape(hello.token));
  if (name.size() > nbd::kMaxNameBytes) return make_error(Errc::invalid, "the HELLO is too long for a name");
  return name;
}

Result<Hello> decode_hello(std::string_view name) {
  if (!name.starts_with(kHelloPrefix)) return make_error(Errc::not_found, "the export name is no HELLO");
  if (name.size() > nbd::kMaxNameBytes) return malformed("HELLO: too long");
  name.remove_prefix(kHelloPrefix.size());
  const auto mark = name.find('?');
  if (mark == std::string_view::npos) return malformed("HELLO: no fields");
  TRY(const auto version, number(name.substr(0, mark)));
  if (version != kPeerWireVersion) {
    return make_error(Errc::unsupported, fmt::format("HELLO version {} is not known here", version));
  }
  name.remove_prefix(mark + 1);
  Hello hello;
  TRY(const auto volume, field(name, "volume"));
  TRY(hello.volume, unescape(volume, kMaxIdBytes));
  TRY(const auto epoch, field(name, "epoch"));
  TRY(hello.epoch, number(epoch));
  TRY(const auto engine, field(name, "engine"));
  TRY(hello.engine, unescape(engine, kMaxIdBytes));
  TRY(const auto session, field(name, "session"));
  TRY(hello.session, number(session));
  TRY(const auto mode, field(name, "mode"));
  if (mode == word_of(HelloMode::active)) {
    hello.mode = HelloMode::active;
  } else if (mode == word_of(HelloMode::inspect)) {
    hello.mode = HelloMode::inspect;
  } else if (mode == word_of(HelloMode::forward)) {
    hello.mode = HelloMode::forward;
  } else {
    return malformed("HELLO: unknown mode");
  }
  TRY(const auto token, field(name, "token"));
  TRY(hello.token, unescape(token, kMaxTokenBytes));
  if (!name.empty()) return malformed("HELLO: more than its fields");
  return hello;
}

std::string describe(const Hello& hello) {
  return fmt::format("HELLO(volume {}, epoch {}, engine {}, session {}, {})", escape(hello.volume),
                     hello.epoch, escape(hello.engine), hello.session, word_of(hello.mode));
}

std::string_view to_string(PeerRefusal reason) {
  for (const auto& [known, word] : kRefusals) {
    if (known == reason) return word;
  }
  return "none";
}

std::string encode_refusal(const Refusal& refusal) {
  return fmt::format("{}{}: {}", kRefusalPrefix, to_string(refusal.reason), refusal.message);
}

nbd::OptionReply refusal_reply(PeerRefusal reason) {
  switch (reason) {
    case PeerRefusal::wrong_volume: return nbd::OptionReply::error_unknown;
    case PeerRefusal::damaged: return nbd::OptionReply::error_platform;
    case PeerRefusal::shutting_down: return nbd::OptionReply::error_shutdown;
    default: return nbd::OptionReply::error_policy;
  }
}

Refusal decode_refusal(std::string_view text) {
  const Refusal foreign{PeerRefusal::none, std::string(text)};
  if (!text.starts_with(kRefusalPrefix)) return foreign;
  const auto rest = text.substr(kRefusalPrefix.size());
  const auto end = rest.find(": ");
  if (end == std::string_view::npos) return foreign;
  for (const auto& [reason, word] : kRefusals) {
    if (rest.substr(0, end) == word) return {reason, std::string(rest.substr(end + 2))};
  }
  return foreign;
}

}  // namespace moor::block
