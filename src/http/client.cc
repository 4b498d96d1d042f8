#include "http/client.h"

#include <unistd.h>

#include <algorithm>

#include "http/client_inside.h"

namespace moor::http {
namespace {

// What an error means for the caller depends on whether the server can have seen the request.
Error explain(Error error, std::size_t bytes_sent, const CancelToken& token) {
  if (token.is_cancelled()) {
    error = token.reason();
    if (error.code != Errc::timed_out) return error;
  }
  const bool about_sending = error.code == Errc::unavailable || error.code == Errc::timed_out;
  if (!about_sending) return error;
  if (bytes_sent == 0) return make_error(Errc::unavailable, std::move(error.message));
  return make_error(Errc::timed_out,
                    error.message + " (the request was sent: it may or may not have happened)");
}

class Stream final : public ResponseStream {
 public:
  Stream(std::shared_ptr<Client::Inside> client, Client::Inside::Opened opened, std::uint64_t max_bytes)
      : client_(std::move(client)),
        connection_(std::move(opened.connection)),
        head_(std::move(opened.head)),
        decoder_(head_.framing, head_.content_length, max_bytes) {
    release_if_done();
  }

  int status() const override { return head_.status; }
  const Headers& headers() const override { return head_.headers; }
  ResponseHead take_head() { return std::move(head_); }

  Task<Result<std::optional<std::string>>> next_chunk(CancelToken token) override {
    if (begin_ < lines_.size()) co_return std::optional<std::string>(take_rest());
    std::string chunk;
    CO_TRY_VOID(co_await read(chunk, token));
    if (chunk.empty()) co_return std::optional<std::string>();
    co_return std::optional<std::string>(std::move(chunk));
  }

  Task<Result<std::optional<std::string>>> next_line(CancelToken token) override {
    for (;;) {  // bounded by the longest line allowed
      const std::size_t end = lines_.find('\n', scanned_);
      if (end != std::string::npos) {
        std::string line = lines_.substr(begin_, end - begin_);
        begin_ = scanned_ = end + 1;
        if (line.ends_with('\r')) line.pop_back();
        co_return std::optional<std::string>(std::move(line));
      }
      // What was handed out goes when more is needed, not line by line: a burst brings hundreds at once.
      lines_.erase(0, begin_);
      begin_ = 0;
      scanned_ = lines_.size();
      if (lines_.size() > client_->options().max_line_bytes)
        co_return make_error(Errc::exhausted, "a line of the stream is longer than allowed");
      const std::size_t before = lines_.size();
      CO_TRY_VOID(co_await read(lines_, token));
      if (lines_.size() > before) continue;
      if (lines_.empty()) co_return std::optional<std::string>();
      co_return std::optional<std::string>(take_rest());
    }
  }

  // Appends the next bytes; nothing more: the end.
  Task<Result<void>> read(std::string& out, CancelToken token) {
    if (failed_) co_return *failed_;
    if (connection_ == nullptr) co_return Result<void>();
    Result<void> result;
    {
      const CancelCallback on_cancel(token, [transport = connection_->share()] { transport->close(); });
      result = co_await connection_->read_body(decoder_, out);
    }
    if (!result) {
      failed_ = token.is_cancelled() ? token.reason() : result.error();
      connection_.reset();
      co_return *failed_;
    }
    release_if_done();
    co_return Result<void>();
  }

 private:
  std::string take_rest() {
    std::string rest = lines_.substr(begin_);
    lines_.clear();
    begin_ = scanned_ = 0;
    return rest;
  }

  void release_if_done() {
    if (!decoder_.done() || connection_ == nullptr) return;
    if (head_.keep_alive) client_->give_back(std::move(connection_));
    connection_.reset();
  }

