#include "http/parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace moor::http {
namespace {

constexpr std::size_t kMaxChunkLine = 256;
constexpr std::size_t kMaxTrailers = 8 * 1024;
constexpr std::size_t kMaxChunkDigits = 15;  // 2^60: far above any limit, far below overflow

tl::unexpected<Refusal> refuse(int status, std::string message) {
  return tl::make_unexpected(Refusal{status, std::move(message), 0});
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// The next line without its CRLF; the head is known to consist of such lines.
std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end - 1);
  rest.remove_prefix(end + 1);
  return line;
}

// Nullptr when the line is a good header field, which is then added.
const char* parse_field(std::string_view line, Headers& headers) {
  if (line.front() == ' ' || line.front() == '\t') return "folded header line";
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "header line without a colon";
  const std::string_view name = line.substr(0, colon);
  if (!is_header_name(name)) return "header name with a character that is not allowed";
  const std::string_view value = trim(line.substr(colon + 1));
  if (!is_header_value(value)) return "header value with a control character";
  headers.add(std::string(name), std::string(value));
  return nullptr;
}

const char* parse_fields(std::string_view rest, const HeadLimits& limits, Headers& headers, bool& too_many) {
  for (;;) {
    const std::string_view line = next_line(rest);
    if (line.empty()) return nullptr;
    if (headers.size() == limits.fields) {
      too_many = true;
      return "too many header fields";
    }
    if (const char* problem = parse_field(line, headers)) return problem;
  }
}

std::optional<std::uint64_t> parse_length(std::string_view text) {
  std::uint64_t value = 0;
  const bool digits = !text.empty() && text.size() <= 18 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// How the body is framed, by RFC 9112 6.3 without its repairs: a message that names its length twice, or in
// two ways, is refused even where the two agree.
const char* parse_framing(const Headers& headers, Framing& framing, std::uint64_t& length) {
  const auto lengths = headers.get_all("content-length");
  const auto encodings = headers.get_all("transfer-encoding");
  if (lengths.size() > 1) return "more than one Content-Length";
  if (encodings.size() > 1) return "more than one Transfer-Encoding";
  if (!lengths.empty() && !encodings.empty()) return "both Content-Length and Transfer-Encoding";
  if (!encodings.empty()) {
    if (!equal_ignoring_case(encodings.front(), "chunked")) return "a Transfer-Encoding other than chunked";
    framing = Framing::chunked;
  } else if (!lengths.empty()) {
    const auto value = parse_length(lengths.front());
    if (!value) return "Content-Length is not a number";
    length = *value;
    framing = length == 0 ? Framing::none : Framing::length;
  }
  return nullptr;
}

// "http://host:port/path" (RFC 9112 3.2.2) is allowed only where it says the same as the Host header.
tl::expected<std::string_view, Refusal> origin_form(std::string_view target, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
    if (!equal_ignoring_case(rest.substr(0, slash), host))
      return refuse(400, "the request target and the Host header name different hosts");
    return slash == rest.size() ? std::string_view("/") : rest.substr(slash);
  }
  return target;
}

struct RequestLine {
  Method method;
  std::string_view target;
  bool http_1_0;
};

tl::expected<RequestLine, Refusal> parse_request_line(std::string_view line, const HeadLimits& limits) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos)
    return refuse(400, "the request line is not METHOD SP TARGET SP VERSION");
  const std::string_view version = line.substr(second + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.';
    return refuse(other ? 505 : 400, "the HTTP version is not 1.1");
  }
  const auto method = parse_method(line.substr(0, first));
  if (!method) {
    const bool token = is_header_name(line.substr(0, first));
    return refuse(token ? 501 : 400, "the method is not known");
  }
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (target.size() > limits.target_bytes) return refuse(431, "the request target is too long");
  return RequestLine{*method, target, version == "HTTP/1.0"};
}

std::optional<Refusal> parse_intent(RequestHead& head) {
  head.keep_alive = !head.http_1_0 && !head.headers.has_token("connection", "close");
  if (head.http_1_0 && head.framing == Framing::chunked) return Refusal{400, "chunked body in HTTP/1.0"};
  if (const auto expect = head.headers.get("expect")) {
    if (!equal_ignoring_case(*expect, "100-continue")) return Refusal{417, "unknown expectation"};
    head.expect_continue = !head.http_1_0 && head.framing != Framing::none;
  }
  return std::nullopt;
}

}  // namespace

HeadScan scan_head(std::string_view data, std::size_t& scanned) {
  while (scanned < data.size()) {
    const std::size_t end = data.find('\n', scanned);
    if (end == std::string_view::npos) {
      // The next look starts here again; a line's begin is found from its end.
      scanned = data.size();
      return {};
    }
    if (end == 0 || data[end - 1] != '\r') return {HeadScan::State::broken, 0};
    scanned = end + 1;
    if (end >= 3 && data[end - 2] == '\n') return {HeadScan::State::complete, end + 1};
    if (end == 1) return {HeadScan::State::broken, 0};
  }
  return {};
}

