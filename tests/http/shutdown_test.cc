#include <gtest/gtest.h>

#include "support.h"

namespace moor::http::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Shutdown, EndsStreamsWithTheirLastChunk) {
  TestServer server;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 1; i <= 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(get("/watch"));
    clients.back()->read_until("first\n\r\n");
    server.handler().wait_event("watching", i);
  }
  server.begin_stop(kPatience);
  for (auto& client : clients) EXPECT_EQ(client->read_to_end(), "5\r\nlast\n\r\n0\r\n\r\n");
  server.wait_stopped();
  EXPECT_EQ(server.handler().wait_event("watch ended"), "the server is stopping");
}

TEST(Shutdown, LetsRequestsFinishAndClosesIdleConnections) {
  TestServer server;
  RawClient idle(server.port());
  EXPECT_EQ(idle.ask(get("/echo")).status, 200);
  RawClient busy(server.port());
  busy.send(get("/hold"));
  server.handler().wait_event("held");
  server.begin_stop(kPatience);
  EXPECT_TRUE(idle.at_end());
  server.handler().release();
  const auto answer = busy.read_response();
  EXPECT_EQ(answer.body, "released\n");
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(busy.at_end());
  server.wait_stopped();
}

TEST(Shutdown, CancelsRequestsWhenTheGraceIsOver) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold"));
  server.handler().wait_event("held");
  server.begin_stop(milliseconds(50));
  EXPECT_EQ(client.read_response().status, 504);
  server.wait_stopped();
}

TEST(Shutdown, DoesNotWaitForClientsThatDoNotRead) {
  ServerOptions options;
  options.limits.send_buffer_bytes = 4096;
  TestServer server(options);
  RawClient flood(server.port(), 4096);
  flood.send(get("/flood"));
  flood.read_until("ffff");
  RawClient shared(server.port(), 4096);
  shared.send(get("/shared"));
  shared.read_until("ssss");
  RawClient half(server.port());
  half.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  ASSERT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.body_bytes == 3; }));
  const auto start = std::chrono::steady_clock::now();
  server.stop(milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST(Shutdown, RefusesNewConnections) {
  auto server = std::make_unique<TestServer>();
  const Url url = server->url();
  TestClient client(url);
  EXPECT_EQ(client.send(Request::to(Method::get, "/echo"))->status, 200);
  server.reset();
  EXPECT_TRUE(client.send(Request::to(Method::get, "/echo")).is(Errc::unavailable));
}

}  // namespace
}  // namespace moor::http::test
