#include "http/url.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace moor::http {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// What may stand in a request target as it is.
constexpr std::array<bool, 256> kInTarget = [] {
  std::array<bool, 256> allowed{};
  for (unsigned c = 0x21; c < 0x7f; ++c) allowed[c] = c != '#' && c != '\\';
  return allowed;
}();

Error invalid(std::string message) {
  return make_error(Errc::invalid, std::move(message));
}

Result<std::string> decode_text(std::string_view text, bool query) {
  TRY(auto decoded, percent_decode(text, query));
  // A query value may carry line ends and tabs (a label selector will not, a message may); a path may not.
  const bool bad = std::any_of(decoded.begin(), decoded.end(),
                               [query](char c) { return query ? c == '\0' : is_control(c); });
  if (bad) return invalid("control character in the request target");
  if (!is_utf8(decoded)) return invalid("the request target is not UTF-8");
  return decoded;
}

Result<std::string> decode_segment(std::string_view text) {
  // What may not stand in a target has been refused before: without an escape, a segment is what it says.
  const bool plain = text.find('%') == std::string_view::npos;
  TRY(auto segment, plain ? Result<std::string>(std::string(text)) : decode_text(text, false));
  if (segment.empty()) return invalid("empty segment in the path");
  if (segment == "." || segment == "..") return invalid("dot segment in the path");
  if (segment.find_first_of("/\\") != std::string::npos)
    return invalid("encoded slash or backslash in the path");
  return segment;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned first = byte(at);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return false;
    std::uint32_t code = first & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(at + i) & 0xc0U) != 0x80U) return false;
      code = (code << 6) | (byte(at + i) & 0x3fU);
    }
    // Longer forms than needed and surrogates are second spellings of the same text.
    if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000)) return false;
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    at += length;
  }
  return true;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      const auto value = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[value >> 4];
      out += kHex[value & 0xf];
    }
  }
  return out;
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[at] != '%') {
      out += text[at];
    } else {
      const int high = at + 1 < text.size() ? hex_value(text[at + 1]) : -1;
      const int low = at + 2 < text.size() ? hex_value(text[at + 2]) : -1;
      if (high < 0 || low < 0) return invalid("broken percent escape");
      out += static_cast<char>(high * 16 + low);
      at += 2;
    }
  }
  return out;
}

Result<Query> Query::parse(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    // Some readers split at ';' and some do not.
    if (part.find(';') != std::string_view::npos) return invalid("semicolon in the query");
    if (query.size() == kMaxQueryParameters) return invalid("too many query parameters");
    const std::size_t equals = std::min(part.find('='), part.size());
    TRY(auto name, decode_text(part.substr(0, equals), true));
    TRY(auto value, decode_text(part.substr(std::min(equals + 1, part.size())), true));
    query.add(std::move(name), std::move(value));
  }
  return query;
}

std::optional<std::string_view> Query::get(std::string_view name) const {
  for (const auto& parameter : parameters_) {
    if (parameter.name == name) return parameter.value;
  }
  return std::nullopt;
}

std::vector<std::string_view> Query::get_all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& parameter : parameters_) {
    if (parameter.name == name) values.push_back(parameter.value);
  }
  return values;
}

std::string Query::to_string() const {
  std::string out;
  for (const auto& parameter : parameters_) {
    if (!out.empty()) out += '&';
    out += percent_encode(parameter.name);
    out += '=';
    out += percent_encode(parameter.value);
  }
  return out;
}

std::string_view Target::query_text() const {
  return path_size < raw.size() ? std::string_view(raw).substr(path_size + 1) : std::string_view();
}

Result<Target> Target::parse(std::string_view raw) {
  if (raw.empty() || raw.front() != '/') return invalid("the request target must begin with a slash");
  for (const char c : raw) {
    if (kInTarget[static_cast<unsigned char>(c)]) continue;
    if (c == '#' || c == '\\') return invalid("the request target has a fragment or a backslash");
    return invalid("the request target has a character that must be encoded");
  }
  Target target;
  target.segments.reserve(8);
  target.raw = raw;
  target.path_size = std::min(raw.find('?'), raw.size());
  std::string_view rest = raw.substr(1, target.path_size - 1);
  while (!rest.empty()) {
    if (target.segments.size() == kMaxPathSegments) return invalid("the path has too many segments");
    const std::size_t end = std::min(rest.find('/'), rest.size());
    TRY(auto segment, decode_segment(rest.substr(0, end)));
    target.segments.push_back(std::move(segment));
    target.trailing_slash = end + 1 == rest.size();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  TRY(target.query, Query::parse(target.query_text()));
  return target;
}

Result<HostPort> parse_host_port(std::string_view text) {
  HostPort out;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || close + 1 >= text.size() || text[close + 1] != ':')
      return invalid("expected [address]:port");
    out.host = text.substr(1, close - 1);
    port = text.substr(close + 2);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || text.find(':') != colon) return invalid("expected host:port");
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || port.empty())
    return invalid("the port is not a number up to 65535");
  if (out.host.empty()) return invalid("the host is empty");
  for (const char c : out.host) {
    // A scope ("%eth0") and a user ("me@") have no place in what we listen on or connect to.
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '-' && c != '_' && c != ':')
      return invalid("the host is no name or address");
  }
  return out;
}

Result<Url> Url::parse(std::string_view text) {
  Url url;
  if (text.starts_with("unix:")) {
    text.remove_prefix(5);
    if (text.starts_with("//")) text.remove_prefix(2);
    while (text.starts_with("//")) text.remove_prefix(1);  // else "unix:" + host would read as an authority
    if (text.empty() || text.front() != '/') return invalid("a unix URL needs an absolute path");
    if (std::any_of(text.begin(), text.end(), is_control))
      return invalid("a socket path has no control characters");
    url.scheme = Scheme::unix;
    url.host = text;
    return url;
  }
  if (text.starts_with("https://")) {
    url.scheme = Scheme::https;
    text.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    text.remove_prefix(7);
  } else {
    return invalid("a URL must begin with http://, https:// or unix:");
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  std::string authority(text.substr(0, slash));
  url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (authority.find_first_of("@?#% \t\r\n") != std::string::npos ||
      url.path.find_first_of("?# \t\r\n") != std::string::npos)
    return invalid("a URL here has no user, query or fragment");
  const bool has_port = authority.ends_with(']') ? false : authority.find(':') != std::string::npos;
  if (!has_port) authority += url.scheme == Scheme::https ? ":443" : ":80";
  TRY(auto host_port, parse_host_port(authority));
  url.host = std::move(host_port.host);
  url.port = host_port.port;
  return url;
}

std::string Url::authority() const {
  if (scheme == Scheme::unix) return "localhost";
  const bool ip6 = host.find(':') != std::string::npos;
  return (ip6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Url::to_string() const {
  switch (scheme) {
    case Scheme::unix: return "unix:" + host;
    case Scheme::https: return "https://" + authority() + path;
    case Scheme::http: break;
  }
  return "http://" + authority() + path;
}

}  // namespace moor::http
