#include <gtest/gtest.h>

#include "support.h"

namespace moor::http::test {
namespace {

TEST(Stream, EndsCleanlyAndKeepsTheConnection) {
  TestServer server;
  TestClient client(server.url());
  for (int round = 0; round < 3; ++round) {
    auto stream = client.open(Request::to(Method::get, "/stream?count=100")).value();
    EXPECT_EQ(stream->status(), 200);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client.next_line(*stream).value(), "line " + std::to_string(i));
    EXPECT_EQ(client.next_line(*stream).value(), std::nullopt);
    EXPECT_EQ(client.next_line(*stream).value(), std::nullopt);
  }
  EXPECT_EQ(server.stats().accepted, 1U);
}

TEST(Stream, ShowsThatItIsIncompleteWhenItsSourceBreaks) {
  TestServer server;
  TestClient client(server.url());
  auto stream = client.open(Request::to(Method::get, "/broken")).value();
  EXPECT_EQ(client.next_line(*stream).value(), "only");
  EXPECT_TRUE(client.next_line(*stream).is(Errc::timed_out));
  EXPECT_TRUE(client.next_line(*stream).is(Errc::timed_out));
}

TEST(Stream, NoticesThatItsIdleClientHasGone) {
  TestServer server;
  for (int i = 1; i <= 2; ++i) {
    RawClient client(server.port());
    client.send(get("/watch"));
    client.read_until("first");
    server.handler().wait_event("watching", i);
    if (i == 2) client.reset();
    if (i == 1) client.end_writing();
    EXPECT_EQ(server.handler().wait_event("watch ended", i), "the client has gone");
    EXPECT_EQ(server.handler().wait_event("last write", i), "the client has gone");
  }
  EXPECT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.connections == 0; }));
}

TEST(Stream, CutsAReaderThatIsTooSlow) {
  auto options = quick_options();
  options.limits.send_buffer_bytes = 65536;
  TestServer server(options);
  RawClient client(server.port(), 4096);
  client.send(get("/flood"));
  EXPECT_EQ(server.handler().wait_event("flood ended"), "the client reads too slowly");
  EXPECT_EQ(server.stats().timed_out, 1U);
}

TEST(Stream, StopsItsWriterWhenABusyClientLeaves) {
  TestServer server;
  {
    RawClient client(server.port(), 4096);
    client.send(get("/flood"));
    client.read_until("ffff");
  }
  EXPECT_EQ(server.handler().wait_event("flood ended"), "the client has gone");
}

TEST(Stream, DoesNotBufferWhatAStreamingClientSends) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/watch"));
  client.read_until("first");
  for (int i = 0; i < 64; ++i) client.send(std::string(65536, 'x'));
  EXPECT_EQ(server.handler().wait_event("watch ended"), "the client has gone");
}

TEST(Stream, IsCancelledByItsReader) {
  TestServer server;
  TestClient client(server.url());
  auto stream = client.open(Request::to(Method::get, "/watch")).value();
  EXPECT_EQ(client.next_line(*stream).value(), "first");
  CancelSource source;
  source.set_deadline(client.loop(), client.loop().clock().now() + std::chrono::milliseconds(20), "test");
  EXPECT_TRUE(client.next_line(*stream, source.token()).is(Errc::timed_out));
  EXPECT_EQ(server.handler().wait_event("watch ended"), "the client has gone");
  stream.reset();
  EXPECT_EQ(client.client().connections(), 0U);
}

TEST(Stream, MayBeDroppedHalfReadAndOutliveItsClient) {
  TestServer server;
  auto client = std::make_unique<TestClient>(server.url());
  auto stream = client->open(Request::to(Method::get, "/watch")).value();
  stream.reset();
  EXPECT_EQ(server.handler().wait_event("watch ended"), "the client has gone");
  EXPECT_EQ(client->send(Request::to(Method::get, "/echo"))->status, 200);
}

}  // namespace
}  // namespace moor::http::test
