// What doors and clients speak: plain requests and responses, with no library behind them. Values, owned by
// whoever holds them; nothing here is thread-safe or needs to be.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "http/stream.h"
#include "http/url.h"

namespace moor::http {

enum class Method { get, head, post, put, patch, delete_, options };

std::string_view to_string(Method method);
std::optional<Method> parse_method(std::string_view text);  // case matters, as on the wire
// Doing it twice is doing it once (RFC 9110 9.2.2), so a client may send it again after a broken connection.
bool is_idempotent(Method method);

// Names are compared without regard to case and kept as written, in order. The parser bounds how many come
// in from the wire.
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;
  };

  void add(std::string name, std::string value) { fields_.push_back({std::move(name), std::move(value)}); }
  void set(std::string_view name, std::string value);  // replaces all of that name
  void remove(std::string_view name);
  // The first of that name. The view lives as long as the field stays.
  std::optional<std::string_view> get(std::string_view name) const;
  std::vector<std::string_view> get_all(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }
  // A comma-separated list that contains the token: has_token("connection", "close").
  bool has_token(std::string_view name, std::string_view token) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<Field> fields_;
};

bool equal_ignoring_case(std::string_view left, std::string_view right);
// What may stand in a header: anything else would let a caller write headers of its own (response splitting).
bool is_header_name(std::string_view name);
bool is_header_value(std::string_view value);

// Who is at the other end of a client certificate: the subject's CN is the user, its O's the groups
// (Kubernetes' convention).
struct ClientCertificate {
  std::string common_name;
  std::vector<std::string> organizations;
  // false only when the listener was told to let such certificates through, or when it ended after its owner
  // was given the ticket that he comes back with
  bool verified = false;
  std::string problem;  // why it is not verified
};

struct Peer {
  std::string address;  // "127.0.0.1:4711", "[::1]:4711" or "unix"
  bool tls = false;
  std::optional<ClientCertificate> certificate;
};

struct Request {
  Method method = Method::get;
  Target target;
  Headers headers;
  std::string body;
  // Server side only: who asks, and how the handler learns that its answer is no longer wanted (client gone,
  // deadline passed, server stopping).
  Peer peer;
  CancelToken cancel;
  TimePoint deadline = TimePoint::never();

  // For clients: a request to a raw target ("/api/v1/nodes?limit=5"), encoded by the caller (url.h).
  static Request to(Method method, std::string raw_target, std::string body = {},
                    std::string_view content_type = {});
};

// One answer: a body of its own, a body shared with others (sent without copying), or a stream. At most one
// of the three is set.
struct Response {
  int status = 200;
  Headers headers;
  std::string body;
  SharedText shared_body;
  std::unique_ptr<StreamBody> stream;

  static Response text(int status, std::string body, std::string_view content_type = "text/plain");
  static Response streaming(int status, std::string_view content_type, std::unique_ptr<StreamBody> stream);
  std::string_view body_view() const { return shared_body ? std::string_view(*shared_body) : body; }
};

std::string_view reason_phrase(int status);

}  // namespace moor::http
