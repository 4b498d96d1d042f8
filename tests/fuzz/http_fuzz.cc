#include "http_fuzz.h"

#include "base/assert.h"
#include "http/parser.h"
#include "http/url.h"

namespace moor::http::fuzz {
namespace {

constexpr std::uint64_t kMaxBody = 4096;

struct Body {
  BodyDecoder::State state = BodyDecoder::State::more;
  std::string text;
  std::size_t consumed = 0;
};

Body decode(const BodyDecoder& fresh, std::string_view data, std::size_t step) {
  BodyDecoder decoder = fresh;
  Body body;
  if (decoder.done()) body.state = BodyDecoder::State::done;
  while (body.state == BodyDecoder::State::more && body.consumed < data.size()) {
    const auto fed = decoder.feed(data.substr(body.consumed, step), body.text);
    MOOR_ASSERT(fed.consumed > 0 || fed.state != BodyDecoder::State::more, "no progress");
    body.state = fed.state;
    body.consumed += fed.consumed;
  }
  MOOR_ASSERT(body.text.size() <= kMaxBody, "a body of {} bytes", body.text.size());
  return body;
}

// Where a body ends must not depend on how its bytes were cut into reads.
void check_body(Framing framing, std::uint64_t length, std::string_view data, Reached& reached) {
  const BodyDecoder fresh(framing, length, kMaxBody);
  const Body whole = decode(fresh, data, data.size() + 1);
  const Body bytes = decode(fresh, data, 1);
  MOOR_ASSERT(whole.state == bytes.state, "the state depends on the cuts");
  if (whole.state == BodyDecoder::State::done) {
    MOOR_ASSERT(whole.text == bytes.text && whole.consumed == bytes.consumed, "the end depends on the cuts");
    ++reached.bodies;
  }
}

std::size_t find_head(std::string_view data) {
  std::size_t at_once = 0;
  const HeadScan whole = scan_head(data, at_once);
  std::size_t scanned = 0;
  HeadScan scan;
  for (std::size_t have = 1; have <= data.size() && scan.state == HeadScan::State::more; ++have)
    scan = scan_head(data.substr(0, have), scanned);
  MOOR_ASSERT(scan.state == whole.state && scan.size == whole.size, "the head's end depends on the cuts");
  return whole.state == HeadScan::State::complete ? whole.size : 0;
}

void check_target(const Target& target) {
  const auto again = Target::parse(target.raw);
  MOOR_ASSERT(again.ok() && again->segments == target.segments);
  std::string rebuilt;
  for (const auto& segment : target.segments) {
    MOOR_ASSERT(!segment.empty() && segment != "." && segment != ".." && is_utf8(segment));
    MOOR_ASSERT(segment.find('/') == std::string::npos && segment.find('\0') == std::string::npos);
    rebuilt += "/" + percent_encode(segment);
  }
  // What was understood can be written down in one way that means the same.
  const auto canonical = Target::parse(rebuilt.empty() ? "/" : rebuilt);
  MOOR_ASSERT(canonical.ok() && canonical->segments == target.segments);
  MOOR_ASSERT(target.segments.size() <= kMaxPathSegments && target.query.size() <= kMaxQueryParameters);
}

}  // namespace

void try_request(std::string_view data, Reached& reached) {
  const std::size_t size = find_head(data);
  if (size == 0) return;
  const auto head = parse_request_head(data.substr(0, size), HeadLimits{});
  if (!head) {
    MOOR_ASSERT(head.error().status >= 400 && head.error().status < 600 && !head.error().message.empty());
    ++reached.refused;
    return;
  }
  ++reached.accepted;
  check_target(head->target);
  MOOR_ASSERT(head->headers.count("content-length") + head->headers.count("transfer-encoding") <= 1);
  for (const auto& [name, value] : head->headers) MOOR_ASSERT(is_header_name(name) && is_header_value(value));
  check_body(head->framing, head->content_length, data.substr(size), reached);
}

void try_response(std::string_view data, Reached& reached) {
  const std::size_t size = find_head(data);
  if (size == 0) return;
  const auto head = parse_response_head(data.substr(0, size), Method::get, HeadLimits{});
  if (!head) {
    ++reached.refused;
    return;
  }
  ++reached.accepted;
  MOOR_ASSERT(head->status >= 100 && head->status <= 599);
  if (head->framing != Framing::until_close)
    check_body(head->framing, head->content_length, data.substr(size), reached);
}

void try_url(std::string_view data, Reached& reached) {
  if (const auto target = Target::parse(data)) {
    ++reached.accepted;
    check_target(*target);
    const auto query = Query::parse(target->query.to_string());
    MOOR_ASSERT(query.ok() && query->to_string() == target->query.to_string());
  } else {
    ++reached.refused;
  }
  if (const auto url = Url::parse(data)) {
    ++reached.bodies;
    const auto again = Url::parse(url->to_string());
    MOOR_ASSERT(again.ok() && again->host == url->host && again->port == url->port &&
                again->path == url->path);
  }
  const auto decoded = percent_decode(percent_encode(data));
  MOOR_ASSERT(decoded.ok() && *decoded == data);
}

}  // namespace moor::http::fuzz
