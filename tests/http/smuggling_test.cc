// Forms by which one request is made to look like two (or two like one) to different readers. Each is sent
// with a second request behind it: the server must refuse with 400 and close, and nothing after the refusal
// may be answered. Sources: RFC 9112 sections 2.2, 5.1, 5.2, 6.1, 6.3, 7.1 and the published attack classes
// CL.TE, TE.CL, TE.TE, CL.0.
#include <gtest/gtest.h>

#include "support.h"

namespace moor::http::test {
namespace {

const std::string kSmuggled = "GET /echo/smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

std::string posted(const std::string& headers, const std::string& body) {
  return "POST /echo HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n" + body;
}

struct Form {
  const char* name;
  std::string bytes;
};

std::vector<Form> forms() {
  return {
      {"CL.TE", posted("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")},
      {"TE.CL", posted("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\n")},
      {"two lengths that differ", posted("Content-Length: 0\r\nContent-Length: 43\r\n", "")},
      {"two lengths that agree", posted("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")},
      {"a list of lengths", posted("Content-Length: 3, 3\r\n", "abc")},
      {"a signed length", posted("Content-Length: +3\r\n", "abc")},
      {"a hexadecimal length", posted("Content-Length: 0x3\r\n", "abc")},
      {"an overflowing length", posted("Content-Length: 18446744073709551619\r\n", "abc")},
      {"TE.TE with a second coding",
       posted("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n")},
      {"TE with a coding in front", posted("Transfer-Encoding: x, chunked\r\n", "0\r\n\r\n")},
      {"TE with something behind", posted("Transfer-Encoding: chunked, x\r\n", "0\r\n\r\n")},
      {"TE identity", posted("Transfer-Encoding: identity\r\n", "")},
      {"TE with a vertical tab", posted("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n")},
      {"TE with a space before the colon", posted("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")},
      {"CL with a tab before the colon", posted("Content-Length\t: 3\r\n", "abc")},
      {"a folded TE", posted("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n")},
      {"a folded header", posted("X: a\r\n\tTransfer-Encoding: chunked\r\n", "0\r\n\r\n")},
      {"a first header that begins with a space", "POST /echo HTTP/1.1\r\n Host: h\r\n\r\n"},
      {"bare LF in the head", "GET /echo HTTP/1.1\nHost: h\n\n"},
      {"bare LF before the blank line", "GET /echo HTTP/1.1\r\nHost: h\n\r\n"},
      {"bare CR in a value", posted("X: a\rTransfer-Encoding: chunked\r\n", "")},
      {"NUL in a value", posted(std::string("X: a\0b\r\n", 8), "")},
      {"NUL in a name", posted(std::string("X\0: a\r\n", 7), "")},
      {"chunk size with a sign", posted("Transfer-Encoding: chunked\r\n", "+3\r\nabc\r\n0\r\n\r\n")},
      {"chunk size with a prefix", posted("Transfer-Encoding: chunked\r\n", "0x3\r\nabc\r\n0\r\n\r\n")},
      {"chunk size with a space", posted("Transfer-Encoding: chunked\r\n", "3 \r\nabc\r\n0\r\n\r\n")},
      {"chunk size that overflows",
       posted("Transfer-Encoding: chunked\r\n", "10000000000000003\r\nabc\r\n0\r\n\r\n")},
      {"chunk line with a bare LF", posted("Transfer-Encoding: chunked\r\n", "3\nabc\n0\n\n")},
      {"chunk extension with a bare LF", posted("Transfer-Encoding: chunked\r\n", "3;\nabc\r\n0\r\n\r\n")},
      {"chunk data longer than its size", posted("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n")},
      {"last chunk without its blank line", posted("Transfer-Encoding: chunked\r\n", "0\r\nX\r\n\r\n")},
      {"two Hosts", "GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
      {"no Host", "GET /echo HTTP/1.1\r\n\r\n"},
      {"a target of another host", "GET http://other/echo HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"two spaces in the request line", "GET  /echo HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"an injected request line", "GET /echo HTTP/1.1 X: y HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"no version", "GET /echo\r\n\r\n"},
      {"two blank lines in front", "\r\n\r\nGET /echo HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"chunked in HTTP/1.0",
       "POST /echo HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"dot segments", get("/echo/../admin")},
      {"encoded dot segments", get("/echo/%2e%2e/admin")},
      {"an encoded slash", get("/echo/a%2fb")},
      {"an empty segment", get("//echo")},
      {"an encoded NUL", get("/echo/a%00")},
      {"a broken escape", get("/echo/%zz")},
      {"text that is not UTF-8", get("/echo/%ff%fe")},
      {"a raw byte above 127", get("/echo/\xe9")},
      {"a fragment", get("/echo#x")},
      {"TLS on the plain port", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 12)},
  };
}

TEST(Smuggling, EveryFormIsRefusedAndEndsTheConnection) {
  TestServer server;
  for (const auto& form : forms()) {
    SCOPED_TRACE(form.name);
    RawClient client(server.port());
    client.send(form.bytes + kSmuggled);
    const auto answer = client.read_response();
    EXPECT_EQ(answer.status, 400) << answer.head;
    EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
    EXPECT_EQ(client.read_to_end(), "");
  }
  EXPECT_EQ(server.stats().requests, 0U);
  EXPECT_EQ(server.stats().refused, forms().size());
}

TEST(Smuggling, AlsoWhenTheBytesComeOneByOne) {
  TestServer server;
  for (const auto& form : forms()) {
    SCOPED_TRACE(form.name);
    RawClient client(server.port());
    for (const char c : form.bytes + kSmuggled) client.send(std::string(1, c));
    EXPECT_EQ(client.read_response().status, 400);
    EXPECT_EQ(client.read_to_end(), "");
  }
  EXPECT_EQ(server.stats().requests, 0U);
}

TEST(Smuggling, AHonestNeighbourIsServed) {
  TestServer server;
  RawClient client(server.port());
  client.send("\r\n" + posted("Transfer-Encoding: chunked\r\n", "3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n") +
              kSmuggled);
  EXPECT_EQ(client.read_response().body, "POST [echo]\nabc");
  EXPECT_EQ(client.read_response().body, "GET [echo] [smuggled]\n");
}

}  // namespace
}  // namespace moor::http::test