tl::expected<RequestHead, Refusal> parse_request_head(std::string_view head, const HeadLimits& limits) {
  std::string_view rest = head;
  const auto line = parse_request_line(next_line(rest), limits);
  if (!line) return tl::make_unexpected(line.error());
  RequestHead out;
  out.method = line->method;
  out.http_1_0 = line->http_1_0;
  bool too_many = false;
  if (const char* problem = parse_fields(rest, limits, out.headers, too_many))
    return refuse(too_many ? 431 : 400, problem);
  const std::size_t hosts = out.headers.count("host");
  if (hosts > 1 || (hosts == 0 && !out.http_1_0)) return refuse(400, "exactly one Host header is needed");
  if (const char* problem = parse_framing(out.headers, out.framing, out.content_length))
    return refuse(400, problem);
  const auto target = origin_form(line->target, out.headers.get("host").value_or(""));
  if (!target) return tl::make_unexpected(target.error());
  auto parsed = Target::parse(*target);
  if (!parsed) return refuse(400, parsed.error().message);
  out.target = *std::move(parsed);
  if (auto refusal = parse_intent(out)) return tl::make_unexpected(*std::move(refusal));
  return out;
}

Result<ResponseHead> parse_response_head(std::string_view head, Method to, const HeadLimits& limits) {
  const auto broken = [](std::string message) { return make_error(Errc::corrupt, std::move(message)); };
  std::string_view rest = head;
  const std::string_view line = next_line(rest);
  ResponseHead out;
  const bool version = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
  if (!version || line.size() < 12 || (line.size() > 12 && line[12] != ' '))
    return broken("not an HTTP/1.1 answer");
  const auto status = parse_length(line.substr(9, 3));
  if (!status || *status < 100 || *status > 599) return broken("the answer has no status");
  out.status = static_cast<int>(*status);
  bool too_many = false;
  if (const char* problem = parse_fields(rest, limits, out.headers, too_many)) return broken(problem);
  if (const char* problem = parse_framing(out.headers, out.framing, out.content_length))
    return broken(problem);
  out.keep_alive = line.starts_with("HTTP/1.1") && !out.headers.has_token("connection", "close");
  const bool empty = to == Method::head || out.status < 200 || out.status == 204 || out.status == 304;
  if (empty) {
    out.framing = Framing::none;
  } else if (out.framing == Framing::none && !out.headers.has("content-length")) {
    out.framing = Framing::until_close;
    out.keep_alive = false;
  }
  return out;
}

BodyDecoder::BodyDecoder(Framing framing, std::uint64_t length, std::uint64_t max_bytes)
    : framing_(framing),
      state_(State::more),
      left_(framing == Framing::length ? length : 0),
      room_(max_bytes) {
  if (framing == Framing::none) state_ = State::done;
  if (framing == Framing::length && length > max_bytes) state_ = State::too_large;
  if (framing == Framing::until_close) left_ = UINT64_MAX;
}

std::size_t BodyDecoder::take_data(std::string_view data, std::string& out) {
  const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, data.size()));
  if (take > room_) {
    state_ = State::too_large;
    return 0;
  }
  out.append(data.substr(0, take));
  room_ -= take;
  left_ -= take;
  return take;
}

void BodyDecoder::take_chunk_byte(char c) {
  const auto digit = [c]() -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  switch (part_) {
    case Part::size:
      if (digit() >= 0 && line_bytes_ < kMaxChunkDigits) {
        left_ = left_ * 16 + static_cast<std::uint64_t>(digit());
        ++line_bytes_;
      } else if (line_bytes_ > 0 && (c == ';' || c == '\r')) {
        part_ = c == ';' ? Part::extension : Part::size_lf;
      } else {
        state_ = State::broken;
      }
      break;
    case Part::extension:  // must be ignored (RFC 9112 7.1.1), but not its line end
      if (c == '\r') {
        part_ = Part::size_lf;
      } else if (++line_bytes_ > kMaxChunkLine || !is_header_value({&c, 1})) {
        state_ = State::broken;
      }
      break;
    case Part::size_lf:
      if (c != '\n') state_ = State::broken;
      line_bytes_ = 0;
      part_ = left_ > 0 ? Part::data : Part::trailer;
      break;
    case Part::data_cr:
      if (c != '\r') state_ = State::broken;
      part_ = Part::data_lf;
      break;
    case Part::data_lf:
      if (c != '\n') state_ = State::broken;
      part_ = Part::size;
      break;
    default: take_trailer_byte(c);
  }
}

void BodyDecoder::take_trailer_byte(char c) {
  if (++trailer_bytes_ > kMaxTrailers) {
    state_ = State::broken;
  } else if (part_ == Part::trailer) {
    if (c == '\r') {
      part_ = Part::trailer_lf;
    } else {
      trailer_ += c;
    }
  } else if (c != '\n') {
    state_ = State::broken;
  } else if (trailer_.empty()) {
    state_ = State::done;
  } else {
    // Trailers are checked and dropped: nobody here may take them for headers.
    Headers dropped;
    if (parse_field(trailer_, dropped) != nullptr) state_ = State::broken;
    trailer_.clear();
    part_ = Part::trailer;
  }
}

BodyDecoder::Step BodyDecoder::feed(std::string_view data, std::string& out) {
  std::size_t used = 0;
  while (state_ == State::more && used < data.size()) {
    if (framing_ != Framing::chunked) {
      used += take_data(data.substr(used), out);
      if (left_ == 0) state_ = State::done;
    } else if (part_ == Part::data) {
      used += take_data(data.substr(used), out);
      if (left_ == 0) part_ = Part::data_cr;
    } else {
      take_chunk_byte(data[used]);
      ++used;
      if (part_ == Part::data && left_ > room_) state_ = State::too_large;
    }
  }
  return {state_, used};
}

bool append_headers(const Headers& headers, std::string& out) {
  for (const auto& [name, value] : headers) {
    if (!is_header_name(name) || !is_header_value(value)) return false;
    out.append(name).append(": ").append(value).append("\r\n");
  }
  return true;
}

}  // namespace moor::http
