#include <gtest/gtest.h>

#include "support.h"

namespace moor::http::test {
namespace {

using std::chrono::milliseconds;

TEST(Server, AnswersManyRequestsOnOneConnection) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 100; ++i) {
    const auto answer = client.ask(post("/echo/a%20b?x=1&x=2", "body " + std::to_string(i)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST [echo] [a b] x=1 x=2\nbody " + std::to_string(i));
    EXPECT_NE(answer.head.find("Date: "), std::string::npos);
  }
  EXPECT_EQ(server.stats().accepted, 1U);
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hold") + post("/echo/1", "one") + get("/stream?count=2") + get("/echo/2") +
              get("/echo/3", "Connection: close\r\n"));
  server.handler().wait_event("held");
  server.handler().release();
  EXPECT_EQ(client.read_response().body, "released\n");
  EXPECT_EQ(client.read_response().body, "POST [echo] [1]\none");
  EXPECT_NE(client.read_response().head.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "7\r\nline 0\n\r\n7\r\nline 1\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "GET [echo] [2]\n");
  EXPECT_EQ(client.read_response().body, "GET [echo] [3]\n");
  EXPECT_TRUE(client.at_end());
}

TEST(Server, ReadsRequestsThatComeByteByByte) {
  TestServer server;
  RawClient client(server.port());
  for (const char c :
       "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    if (c != '\0') client.send(std::string(1, c));
  EXPECT_EQ(client.read_response().body, "POST [echo]\nabc");
}

TEST(Server, AnswersHeadWithoutABodyAndEmptyWithoutALength) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /shared HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto head = client.read_response(true);
  EXPECT_NE(head.head.find("Content-Length: 1048576"), std::string::npos);
  client.send("HEAD /watch HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_response(true).status, 200);
  const auto empty = client.ask(get("/empty"));
  EXPECT_EQ(empty.status, 204);
  EXPECT_EQ(empty.head.find("Content-Length"), std::string::npos);
  EXPECT_EQ(client.ask(get("/shared")).body.size(), 1024U * 1024);
}

TEST(Server, SpeaksOldHttpWithOneRequestPerConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /stream?count=2 HTTP/1.0\r\n\r\n");
  const auto text = client.read_to_end();
  EXPECT_EQ(text.find("chunked"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\nline 0\nline 1\n")) << text;
}

TEST(Server, AsksForABodyThatWaitsToBeAskedFor) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("abc").body, "POST [echo]\nabc");
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(Server, RefusesLargeBodiesAndHeadsAndSaysSo) {
  TestServer server;
  const std::size_t limit = ServerLimits{}.body_bytes;
  EXPECT_EQ(RawClient(server.port()).ask(post("/echo", std::string(limit, 'x'))).status, 200);
  RawClient length(server.port());
  EXPECT_EQ(length.ask(post("/echo", std::string(limit + 1, 'x'))).status, 413);
  EXPECT_TRUE(length.at_end());
  RawClient chunked(server.port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 50; ++i) chunked.send("10000\r\n" + std::string(65536, 'x') + "\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  EXPECT_EQ(RawClient(server.port()).ask(get("/echo", "X: " + std::string(70'000, 'x') + "\r\n")).status,
            431);
  EXPECT_EQ(RawClient(server.port()).ask("GET /" + std::string(70'000, 'x')).status, 431);
  EXPECT_EQ(server.stats().body_bytes, 0U);
}

TEST(Server, HoldsOnlySoManyBytesOfBodiesAtOnce) {
  ServerOptions options;
  options.limits.all_bodies_bytes = 1024 * 1024;
  TestServer server(options);
  RawClient first(server.port());
  first.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" + std::string(800'000, 'x'));
  ASSERT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.body_bytes == 800'000; }));
  const auto second = RawClient(server.port()).ask(post("/echo", std::string(400'000, 'x')));
  EXPECT_EQ(second.status, 503);
  EXPECT_NE(second.head.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(first.ask(std::string(100'000, 'x')).status, 200);
}

TEST(Server, LetsTheCallerRenderItsRefusals) {
  ServerOptions options;
  options.render_refusal = [](const Refusal& refusal) {
    return Response::text(refusal.status, "{\"code\":" + std::to_string(refusal.status) + "}",
                          "application/json");
  };
  TestServer server(options);
  const auto answer = RawClient(server.port()).ask("nonsense\r\n\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, "{\"code\":400}");
  EXPECT_NE(answer.head.find("application/json"), std::string::npos);
}

TEST(Server, NeverSendsAHeaderThatWouldSplitTheAnswer) {
  TestServer server;
  RawClient client(server.port());
  const auto answer = client.ask(get("/split"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.head.find("Injected"), std::string::npos);
}

TEST(Server, ThrottlesEachLaneByItself) {
  ServerOptions options;
  options.limits.lanes[static_cast<std::size_t>(Lane::mutating)].max_in_flight = 2;
  TestServer server(options);
  RawClient one(server.port());
  RawClient two(server.port());
  RawClient three(server.port());
  one.send(get("/hold", "X-Lane: mutating\r\n"));
  two.send(get("/hold", "X-Lane: mutating\r\n"));
  server.handler().wait_event("held", 2);
  for (int i = 0; i < 3; ++i) {
    const auto throttled = three.ask(post("/echo", "x", "X-Lane: mutating\r\n"));
    EXPECT_EQ(throttled.status, 429);
    EXPECT_NE(throttled.head.find("Retry-After: 1"), std::string::npos);
    EXPECT_EQ(three.ask(get("/echo", "X-Lane: heartbeat\r\n")).status, 200);
    EXPECT_EQ(three.ask(get("/echo")).status, 200);
  }
  server.handler().release();
  EXPECT_EQ(one.read_response().status, 200);
  EXPECT_EQ(two.read_response().status, 200);
  EXPECT_EQ(three.ask(post("/echo", "x", "X-Lane: mutating\r\n")).status, 200);
  const auto stats = server.stats();
  EXPECT_EQ(stats.throttled[static_cast<std::size_t>(Lane::mutating)], 3U);
  EXPECT_EQ(stats.in_flight[static_cast<std::size_t>(Lane::mutating)], 0U);
}

TEST(Server, TellsTheHandlerThatItsDeadlineHasPassed) {
  TestServer server(quick_options());
  RawClient client(server.port());
  const auto answer = client.ask(get("/hold"));
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(server.handler().wait_event("cancelled"), "the request took too long");
  EXPECT_EQ(client.ask(get("/echo")).status, 200);
}

TEST(Server, CutsTheConnectionOfAHandlerThatDoesNotListen) {
  TestServer server(quick_options());
  RawClient client(server.port());
  EXPECT_EQ(client.ask(get("/stubborn")).status, 0);
  EXPECT_EQ(server.stats().timed_out, 1U);
  server.handler().release();
  EXPECT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.connections == 0; }));
}

TEST(Server, CutsSlowSendersAndIdleConnections) {
  TestServer server(quick_options());
  RawClient silent(server.port());
  EXPECT_TRUE(silent.at_end());
  RawClient head(server.port());
  EXPECT_EQ(head.ask("GET / HTTP/1.1\r\nHos").status, 408);
  EXPECT_TRUE(head.at_end());
  RawClient body(server.port());
  EXPECT_EQ(body.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc").status, 408);
  RawClient idle(server.port());
  EXPECT_EQ(idle.ask(get("/echo")).status, 200);
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.connections == 0; }));
}

TEST(Server, CutsSlowReaders) {
  auto options = quick_options();
  options.limits.send_buffer_bytes = 4096;
  TestServer server(options);
  RawClient client(server.port(), 4096);
  client.send(get("/shared"));
  EXPECT_TRUE(server.wait_stats(
      [](const ServerStats& stats) { return stats.timed_out == 1 && stats.connections == 0; }));
  EXPECT_LT(client.read_to_end().size(), 1024U * 1024);
}

TEST(Server, CancelsTheRequestOfAClientThatLeaves) {
  TestServer server;
  {
    RawClient client(server.port());
    client.send(get("/hold"));
    server.handler().wait_event("held");
  }
  EXPECT_EQ(server.handler().wait_event("cancelled"), "the client has gone");
  RawClient client(server.port());
  client.send(get("/hold"));
  server.handler().wait_event("held", 2);
  client.reset();
  EXPECT_EQ(server.handler().wait_event("cancelled", 2), "the client has gone");
  EXPECT_TRUE(server.wait_stats(
      [](const ServerStats& stats) { return stats.connections == 0 && stats.went_away == 2; }));
}

TEST(Server, StillAnswersAClientThatOnlyEndedItsOwnDirection) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/echo"));
  client.end_writing();
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(client.at_end());
}

TEST(Server, TurnsConnectionsAwayAboveItsLimit) {
  ServerOptions options;
  options.limits.connections = 2;
  TestServer server(options);
  RawClient one(server.port());
  auto two = std::make_unique<RawClient>(server.port());
  EXPECT_EQ(one.ask(get("/echo")).status, 200);
  EXPECT_EQ(two->ask(get("/echo")).status, 200);
  EXPECT_TRUE(RawClient(server.port()).at_end());
  EXPECT_EQ(server.stats().turned_away, 1U);
  two.reset();
  ASSERT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.connections == 1; }));
  EXPECT_EQ(RawClient(server.port()).ask(get("/echo")).status, 200);
}

TEST(Server, ListensOnSeveralAddressesAndSaysWhich) {
  std::string directory = testing::TempDir() + "/moor-http-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/s";
  {
    TestServer server({}, {{"127.0.0.1:0", nullptr}, {"[::1]:0", nullptr}, {"unix:" + path, nullptr}});
    for (std::size_t i = 0; i < 3; ++i) {
      TestClient client(server.url(i));
      EXPECT_EQ(client.send(Request::to(Method::get, "/echo"))->body, "GET [echo]\n")
          << server.url(i).to_string();
    }
    Loop loop;
    TestHandler handler(loop);
    Server second(loop, handler);
    EXPECT_TRUE(second.listen({"unix:" + path, nullptr}).is(Errc::already_exists));
    EXPECT_TRUE(
        second.listen({"127.0.0.1:" + std::to_string(server.port()), nullptr}).is(Errc::already_exists));
    EXPECT_TRUE(second.listen({"nonsense", nullptr}).is(Errc::invalid));
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  ::rmdir(directory.c_str());
}

}  // namespace
}  // namespace moor::http::test
