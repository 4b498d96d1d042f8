// HTTP/1.1 on the wire (RFC 9112) without any I/O: bytes in, heads and bodies out. It accepts less than the
// RFC lets a lenient reader accept: wherever two readers could disagree about where a message ends (request
// smuggling), the message is refused and its connection must be closed. tests/http compares it with Beast's
// parser: what this one takes, that one takes with the same meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "http/message.h"

namespace moor::http {

// Why the transport itself turns a request away, before or instead of a handler.
struct Refusal {
  int status = 400;
  std::string message;
  int retry_after_seconds = 0;  // 0: no Retry-After
};

struct HeadLimits {
  std::size_t bytes = 64 * 1024;
  std::size_t fields = 128;
  std::size_t target_bytes = 16 * 1024;
};

enum class Framing { none, length, chunked, until_close };

struct RequestHead {
  Method method = Method::get;
  Target target;
  Headers headers;
  Framing framing = Framing::none;
  std::uint64_t content_length = 0;
  bool http_1_0 = false;
  bool keep_alive = true;
  bool expect_continue = false;
};

struct ResponseHead {
  int status = 0;
  Headers headers;
  Framing framing = Framing::none;
  std::uint64_t content_length = 0;
  bool keep_alive = true;
};

// Looks for the blank line that ends a head. `scanned` remembers how far earlier calls came (start with 0).
struct HeadScan {
  enum class State { more, complete, broken } state = State::more;
  std::size_t size = 0;  // complete: bytes of the head with its blank line
};
HeadScan scan_head(std::string_view data, std::size_t& scanned);

// Both take the whole head, up to and with the blank line.
tl::expected<RequestHead, Refusal> parse_request_head(std::string_view head, const HeadLimits& limits);
// `to` is the method that was asked: it decides whether a body follows.
Result<ResponseHead> parse_response_head(std::string_view head, Method to, const HeadLimits& limits);

// Takes a body apart as its bytes come in.
class BodyDecoder {
 public:
  enum class State { more, done, broken, too_large };
  struct Step {
    State state = State::more;
    std::size_t consumed = 0;
  };

  BodyDecoder() = default;
  BodyDecoder(Framing framing, std::uint64_t length, std::uint64_t max_bytes);
  // Appends what it finds to `out` and says how much of `data` it used; what follows a finished body stays.
  Step feed(std::string_view data, std::string& out);
  // The peer has closed: a clean end only for a body that runs until then.
  bool end_by_close() {
    if (framing_ == Framing::until_close && state_ == State::more) state_ = State::done;
    return state_ == State::done;
  }
  bool done() const { return state_ == State::done; }

 private:
  enum class Part { size, extension, size_lf, data, data_cr, data_lf, trailer, trailer_lf };
  std::size_t take_data(std::string_view data, std::string& out);
  void take_chunk_byte(char c);
  void take_trailer_byte(char c);

  Framing framing_ = Framing::none;
  State state_ = State::done;
  Part part_ = Part::size;
  std::uint64_t left_ = 0;  // of the body (length) or of the chunk (chunked)
  std::uint64_t room_ = 0;
  std::size_t line_bytes_ = 0;     // of the size line or trailer: bounded
  std::size_t trailer_bytes_ = 0;  // of all trailers
  std::string trailer_;
};

// The text of heads that we send. False: a header cannot be sent as it is (it would break the framing).
bool append_headers(const Headers& headers, std::string& out);

}  // namespace moor::http
