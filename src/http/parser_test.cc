#include "http/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace moor::http {
namespace {

tl::expected<RequestHead, Refusal> parse(const std::string& head) {
  return parse_request_head(head, HeadLimits{});
}

std::string with(const std::string& fields) {
  return "POST /a HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
}

TEST(HeadScan, FindsTheEndHoweverTheBytesArrive) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string data = head + "rest\r\n\r\n";
  for (std::size_t step = 1; step <= data.size(); ++step) {
    std::size_t scanned = 0;
    HeadScan scan;
    for (std::size_t have = 0; scan.state == HeadScan::State::more && have < data.size();) {
      have = std::min(have + step, data.size());
      scan = scan_head(std::string_view(data).substr(0, have), scanned);
    }
    EXPECT_EQ(scan.state, HeadScan::State::complete) << step;
    EXPECT_EQ(scan.size, head.size()) << step;
  }
}

TEST(HeadScan, RefusesBareLineFeeds) {
  for (const std::string bad : {"GET / HTTP/1.1\nHost: h\n\n", "GET / HTTP/1.1\r\nHost: h\n\r\n", "\n",
                                "\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\n"}) {
    std::size_t scanned = 0;
    EXPECT_EQ(scan_head(bad, scanned).state, HeadScan::State::broken) << testing::PrintToString(bad);
  }
}

TEST(RequestHead, IsTakenApart) {
  const auto head =
      parse("GET /api/v1/nodes?limit=5 HTTP/1.1\r\nHost: h:1\r\nAccept:  a, b \r\nX-Empty:\r\n\r\n").value();
  EXPECT_EQ(head.method, Method::get);
  EXPECT_EQ(head.target.segments.size(), 3U);
  EXPECT_EQ(head.target.query.get("limit"), "5");
  EXPECT_EQ(head.headers.get("aCCept"), "a, b");
  EXPECT_EQ(head.headers.get("x-empty"), "");
  EXPECT_EQ(head.framing, Framing::none);
  EXPECT_TRUE(head.keep_alive);
}

TEST(RequestHead, KnowsHowItsBodyIsFramed) {
  const auto length = parse(with("Content-Length: 12\r\n")).value();
  EXPECT_EQ(length.framing, Framing::length);
  EXPECT_EQ(length.content_length, 12U);
  EXPECT_EQ(parse(with("Transfer-Encoding: Chunked\r\n"))->framing, Framing::chunked);
  EXPECT_EQ(parse(with("Content-Length: 0\r\n"))->framing, Framing::none);
  EXPECT_FALSE(parse(with("Connection: close\r\n"))->keep_alive);
  EXPECT_FALSE(parse(with("Connection: x, Close\r\n"))->keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parse(with("Content-Length: 5\r\nExpect: 100-continue\r\n"))->expect_continue);
}

