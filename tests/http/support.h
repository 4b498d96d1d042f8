// A real server in a thread of its own and a blocking raw client, for tests over loopback.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/completion.h"
#include "http/certificates.h"
#include "http/client.h"
#include "http/server.h"

namespace moor::http::test {

inline constexpr auto kPatience =
    std::chrono::seconds(20);  // before a test gives up; never waited for in vain

// What it answers is chosen by the path:
//   /echo       method, segments, query and body        /info     who the peer is
//   /shared     a shared body of 1 MiB                   /stream?count=N  N lines, then a clean end
//   /broken     a stream that fails after one line       /watch    one line, then waits for its token
//   /flood      64 KiB chunks until an error             /hold     waits for release() or its token
//   /stubborn   waits for release() only                 /split    a header that cannot be sent
class TestHandler final : public Handler {
 public:
  explicit TestHandler(Loop& loop) : loop_(loop) {}
  Lane classify(const Request& request) const override;
  Task<Response> handle(Request request) override;

  // From the test's thread. The n-th event of that name, counted from 1; aborts the test if it never comes.
  std::string wait_event(const std::string& name, int nth = 1);
  void release();

  // From the loop's thread.
  void event(const std::string& name, std::string detail = {});
  Completion<bool> hold();

 private:
  Loop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::string>> events_;
  std::vector<Completion<bool>> held_;
};

class TestServer {
 public:
  explicit TestServer(ServerOptions options = {},
                      std::vector<ListenOptions> listen = {{"127.0.0.1:0", nullptr}});
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  const Url& url(std::size_t index = 0) const { return urls_.at(index); }
  std::uint16_t port(std::size_t index = 0) const { return urls_.at(index).port; }
  TestHandler& handler() { return *handler_; }
  ServerStats stats();
  // Waits until the server's figures satisfy the predicate.
  bool wait_stats(const std::function<bool(const ServerStats&)>& fits);
  void begin_stop(Duration grace);
  void wait_stopped();
  void stop(Duration grace = std::chrono::seconds(10)) {
    begin_stop(grace);
    wait_stopped();
  }

 private:
  void run(ServerOptions options, std::vector<ListenOptions> listen);

  Loop loop_;
  std::unique_ptr<TestHandler> handler_;
  std::unique_ptr<Server> server_;
  Completion<Duration> stop_{loop_};
  std::vector<Url> urls_;
  std::promise<void> ready_;
  std::thread thread_;
};

// Default options with every time-out short enough to be met in a test.
ServerOptions quick_options();

struct RawResponse {
  int status = 0;  // 0: the connection ended before an answer
  std::string head;
  std::string body;
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& text);  // a peer that has closed is no failure here
  RawResponse read_response(bool head_only = false);
  std::string read_until(const std::string& mark);  // up to and with the mark, or the end
  std::string read_to_end();
  bool at_end();  // waits for the peer to close
  void end_writing();
  void reset();  // close with RST
  RawResponse ask(const std::string& text) {
    send(text);
    return read_response();
  }

 private:
  bool fill();
  int socket_;
  std::string buffer_;
};

std::string get(const std::string& target, const std::string& headers = {});
std::string post(const std::string& target, const std::string& body, const std::string& headers = {});

// A loop and a client in the test's own thread.
class TestClient {
 public:
  explicit TestClient(ClientOptions options);
  explicit TestClient(const Url& url) : TestClient(ClientOptions{url, {}, {}}) {}
  Result<Response> send(Request request, Duration timeout = kPatience, CancelToken token = {});
  Result<std::unique_ptr<ResponseStream>> open(Request request, Duration timeout = kPatience);
  Result<std::optional<std::string>> next_line(ResponseStream& stream, CancelToken token = {});
  Loop& loop() { return loop_; }
  Client& client() { return *client_; }

 private:
  Loop loop_;
  std::unique_ptr<Client> client_;
};

}  // namespace moor::http::test
