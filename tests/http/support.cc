#include "support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>

namespace moor::http::test {
namespace {

Task<Result<void>> count_lines(StreamWriter& writer, int count) {
  for (int i = 0; i < count; ++i) CO_TRY_VOID(co_await writer.write(fmt::format("line {}\n", i)));
  co_return Result<void>();
}

Task<Result<void>> fail_after_one(StreamWriter& writer) {
  CO_TRY_VOID(co_await writer.write(std::string("only\n")));
  co_return make_error(Errc::internal, "the source broke");
}

Task<Result<void>> watch(StreamWriter& writer, CancelToken token, TestHandler* handler, Loop* loop) {
  CO_TRY_VOID(co_await writer.write(std::string("first\n")));
  const Completion<Error> done(*loop);
  {
    const CancelCallback on_cancel(token, [done, token] { done.set(token.reason()); });
    handler->event("watching");
    const Error reason = co_await done;
    handler->event("watch ended", reason.message);
  }
  const auto last = co_await writer.write(std::string("last\n"));
  handler->event("last write", last ? "ok" : last.error().message);
  co_return Result<void>();
}

Task<Result<void>> flood(StreamWriter& writer, TestHandler* handler) {
  const SharedText chunk = std::make_shared<const std::string>(64 * 1024, 'f');
  constexpr int kMost = 16 * 1024;  // 1 GiB: no kernel buffers that much
  for (int i = 0; i < kMost; ++i) {
    const auto written = co_await writer.write(chunk);
    if (written) continue;
    handler->event("flood ended", written.error().message);
    co_return written;
  }
  co_return make_error(Errc::internal, "nobody stopped the flood");
}

Response info(const Request& request) {
  std::string text = fmt::format("tls={}\n", request.peer.tls);
  if (request.peer.certificate) {
    const auto& certificate = *request.peer.certificate;
    text += fmt::format("cn={} verified={}\n", certificate.common_name, certificate.verified);
    for (const auto& organization : certificate.organizations) text += "o=" + organization + "\n";
  }
  return Response::text(200, std::move(text));
}

Response echo(const Request& request) {
  std::string text = std::string(to_string(request.method));
  for (const auto& segment : request.target.segments) text += " [" + segment + "]";
  for (const auto& [name, value] : request.target.query) text += fmt::format(" {}={}", name, value);
  return Response::text(200, text + "\n" + request.body);
}

}  // namespace

Lane TestHandler::classify(const Request& request) const {
  const auto lane = request.headers.get("x-lane").value_or("read");
  if (lane == "watch" || request.target.path() == "/watch" || request.target.path() == "/flood")
    return Lane::watch;
  if (lane == "heartbeat") return Lane::heartbeat;
  if (lane == "mutating") return Lane::mutating;
  return Lane::read;
}

Task<Response> TestHandler::handle(Request request) {
  const std::string path(request.target.path());
  const auto stream = [](std::unique_ptr<StreamBody> body) {
    return Response::streaming(200, "text/plain", std::move(body));
  };
  if (path == "/shared") {
    Response response;
    response.shared_body = std::make_shared<const std::string>(1024 * 1024, 's');
    co_return response;
  }
  if (path == "/stream") {
    const int count = std::stoi(std::string(request.target.query.get("count").value_or("3")));
    co_return stream(make_stream([count](StreamWriter& writer) { return count_lines(writer, count); }));
  }
  if (path == "/broken")
    co_return stream(make_stream([](StreamWriter& writer) { return fail_after_one(writer); }));
  if (path == "/watch") {
    co_return stream(make_stream(
        [this, token = request.cancel](StreamWriter& writer) { return watch(writer, token, this, &loop_); }));
  }
  if (path == "/flood")
    co_return stream(make_stream([this](StreamWriter& writer) { return flood(writer, this); }));
  if (path == "/hold" || path == "/stubborn") {
    const auto held = hold();
    const bool stubborn = path == "/stubborn";
    const CancelCallback on_cancel(request.cancel, [held, stubborn] {
      if (!stubborn) held.set(false);
    });
    event("held");
    if (co_await held) co_return Response::text(200, "released\n");
    event("cancelled", request.cancel.reason().message);
    co_return Response::text(504, request.cancel.reason().message + "\n");
  }
  if (path == "/split") {
    auto response = Response::text(200, "x");
    response.headers.add("X-Split", "a\r\nInjected: yes");
    co_return response;
  }
  if (path == "/empty") {
    Response response;
    response.status = 204;
    co_return response;
  }
  co_return path == "/info" ? info(request) : echo(request);
}

Completion<bool> TestHandler::hold() {
  const std::lock_guard lock(mutex_);
  held_.emplace_back(loop_);
  return held_.back();
}

void TestHandler::release() {
  std::vector<Completion<bool>> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  for (const auto& one : held) one.set(true);
}

void TestHandler::event(const std::string& name, std::string detail) {
  const std::lock_guard lock(mutex_);
  events_[name].push_back(std::move(detail));
  changed_.notify_all();
}

std::string TestHandler::wait_event(const std::string& name, int nth) {
  std::unique_lock lock(mutex_);
  const auto count = static_cast<std::size_t>(nth);
  if (!changed_.wait_for(lock, kPatience, [&] { return events_[name].size() >= count; })) {
    ADD_FAILURE() << "the event never came: " << name;
    return {};
  }
  return events_[name][count - 1];
}

TestServer::TestServer(ServerOptions options, std::vector<ListenOptions> listen)
    : handler_(std::make_unique<TestHandler>(loop_)) {
  thread_ = std::thread([this, options = std::move(options), listen = std::move(listen)]() mutable {
    run(std::move(options), std::move(listen));
  });
  ready_.get_future().wait();
}

namespace {
Task<Result<void>> serve_until(Server* server, Completion<Duration> stop) {
  const Duration grace = co_await stop;
  co_return co_await server->stop(grace);
}
}  // namespace

void TestServer::run(ServerOptions options, std::vector<ListenOptions> listen) {
  server_ = std::make_unique<Server>(loop_, *handler_, std::move(options));
  for (auto& one : listen) {
    const auto url = server_->listen(std::move(one));
    if (!url) ADD_FAILURE() << url.error().message;
    if (url) urls_.push_back(*url);
  }
  ready_.set_value();
  const auto result = block_on(loop_, serve_until(server_.get(), stop_));
  if (!result) ADD_FAILURE() << result.error().message;
}

TestServer::~TestServer() {
  handler_->release();
  stop();
}

void TestServer::begin_stop(Duration grace) {
  stop_.set(grace);
}

void TestServer::wait_stopped() {
  if (thread_.joinable()) thread_.join();
}

ServerStats TestServer::stats() {
  std::promise<ServerStats> answer;
  loop_.post([this, &answer] { answer.set_value(server_->stats()); });
  return answer.get_future().get();
}

bool TestServer::wait_stats(const std::function<bool(const ServerStats&)>& fits) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!fits(stats())) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

