#include "registry/continue_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "model/core/secret.h"

namespace moor::registry {
namespace {

constexpr std::size_t kLongestToken = 4096;

// FNV-1a: against mistakes, not against malice. A forged token reads only what its place may read anyway.
std::uint64_t checksum(std::string_view body, std::string_view place) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
  add(body);
  add("\n");
  add(place);
  return hash;
}

}  // namespace

std::string encode_token(const ContinueToken& token, std::string_view place) {
  Json body = Json::object({{"v", 1}, {"rv", token.revision}, {"last", token.last_key}});
  if (token.remaining) body.set("left", *token.remaining);
  const std::string text = to_text(body);
  std::string encoded = model::core::to_base64(fmt::format("{:016x}{}", checksum(text, place), text));
  std::replace(encoded.begin(), encoded.end(), '+', '-');
  std::replace(encoded.begin(), encoded.end(), '/', '_');
  encoded.erase(std::find(encoded.begin(), encoded.end(), '='), encoded.end());
  return encoded;
}

Result<ContinueToken> decode_token(std::string_view text, std::string_view place) {
  const Error refused =
      make_error(Errc::invalid, "continue key is not valid: it was not given by this server for this list");
  if (text.size() > kLongestToken) return refused;
  std::string padded(text);
  std::replace(padded.begin(), padded.end(), '-', '+');
  std::replace(padded.begin(), padded.end(), '_', '/');
  while (padded.size() % 4 != 0) padded.push_back('=');
  const auto decoded = model::core::from_base64(padded);
  if (!decoded || decoded->size() < 16) return refused;
  const std::string_view body = std::string_view(*decoded).substr(16);
  if (decoded->substr(0, 16) != fmt::format("{:016x}", checksum(body, place))) return refused;
  const auto json = parse_json(body);
  if (!json || !json->get_uint64("rv") || !json->get_string("last")) return refused;
  return ContinueToken{*json->get_uint64("rv"), std::string(*json->get_string("last")),
                       json->get_int64("left")};
}

}  // namespace moor::registry
