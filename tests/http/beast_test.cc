// Our parser beside Boost.Beast's: what ours takes, Beast must take too, with the same method, target,
// headers and body, and the same end. So ours is a subset: strict where Beast forgives, never the other way
// round.
#include <gtest/gtest.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "http/parser.h"

namespace moor::http {
namespace {

namespace beast = boost::beast;

struct Message {
  bool accepted = false;
  bool complete = false;
  std::string method;
  std::string target;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::size_t consumed = 0;
};

Message ours(std::string_view data) {
  Message out;
  std::size_t scanned = 0;
  const auto scan = scan_head(data, scanned);
  if (scan.state != HeadScan::State::complete) return out;
  auto head = parse_request_head(data.substr(0, scan.size), HeadLimits{});
  if (!head) return out;
  BodyDecoder decoder(head->framing, head->content_length, 1 << 20);
  const auto fed = decoder.feed(data.substr(scan.size), out.body);
  out.accepted = fed.state == BodyDecoder::State::more || fed.state == BodyDecoder::State::done;
  out.complete = decoder.done();
  out.method = to_string(head->method);
  out.target = head->target.raw;
  for (const auto& [name, value] : head->headers) out.headers.emplace_back(name, value);
  out.consumed = scan.size + fed.consumed;
  return out;
}

Message beasts(std::string_view data) {
  Message out;
  beast::http::request_parser<beast::http::string_body> parser;
  parser.eager(true);
  parser.header_limit(1 << 20);
  parser.body_limit(1 << 20);
  beast::error_code error;
  while (out.consumed < data.size() && !parser.is_done()) {
    const std::size_t used =
        parser.put(boost::asio::buffer(data.data() + out.consumed, data.size() - out.consumed), error);
    out.consumed += used;
    if (error == beast::http::error::need_more) break;
    if (error) return out;
  }
  out.accepted = true;
  out.complete = parser.is_done();
  const auto& message = parser.get();
  out.method = std::string(message.method_string());
  out.target = std::string(message.target());
  out.body = message.body();
  for (const auto& field : message)
    out.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  return out;
}

void compare(const std::string& data) {
  const Message mine = ours(data);
  if (!mine.accepted) return;
  const Message theirs = beasts(data);
  ASSERT_TRUE(theirs.accepted) << testing::PrintToString(data);
  ASSERT_EQ(mine.complete, theirs.complete) << testing::PrintToString(data);
  EXPECT_EQ(mine.method, theirs.method);
  // A target in absolute form is cut down to its path on our side only.
  if (!theirs.target.starts_with("http")) {
    EXPECT_EQ(mine.target, theirs.target);
  }
  if (!mine.complete) return;
  ASSERT_EQ(mine.body, theirs.body) << testing::PrintToString(data);
  ASSERT_EQ(mine.consumed, theirs.consumed) << testing::PrintToString(data);
}

TEST(BesideBeast, EveryAcceptedRequestMeansTheSame) {
  RealRandom real;
  const std::uint64_t seed = real.next();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  const auto pick = [&random](auto& from) { return std::string(from[random.below(std::size(from))]); };
  static constexpr const char* kLines[] = {
      "GET / HTTP/1.1",  "POST /a?b=c HTTP/1.1",   "PUT /x HTTP/1.0",    "DELETE /%41 HTTP/1.1",
      "GET  / HTTP/1.1", "GET http://h/ HTTP/1.1", "PATCH /a/b HTTP/1.1"};
  static constexpr const char* kFields[] = {"Host: h",
                                            "Host: h",
                                            "Host: h",
                                            "Content-Length: 5",
                                            "Content-Length: 0",
                                            "Content-Length: 5, 5",
                                            "Transfer-Encoding: chunked",
                                            "Transfer-Encoding: x",
                                            "Transfer-Encoding : chunked",
                                            "X: y",
                                            "X:\ty ",
                                            "X: a\tb",
                                            " folded",
                                            "Connection: close",
                                            "Expect: 100-continue",
                                            "X\x7f: y",
                                            "Upgrade: h2c"};
  static constexpr const char* kEnds[] = {"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\r\n"};
  static constexpr const char* kBodies[] = {"",
                                            "hello",
                                            "helloGET /",
                                            "5\r\nhello\r\n0\r\n\r\n",
                                            "5\r\nhello\r\n0\r\n\r\nNEXT",
                                            "0\r\n\r\n",
                                            "5;a=b\r\nhello\r\n0\r\nT: v\r\n\r\n",
                                            "05\r\nhello\r\n0\r\n\r\n",
                                            "5\nhello\n0\n\n",
                                            "5\r\nhello0\r\n\r\n"};
  int accepted = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string text = pick(kLines) + pick(kEnds);
    const std::uint64_t fields = random.below(4);
    for (std::uint64_t j = 0; j <= fields; ++j) text += pick(kFields) + pick(kEnds);
    text += pick(kEnds) + pick(kBodies);
    compare(text);
    if (ours(text).accepted) ++accepted;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace moor::http
