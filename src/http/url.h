// URLs and what is inside them, strictly: what two readers could understand differently is refused, never
// repaired. Decoded text is UTF-8 without control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace moor::http {

inline constexpr std::size_t kMaxPathSegments = 64;
inline constexpr std::size_t kMaxQueryParameters = 256;

bool is_utf8(std::string_view text);

// Everything but unreserved characters (RFC 3986 2.3) becomes %XX: fit for a path segment or a query part.
std::string percent_encode(std::string_view text);
// Errc::invalid on a broken escape. `plus_is_space` for queries.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// Query parameters in order; a name may come several times.
class Query {
 public:
  struct Parameter {
    std::string name;
    std::string value;
  };

  static Result<Query> parse(std::string_view text);
  void add(std::string name, std::string value) {
    parameters_.push_back({std::move(name), std::move(value)});
  }
  std::optional<std::string_view> get(std::string_view name) const;  // the first
  std::vector<std::string_view> get_all(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }
  std::string to_string() const;  // encoded, without the '?'

  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  std::size_t size() const { return parameters_.size(); }

 private:
  std::vector<Parameter> parameters_;
};

// The target of a request in origin form ("/a/b?c=d").
//
// Refused: empty segments inside ("//"), "." and ".." (also encoded), encoded slashes, backslashes, control
// characters and NUL, bytes outside ASCII that are not encoded, what is not UTF-8 after decoding, fragments.
// A router therefore matches `segments` and need not think about encodings again.
struct Target {
  std::string raw;
  std::string_view path() const { return std::string_view(raw).substr(0, path_size); }
  std::string_view query_text() const;
  std::size_t path_size = 0;
  std::vector<std::string> segments;  // decoded; empty for "/"
  bool trailing_slash = false;        // "/a/" as opposed to "/a"
  Query query;

  static Result<Target> parse(std::string_view raw);
};

// An endpoint: http://host:port, https://host:port, or unix:/path/to/socket. A path after the authority is
// kept as the prefix of every request's target.
struct Url {
  enum class Scheme { http, https, unix };
  Scheme scheme = Scheme::http;
  std::string host;  // without the brackets of an IPv6 address; the socket's path for unix
  std::uint16_t port = 0;
  std::string path;  // "" or "/base"; never ends in '/'

  static Result<Url> parse(std::string_view text);
  std::string authority() const;  // for the Host header
  std::string to_string() const;
};

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
// "127.0.0.1:6440", "[::1]:0", "name:80".
Result<HostPort> parse_host_port(std::string_view text);

}  // namespace moor::http