TEST(RequestHead, TakesAnAbsoluteTargetOnlyIfItAgreesWithHost) {
  EXPECT_EQ(parse("GET http://h:1/a?b=c HTTP/1.1\r\nHost: H:1\r\n\r\n")->target.raw, "/a?b=c");
  EXPECT_EQ(parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n")->target.raw, "/");
  EXPECT_EQ(parse("GET http://evil/a HTTP/1.1\r\nHost: h\r\n\r\n").error().status, 400);
}

struct Case {
  std::string head;
  int status;
};

TEST(RequestHead, RefusesWhatIsNotStrictlyRight) {
  const std::string many_fields = [] {
    std::string fields;
    for (int i = 0; i < 130; ++i) fields += "X-" + std::to_string(i) + ": v\r\n";
    return fields;
  }();
  const Case cases[] = {
      {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400},
      {" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\n", 505},
      {"GET / HTTP/1.11\r\nHost: h\r\n\r\n", 400},
      {"GET / http/1.1\r\nHost: h\r\n\r\n", 400},
      {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"get / HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"G{T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
      {with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with("Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
      {with("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
      {with("Content-Length: 5, 5\r\n"), 400},
      {with("Content-Length: +5\r\n"), 400},
      {with("Content-Length: -5\r\n"), 400},
      {with("Content-Length: 0x5\r\n"), 400},
      {with("Content-Length: 5 5\r\n"), 400},
      {with("Content-Length:\r\n"), 400},
      {with("Content-Length: 99999999999999999999\r\n"), 400},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with("Transfer-Encoding: identity\r\n"), 400},
      {with("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {with("Transfer-Encoding: chunked, chunked\r\n"), 400},
      {with("Transfer-Encoding: xchunked\r\n"), 400},
      {with("Transfer-Encoding: \"chunked\"\r\n"), 400},
      {with("Transfer-Encoding : chunked\r\n"), 400},
      {with("Transfer-Encoding\t: chunked\r\n"), 400},
      {with(" Transfer-Encoding: chunked\r\n"), 400},
      {with("X: a\r\n folded\r\n"), 400},
      {with("X: a\r\n\tfolded\r\n"), 400},
      {with("X: a\rb\r\n"), 400},
      {with(std::string("X: a\0b\r\n", 8)), 400},
      {with("X: a\x01\r\n"), 400},
      {with("X y: a\r\n"), 400},
      {with(": a\r\n"), 400},
      {with("nocolon\r\n"), 400},
      {with("X\x80: a\r\n"), 400},
      {with("Expect: magic\r\n"), 417},
      {"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {with(many_fields), 431},
      {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
      {"GET /a/../b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
  };
  for (const auto& [head, status] : cases) {
    const auto result = parse(head);
    ASSERT_FALSE(result.has_value()) << testing::PrintToString(head);
    EXPECT_EQ(result.error().status, status) << testing::PrintToString(head) << result.error().message;
  }
}

TEST(ResponseHead, KnowsWhichAnswersHaveABody) {
  const HeadLimits limits;
  const std::string length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
  EXPECT_EQ(parse_response_head(length, Method::get, limits)->framing, Framing::length);
  EXPECT_EQ(parse_response_head(length, Method::head, limits)->framing, Framing::none);
  EXPECT_EQ(parse_response_head("HTTP/1.1 204 No\r\n\r\n", Method::get, limits)->framing, Framing::none);
  EXPECT_EQ(parse_response_head("HTTP/1.1 200\r\n\r\n", Method::get, limits)->framing, Framing::until_close);
  const auto empty =
      parse_response_head("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", Method::get, limits).value();
  EXPECT_EQ(empty.framing, Framing::none);
  EXPECT_TRUE(empty.keep_alive);
  for (const char* bad : {"HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 999 X\r\n\r\n",
                          "junk\r\n\r\n", "HTTP/1.1 2000 X\r\n\r\n"})
    EXPECT_TRUE(parse_response_head(bad, Method::get, limits).is(Errc::corrupt)) << bad;
}

struct Decoded {
  BodyDecoder::State state;
  std::string body;
  std::size_t consumed = 0;
};

Decoded decode(const std::string& data, std::size_t step, std::uint64_t max = 1000) {
  BodyDecoder decoder(Framing::chunked, 0, max);
  Decoded out{BodyDecoder::State::more, {}};
  while (out.state == BodyDecoder::State::more && out.consumed < data.size()) {
    const auto fed = decoder.feed(std::string_view(data).substr(out.consumed, step), out.body);
    out.state = fed.state;
    out.consumed += fed.consumed;
  }
  return out;
}

TEST(Chunks, AreDecodedHoweverTheBytesArrive) {
  const std::string data = "5\r\nhello\r\n00a;ext=\"x\"\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\nNEXT";
  for (std::size_t step = 1; step <= data.size(); ++step) {
    const auto out = decode(data, step);
    EXPECT_EQ(out.state, BodyDecoder::State::done) << step;
    EXPECT_EQ(out.body, "hello, world!!!") << step;
    EXPECT_EQ(data.substr(out.consumed), "NEXT") << step;
  }
}

TEST(Chunks, RefusesBadForms) {
  for (const std::string bad :
       {"\r\n", "x\r\n", "-1\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n",
        "5 \r\nhello\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloX\r\n", "5\rXhello", "5;a\nb\r\nhello\r\n", "0\r\nbad trailer\r\n\r\n",
        "0\r\n folded: x\r\n\r\n", "0\r\n\rX", "ffffffffffffffff\r\n", "0000000000000005\r\nhello\r\n"}) {
    EXPECT_EQ(decode(bad, 1).state, BodyDecoder::State::broken) << testing::PrintToString(bad);
    EXPECT_EQ(decode(bad, bad.size()).state, BodyDecoder::State::broken) << testing::PrintToString(bad);
  }
  EXPECT_EQ(decode("5;" + std::string(300, 'x') + "\r\nhello", 50).state, BodyDecoder::State::broken);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 1000; ++i) trailers += "X: 123456\r\n";
  EXPECT_EQ(decode(trailers, 100).state, BodyDecoder::State::broken);
}

TEST(Chunks, StopAtTheLimitBeforeTheBytesCome) {
  EXPECT_EQ(decode("3e9\r\n", 10).state, BodyDecoder::State::too_large);
  EXPECT_EQ(decode("3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\n", 64).state,
            BodyDecoder::State::too_large);
}

TEST(Headers, AreFoundWithoutRegardToCase) {
  Headers headers;
  headers.add("Accept", "a");
  headers.add("ACCEPT", "b");
  EXPECT_EQ(headers.get_all("accept").size(), 2U);
  headers.set("accept", "c");
  EXPECT_EQ(headers.count("Accept"), 1U);
  EXPECT_EQ(headers.get("Accept"), "c");
  headers.remove("aCCEPT");
  EXPECT_TRUE(headers.empty());
  EXPECT_FALSE(is_header_value("a\r\nX: y"));
  EXPECT_FALSE(is_header_name("a b"));
}

}  // namespace
}  // namespace moor::http