ServerOptions quick_options() {
  ServerOptions options;
  const auto quick = std::chrono::milliseconds(150);
  options.limits.handshake_timeout = quick;
  options.limits.head_timeout = quick;
  options.limits.body_timeout = quick;
  options.limits.idle_timeout = quick;
  options.limits.write_timeout = quick;
  options.limits.cancel_grace = quick;
  options.limits.lanes[static_cast<std::size_t>(Lane::read)].deadline = quick;
  return options;
}

RawClient::RawClient(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  timeval patience{};
  patience.tv_sec = std::chrono::seconds(kPatience).count();
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    ADD_FAILURE() << "connect: " << errno;
}

RawClient::~RawClient() {
  if (socket_ >= 0) ::close(socket_);
}

void RawClient::send(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

bool RawClient::fill() {
  std::array<char, 16384> bytes;
  const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    ADD_FAILURE() << "the server neither answers nor closes";
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

std::string RawClient::read_until(const std::string& mark) {
  std::size_t end = 0;
  while ((end = buffer_.find(mark)) == std::string::npos) {
    if (!fill()) return std::exchange(buffer_, {});
  }
  std::string text = buffer_.substr(0, end + mark.size());
  buffer_.erase(0, end + mark.size());
  return text;
}

RawResponse RawClient::read_response(bool head_only) {
  RawResponse response;
  response.head = read_until("\r\n\r\n");
  if (!response.head.starts_with("HTTP/1.1 ")) return response;
  response.status = std::stoi(response.head.substr(9, 3));
  const auto at = response.head.find("Content-Length: ");
  if (at == std::string::npos || head_only) return response;
  const std::size_t length = std::stoul(response.head.substr(at + 16));
  while (buffer_.size() < length && fill()) {
  }
  response.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return response;
}

std::string RawClient::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::at_end() {
  return buffer_.empty() && !fill();
}

void RawClient::end_writing() {
  ::shutdown(socket_, SHUT_WR);
}

void RawClient::reset() {
  const linger hard{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  ::close(std::exchange(socket_, -1));
}

std::string get(const std::string& target, const std::string& headers) {
  return "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
}

std::string post(const std::string& target, const std::string& body, const std::string& headers) {
  return "POST " + target + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + headers + "\r\n" + body;
}

TestClient::TestClient(ClientOptions options) {
  auto made = Client::make(loop_, std::move(options));
  if (!made) ADD_FAILURE() << made.error().message;
  client_ = *std::move(made);
}

Result<Response> TestClient::send(Request request, Duration timeout, CancelToken token) {
  return block_on(loop_, client_->send(std::move(request), token, loop_.clock().now() + timeout));
}

Result<std::unique_ptr<ResponseStream>> TestClient::open(Request request, Duration timeout) {
  return block_on(loop_, client_->open(std::move(request), {}, loop_.clock().now() + timeout));
}

Result<std::optional<std::string>> TestClient::next_line(ResponseStream& stream, CancelToken token) {
  return block_on(loop_, stream.next_line(token));
}

}  // namespace moor::http::test
