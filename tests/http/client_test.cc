#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/task_group.h"
#include "support.h"

namespace moor::http::test {
namespace {

using std::chrono::milliseconds;

// A server that does exactly what a test needs, on one accepted connection after the other.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::function<void(int)>> script)
      : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_, 8), 0);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = {Url::Scheme::http, "127.0.0.1", ntohs(address.sin_port), ""};
    thread_ = std::thread([this, script = std::move(script)] {
      for (const auto& step : script) {
        const int socket = ::accept(listening_, nullptr, nullptr);
        if (socket < 0) return;
        step(socket);
        ::close(socket);
      }
    });
  }
  ~ScriptedServer() {
    ::shutdown(listening_, SHUT_RDWR);
    thread_.join();
    ::close(listening_);
  }
  const Url& url() const { return url_; }

 private:
  int listening_;
  Url url_;
  std::thread thread_;
};

void read_request(int socket) {
  std::string text;
  char buffer[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = ::recv(socket, buffer, sizeof(buffer), 0);
    if (count <= 0) return;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

void answer(int socket, const std::string& text) {
  read_request(socket);
  ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST(Client, KeepsConnectionsAndDropsOldOnes) {
  TestServer server;
  ClientOptions options{server.url(), {}, {}};
  options.idle_timeout = milliseconds(30);
  TestClient client(options);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(client.send(Request::to(Method::get, "/echo?i=1"))->body, "GET [echo] i=1\n");
  EXPECT_EQ(server.stats().accepted, 1U);
  EXPECT_EQ(client.client().idle_connections(), 1U);
  while (client.client().idle_connections() > 0) client.loop().run_one();
  EXPECT_EQ(client.client().connections(), 0U);
}

Task<Result<void>> ask_into(Client* client, std::vector<int>* statuses, TimePoint deadline) {
  CO_TRY(auto response, co_await client->send(Request::to(Method::post, "/echo", "x"), {}, deadline));
  statuses->push_back(response.status);
  co_return Result<void>();
}

Task<Result<void>> ask_many(Loop* loop, Client* client, std::vector<int>* statuses) {
  TaskGroup group(*loop);
  for (int i = 0; i < 200; ++i) group.spawn(ask_into(client, statuses, loop->clock().now() + kPatience));
  co_return co_await group.join();
}

TEST(Client, SendsManyRequestsAtOnce) {
  TestServer server;
  TestClient client(server.url());
  std::vector<int> statuses;
  ASSERT_TRUE(block_on(client.loop(), ask_many(&client.loop(), &client.client(), &statuses)).ok());
  EXPECT_EQ(statuses, std::vector<int>(200, 200));
  EXPECT_LE(client.client().idle_connections(), 32U);
}

TEST(Client, HasALimitOfConnections) {
  TestServer server;
  ClientOptions options{server.url(), {}, {}};
  options.max_connections = 1;
  TestClient client(options);
  auto stream = client.open(Request::to(Method::get, "/watch")).value();
  EXPECT_TRUE(client.send(Request::to(Method::get, "/echo")).is(Errc::exhausted));
  stream.reset();
  EXPECT_TRUE(client.send(Request::to(Method::get, "/echo")).ok());
}

TEST(Client, SendsItsTokenAndPrefix) {
  std::string seen;
  ScriptedServer server({[&seen](int socket) {
    char buffer[4096];
    const ssize_t count = ::recv(socket, buffer, sizeof(buffer), 0);
    seen.assign(buffer, static_cast<std::size_t>(count));
    ::send(socket, kOk.data(), kOk.size(), MSG_NOSIGNAL);
  }});
  ClientOptions options{server.url(), {}, "secret"};
  options.endpoint.path = "/base";
  TestClient client(options);
  EXPECT_EQ(client.send(Request::to(Method::put, "/x?y=z", "{}", "application/json"))->body, "ok");
  EXPECT_TRUE(seen.starts_with("PUT /base/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:")) << seen;
  EXPECT_NE(seen.find("Authorization: Bearer secret\r\n"), std::string::npos);
  EXPECT_NE(seen.find("Content-Length: 2\r\n"), std::string::npos);
  EXPECT_TRUE(seen.ends_with("\r\n\r\n{}"));
}

TEST(Client, RefusesToSendWhatWouldBecomeASecondRequest) {
  TestClient client(Url{Url::Scheme::http, "127.0.0.1", 1, ""});
  EXPECT_TRUE(client.send(Request::to(Method::get, "/a HTTP/1.1\r\nX: y")).is(Errc::invalid));
  EXPECT_TRUE(client.send(Request::to(Method::get, "/a b")).is(Errc::invalid));
  auto request = Request::to(Method::get, "/a");
  request.headers.add("X", "a\r\nY: z");
  EXPECT_TRUE(client.send(std::move(request)).is(Errc::invalid));
}

TEST(Client, SaysUnavailableWhenNothingCanHaveHappened) {
  std::uint16_t closed_port = 0;
  {
    ScriptedServer gone({});
    closed_port = gone.url().port;
  }
  TestClient client(Url{Url::Scheme::http, "127.0.0.1", closed_port, ""});
  EXPECT_TRUE(client.send(Request::to(Method::post, "/x", "y")).is(Errc::unavailable));
  TestClient missing(Url{Url::Scheme::unix, "/nonexistent/socket", 0, ""});
  EXPECT_TRUE(missing.send(Request::to(Method::get, "/")).is(Errc::unavailable));
  TestClient unknown(Url{Url::Scheme::http, "no-such-host.invalid", 80, ""});
  EXPECT_TRUE(unknown.send(Request::to(Method::get, "/")).is(Errc::unavailable));
}

TEST(Client, SaysTimedOutWhenItMayHaveHappened) {
  TestServer server;
  TestClient client(server.url());
  const auto late = client.send(Request::to(Method::post, "/hold"), milliseconds(50));
  EXPECT_TRUE(late.is(Errc::timed_out));
  EXPECT_EQ(server.handler().wait_event("cancelled"), "the client has gone");

  ScriptedServer dies({[](int socket) { read_request(socket); }});
  TestClient other(dies.url());
  EXPECT_TRUE(other.send(Request::to(Method::post, "/x", "y")).is(Errc::timed_out));
  ScriptedServer half(
      {[](int socket) { answer(socket, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"); }});
  TestClient third(half.url());
  EXPECT_TRUE(third.send(Request::to(Method::get, "/x")).is(Errc::timed_out));
}

TEST(Client, StopsWhenItsCallerDoes) {
  TestServer server;
  TestClient client(server.url());
  CancelSource source;
  client.loop().start_timer(client.loop().clock().now() + milliseconds(20), [&source] { source.cancel(); });
  EXPECT_TRUE(client.send(Request::to(Method::get, "/hold"), kPatience, source.token()).is(Errc::cancelled));
  EXPECT_TRUE(client.send(Request::to(Method::get, "/echo"), kPatience, source.token()).is(Errc::cancelled));
  EXPECT_EQ(client.client().connections(), 0U);
}

TEST(Client, ReplacesADeadKeptConnectionOnceForIdempotentMethods) {
  for (const Method method : {Method::get, Method::delete_, Method::put}) {
    ScriptedServer server({[](int socket) {
                             answer(socket, kOk);
                             read_request(socket);  // then dies without a word
                           },
                           [](int socket) { answer(socket, kOk); }});
    TestClient client(server.url());
    EXPECT_EQ(client.send(Request::to(Method::get, "/1"))->body, "ok");
    EXPECT_EQ(client.send(Request::to(method, "/2"))->body, "ok") << to_string(method);
  }
}

TEST(Client, DoesNotRepeatWhatMayHaveHappened) {
  ScriptedServer server({[](int socket) {
                           answer(socket, kOk);
                           read_request(socket);
                         },
                         [](int socket) { answer(socket, kOk); }});
  TestClient client(server.url());
  EXPECT_EQ(client.send(Request::to(Method::get, "/1"))->body, "ok");
  EXPECT_TRUE(client.send(Request::to(Method::post, "/2", "x")).is(Errc::timed_out));
  EXPECT_EQ(client.send(Request::to(Method::get, "/3"))->body, "ok");
}

TEST(Client, DoesNotUseAKeptConnectionThatTheServerHasClosed) {
  // A POST must not be repeated once sent, so it succeeds only if the dead connection is not tried at all.
  auto options = quick_options();
  TestServer server(options);
  TestClient client(server.url());
  EXPECT_EQ(client.send(Request::to(Method::post, "/echo", "x"))->status, 200);
  ASSERT_TRUE(server.wait_stats([](const ServerStats& stats) { return stats.connections == 0; }));
  EXPECT_EQ(client.send(Request::to(Method::post, "/echo", "x"))->status, 200);
  EXPECT_EQ(server.stats().accepted, 2U);
}

TEST(Client, UnderstandsAnswersOfOtherServers) {
  ScriptedServer server({
      [](int socket) { answer(socket, "HTTP/1.1 200 OK\r\n\r\nuntil close"); },
      [](int socket) { answer(socket, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"); },
      [](int socket) {
        answer(socket,
               "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 \r\nTransfer-Encoding: "
               "chunked\r\nConnection: close\r\n\r\n2;x\r\nab\r\n0\r\n\r\n");
      },
      [](int socket) { answer(socket, "SSH-2.0-OpenSSH\r\n\r\n"); },
      [](int socket) {
        answer(socket, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
      },
      [](int socket) { answer(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"); },
      [](int socket) { answer(socket, "HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x')); },
  });
  TestClient client(server.url());
  const auto ask = [&client] { return client.send(Request::to(Method::get, "/")); };
  EXPECT_EQ(ask()->body, "until close");
  EXPECT_EQ(ask()->body, "old");
  EXPECT_EQ(ask()->body, "ab");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ask().is(Errc::corrupt)) << i;
}

TEST(Client, LimitsTheSizeOfAnswersAndLines) {
  TestServer server;
  ClientOptions options{server.url(), {}, {}};
  options.max_body_bytes = 1000;
  options.max_line_bytes = 1000;
  TestClient client(options);
  EXPECT_TRUE(client.send(Request::to(Method::get, "/shared")).is(Errc::exhausted));
  auto stream = client.open(Request::to(Method::get, "/shared")).value();
  EXPECT_TRUE(client.next_line(*stream).is(Errc::exhausted));
}

TEST(Client, GetsTheRefusalOfABodyThatIsTooLarge) {
  TestServer server;
  TestClient client(server.url());
  const auto answer = client.send(Request::to(Method::post, "/echo", std::string(4'000'000, 'x')));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 413);
}

}  // namespace
}  // namespace moor::http::test