  std::shared_ptr<Client::Inside> client_;
  std::unique_ptr<ClientConnection> connection_;  // none once the body has ended
  ResponseHead head_;
  BodyDecoder decoder_;
  std::string lines_;
  std::size_t begin_ = 0;    // of what was not handed out yet
  std::size_t scanned_ = 0;  // no line ends before this
  std::optional<Error> failed_;
};

}  // namespace

Client::Inside::~Inside() {
  close_all();
}

void Client::Inside::close_all() {
  closed_ = true;
  idle_.clear();
  if (timer_runs_) loop_.stop_timer(timer_);
  timer_runs_ = false;
}

Result<std::string> Client::Inside::render_head(const Request& request) const {
  const std::string target = options_.endpoint.path + request.target.raw;
  // Strict, so that no caller's text can become a second request.
  if (auto parsed = Target::parse(target); !parsed) return std::move(parsed).error();
  std::string out;
  out.reserve(256);
  out.append(to_string(request.method)).append(" ").append(target).append(" HTTP/1.1\r\nHost: ");
  out.append(options_.endpoint.authority()).append("\r\n");
  for (const auto& [name, value] : request.headers) {
    if (equal_ignoring_case(name, "host") || equal_ignoring_case(name, "content-length") ||
        equal_ignoring_case(name, "transfer-encoding") || equal_ignoring_case(name, "connection"))
      continue;
    if (!is_header_name(name) || !is_header_value(value))
      return make_error(Errc::invalid, "a header cannot be sent: " + name);
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (!options_.bearer_token.empty() && !request.headers.has("authorization"))
    out.append("Authorization: Bearer ").append(options_.bearer_token).append("\r\n");
  const bool expects_body = !is_idempotent(request.method) || request.method == Method::put;
  if (expects_body || !request.body.empty())
    out.append("Content-Length: ").append(std::to_string(request.body.size())).append("\r\n");
  out += "\r\n";
  return out;
}

std::unique_ptr<ClientConnection> Client::Inside::take_idle() {
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    if (!connection->is_quiet()) continue;
    connection->reused = true;
    connection->answered = false;
    return connection;
  }
  return nullptr;
}

void Client::Inside::give_back(std::unique_ptr<ClientConnection> connection) {
  if (closed_ || idle_.size() >= options_.max_idle_connections) return;
  connection->idle_since = loop_.clock().now();
  idle_.push_back(std::move(connection));
  if (timer_runs_) return;
  timer_runs_ = true;
  timer_ = loop_.start_timer(loop_.clock().now() + options_.idle_timeout, [this] { drop_old(); });
}

void Client::Inside::drop_old() {
  timer_runs_ = false;
  const TimePoint now = loop_.clock().now();
  while (!idle_.empty() && idle_.front()->idle_since + options_.idle_timeout <= now) idle_.pop_front();
  if (idle_.empty()) return;
  timer_runs_ = true;
  timer_ = loop_.start_timer(idle_.front()->idle_since + options_.idle_timeout, [this] { drop_old(); });
}

Task<Result<std::vector<SocketAddress>>> Client::Inside::addresses() {
  const Url& url = options_.endpoint;
  std::vector<SocketAddress> found;
  if (url.scheme == Url::Scheme::unix) {
    CO_TRY(auto address, unix_address(url.host));
    found.push_back(address);
    co_return found;
  }
  if (const auto numeric = numeric_address(url.host, url.port)) {
    found.push_back(*numeric);
    co_return found;
  }
  if (resolver_ == nullptr) resolver_ = std::make_unique<Pool>(loop_, 1);
  // Named before it is awaited: g++ 12 destroys a capturing lambda (or an aggregate) that is made inside a
  // co_await expression twice.
  auto look_up = [host = url.host, port = url.port] { return resolve(host, port); };
  co_return co_await resolver_->run(std::move(look_up));
}

Task<Result<std::unique_ptr<ClientConnection>>> Client::Inside::connect(CancelToken token) {
  if (shared_.connections >= options_.max_connections && !idle_.empty()) idle_.pop_front();
  if (shared_.connections >= options_.max_connections)
    co_return make_error(Errc::exhausted, "too many connections to " + options_.endpoint.to_string());
  CancelSource limit(token);
  limit.set_deadline(loop_, loop_.clock().now() + options_.connect_timeout, "connect");
  CO_TRY(const auto found, co_await addresses());
  Error last = make_error(Errc::unavailable, "no address");
  for (const auto& address : found) {
    CO_TRY_VOID(limit.token().check());
    auto connection = co_await connect_to(address, limit.token());
    if (connection) co_return connection;
    last = limit.token().is_cancelled() ? limit.token().reason() : connection.error();
  }
  // The caller's own end is told apart by the caller; the connect time-out means that nothing was sent.
  if (!token.is_cancelled() && last.code == Errc::timed_out) last.code = Errc::unavailable;
  co_return std::move(last).with_context(options_.endpoint.to_string());
}

Task<Result<std::unique_ptr<ClientConnection>>> Client::Inside::connect_to(SocketAddress address,
                                                                           CancelToken token) {
  CO_TRY(const int socket, start_connect(address));
  CO_TRY(auto transport, Transport::adopt(loop_, socket));
  const CancelCallback on_cancel(token, [transport] { transport->close(); });
  co_await transport->writable();
  if (transport->is_closed()) co_return make_error(Errc::unavailable, "connect: given up");
  CO_TRY_VOID(connect_result(socket));
  tune_connection(socket, 0);
  if (tls_ != nullptr) {
    CO_TRY(auto session, TlsSession::connect(tls_, socket, options_.endpoint.host));
    transport->start_tls(std::move(session));
    CO_TRY_VOID(co_await transport->handshake());
  }
  co_return std::make_unique<ClientConnection>(std::move(transport), shared_);
}

Task<Client::Inside::Attempt> Client::Inside::attempt(const Request& request, const std::string& head,
                                                      bool fresh, CancelToken token) {
  auto connection = fresh ? nullptr : take_idle();
  if (connection == nullptr) {
    auto made = co_await connect(token);
    if (!made) co_return Attempt{explain(made.error(), 0, token)};
    connection = *std::move(made);
  }
  const CancelCallback on_cancel(token, [transport = connection->share()] { transport->close(); });
  std::vector<Slice> slices{{head.data(), head.size()}, {request.body.data(), request.body.size()}};
  const auto sent = co_await connection->send(std::move(slices));
  Result<ResponseHead> answer = sent.result ? Result<ResponseHead>(ResponseHead{}) : sent.result.error();
  // A server may refuse before it has the whole body (413) and stop reading: its answer is worth having.
  if (sent.result || sent.bytes > 0) answer = co_await connection->read_head(request.method, options_.head);
  if (!answer) {
    const bool again = connection->reused && !connection->answered && !token.is_cancelled() &&
                       (is_idempotent(request.method) || sent.bytes == 0);
    co_return Attempt{explain(answer.error(), sent.bytes, token), again};
  }
  if (!sent.result) answer->keep_alive = false;
  co_return Attempt{Opened{std::move(connection), *std::move(answer)}};
}

Task<Result<Client::Inside::Opened>> Client::Inside::exchange(Request request, CancelToken token) {
  CO_TRY(const auto head, render_head(request));
  CO_TRY_VOID(token.check());
  auto first = co_await attempt(request, head, false, token);
  if (!first.may_retry) co_return std::move(first.result);
  auto second = co_await attempt(request, head, true, token);
  co_return std::move(second.result);
}

Result<std::unique_ptr<Client>> Client::make(Loop& loop, ClientOptions options) {
  std::shared_ptr<const TlsContext> tls;
  if (options.endpoint.scheme == Url::Scheme::https) {
    TRY(tls, TlsContext::client(options.tls));
  }
  if (!is_header_value(options.bearer_token))
    return make_error(Errc::invalid, "the bearer token has a character that cannot be sent");
  return std::unique_ptr<Client>(
      new Client(std::make_shared<Inside>(loop, std::move(options), std::move(tls))));
}

Client::~Client() {
  inside_->close_all();
}

const Url& Client::endpoint() const {
  return inside_->options().endpoint;
}

std::size_t Client::connections() const {
  return inside_->connections();
}

std::size_t Client::idle_connections() const {
  return inside_->idle();
}

Task<Result<std::unique_ptr<ResponseStream>>> Client::open(Request request, CancelToken token,
                                                           TimePoint deadline) {
  const auto inside = inside_;
  CancelSource limit(token);
  if (deadline != TimePoint::never()) limit.set_deadline(inside->loop(), deadline, "request");
  CO_TRY(auto opened, co_await inside->exchange(std::move(request), limit.token()));
  co_return std::unique_ptr<ResponseStream>(std::make_unique<Stream>(inside, std::move(opened), UINT64_MAX));
}

Task<Result<Response>> Client::send(Request request, CancelToken token, TimePoint deadline) {
  const auto inside = inside_;
  CancelSource limit(token);
  if (deadline != TimePoint::never()) limit.set_deadline(inside->loop(), deadline, "request");
  CO_TRY(auto opened, co_await inside->exchange(std::move(request), limit.token()));
  Stream stream(inside, std::move(opened), inside->options().max_body_bytes);
  Response response;
  std::size_t before = 0;
  do {  // bounded by max_body_bytes
    before = response.body.size();
    CO_TRY_VOID(co_await stream.read(response.body, limit.token()));
  } while (response.body.size() > before);
  auto head = stream.take_head();
  response.status = head.status;
  response.headers = std::move(head.headers);
  co_return std::move(response);
}

}  // namespace moor::http
