#include "http/connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"
#include "base/yield.h"

namespace moor::http {
namespace {

constexpr std::size_t kLingerBytes = 4 * 1024 * 1024;
constexpr Duration kLinger = std::chrono::seconds(2);

std::size_t total(const std::vector<Slice>& slices, std::size_t first) {
  std::size_t bytes = 0;
  for (std::size_t i = first; i < slices.size(); ++i) bytes += slices[i].size;
  return bytes;
}

Slice slice_of(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

Connection::Exchange::~Exchange() {
  if (lane) --stats.in_flight[static_cast<std::size_t>(*lane)];
  stats.body_bytes -= charged;
}

Connection::Connection(Server::Inside& server, std::shared_ptr<Transport> transport, std::string peer_address)
    : server_(server), transport_(std::move(transport)) {
  peer_.address = std::move(peer_address);
  place_ = server_.connections.insert(server_.connections.end(), this);
  ++server_.stats.connections;
  enter(Phase::idle, server_.options.limits.head_timeout);
}

Connection::~Connection() {
  transport_->monitor(nullptr);
  transport_->close();
  server_.connections.erase(place_);
  --server_.stats.connections;
}

Task<Result<void>> Connection::serve(std::unique_ptr<Connection> connection) {
  co_await connection->run();
  // One client's trouble is not the server's: the group must not end for it.
  co_return Result<void>();
}

void Connection::enter(Phase phase, Duration timeout) {
  phase_ = phase;
  deadline_ = timeout == Duration::zero() ? TimePoint::never() : server_.loop.clock().now() + timeout;
}

Task<bool> Connection::shake_hands() {
  enter(Phase::handshake, server_.options.limits.handshake_timeout);
  const auto shaken = co_await transport_->handshake();
  if (!shaken) {
    ++server_.stats.handshakes_failed;
    log_info("TLS handshake failed", {{"peer", peer_.address}, {"error", shaken.error()}});
    // With TLS 1.3 the client may have sent its request by now: only if we read it does it get our alert.
    transport_->drop_tls();
    co_await linger();
    co_return false;
  }
  peer_.tls = true;
  if (transport_->tls()->is_resumed()) ++server_.stats.handshakes_resumed;
  peer_.certificate = transport_->tls()->peer_certificate();
  enter(Phase::idle, server_.options.limits.head_timeout);
  co_return true;
}

Task<bool> Connection::run() {
  if (transport_->tls() != nullptr && !co_await shake_hands()) co_return false;
  Next next = Next::go_on;
  while (next == Next::go_on) {  // each round is bounded by time-outs; the client or the server ends it
    Exchange exchange(server_.stats);
    if (!co_await read_head(exchange)) co_return true;
    next = exchange.refusal ? co_await refuse(exchange) : co_await answer(exchange);
    cancel_.reset();
  }
  if (next == Next::linger || !input_.empty()) {
    co_await linger();
  } else {
    transport_->end_writing();
  }
  co_return true;
}

Transport::Outcome Connection::fill() {
  auto& scratch = server_.scratch;
  const auto outcome = transport_->read_some(scratch.data(), scratch.size());
  if (outcome.status == Transport::Status::done) input_.append(scratch.data(), outcome.bytes);
  return outcome;
}

Task<bool> Connection::read_head(Exchange& exchange) {
  // After an answer the next request has rarely come yet: waiting first saves a read that finds nothing.
  bool wait_first = false;
  if (input_.empty()) {
    std::string().swap(input_);
    if (server_.stopping || peer_gone_) co_return false;
    if (phase_ != Phase::idle) {
      enter(Phase::idle, server_.options.limits.idle_timeout);
      wait_first = true;
    }
  } else {
    enter(Phase::head, server_.options.limits.head_timeout);
  }
  scanned_ = 0;
  for (;;) {  // bounded by the size of a head and by its time-out
    if (take_head(exchange)) co_return true;
    Transport::Outcome outcome{Transport::Status::again};
    if (!wait_first) outcome = fill();
    wait_first = false;
    if (outcome.status == Transport::Status::done) {
      if (phase_ == Phase::idle) enter(Phase::head, server_.options.limits.head_timeout);
      continue;
    }
    if (outcome.status != Transport::Status::again) co_return false;
    co_await transport_->ready(outcome.wait_for);
    if (timed_out_) {
      exchange.refusal = Refusal{408, "the request's head did not come in time"};
      co_return true;
    }
  }
}

bool Connection::take_head(Exchange& exchange) {
  const auto& limits = server_.options.limits.head;
  // RFC 9112 2.2: one blank line before a request is forgiven; some clients send it after a body.
  if (!exchange.skipped_blank && input_.starts_with("\r\n")) {
    input_.erase(0, 2);
    scanned_ = 0;
    exchange.skipped_blank = true;
  }
  const auto refuse_with = [&exchange](int status, const char* message) {
    exchange.refusal = Refusal{status, message};
    return true;
  };
  if (input_ == "\r" || input_.empty()) return false;
  const HeadScan scan = scan_head(input_, scanned_);
  if (scan.state == HeadScan::State::broken) return refuse_with(400, "a line does not end in CR LF");
  const bool complete = scan.state == HeadScan::State::complete;
  if ((complete ? scan.size : input_.size()) > limits.bytes)
    return refuse_with(431, "the request's head is too large");
  if (!complete) return false;
  auto head = parse_request_head(std::string_view(input_).substr(0, scan.size), limits);
  if (!head) {
    exchange.refusal = std::move(head).error();
    return true;
  }
  input_.erase(0, scan.size);
  scanned_ = 0;
  exchange.head = *std::move(head);
  return true;
}

// True when the body is done or refused.
bool Connection::take_body(Exchange& exchange, BodyDecoder& decoder, std::string_view data,
                           std::size_t& used) {
  auto& body = exchange.request.body;
  const auto step = decoder.feed(data, body);
  used = step.consumed;
  server_.stats.body_bytes += body.size() - exchange.charged;
  exchange.charged = body.size();
  const auto& limits = server_.options.limits;
  if (step.state == BodyDecoder::State::broken) {
    exchange.refusal = Refusal{400, "the body's chunks are malformed"};
  } else if (step.state == BodyDecoder::State::too_large) {
    exchange.refusal = Refusal{413, fmt::format("the body is larger than {} bytes", limits.body_bytes)};
  } else if (server_.stats.body_bytes > limits.all_bodies_bytes) {
    exchange.refusal =
        Refusal{503, "too many bytes of requests are being held already", limits.retry_after_seconds};
  }
  return exchange.refusal || step.state == BodyDecoder::State::done;
}

Task<bool> Connection::read_body(Exchange& exchange) {
  const auto& limits = server_.options.limits;
  BodyDecoder decoder(exchange.head.framing, exchange.head.content_length, limits.body_bytes);
  enter(Phase::body, limits.body_timeout);
  std::size_t used = 0;
  if (take_body(exchange, decoder, input_, used)) {
    input_.erase(0, used);
    co_return true;
  }
  input_.clear();
  if (exchange.head.expect_continue) {
    std::vector<Slice> go_on{slice_of("HTTP/1.1 100 Continue\r\n\r\n")};
    if (!co_await write_all(std::move(go_on), Phase::body)) co_return false;
  }
  for (;;) {  // bounded by the size of a body and by its time-out
    auto& scratch = server_.scratch;
    const auto outcome = transport_->read_some(scratch.data(), scratch.size());
    if (outcome.status == Transport::Status::done) {
      const std::string_view data(scratch.data(), outcome.bytes);
      if (!take_body(exchange, decoder, data, used)) continue;
      input_ = data.substr(used);
      co_return true;
    }
    if (outcome.status != Transport::Status::again) co_return false;
    co_await transport_->ready(outcome.wait_for);
    if (timed_out_) {
      exchange.refusal = Refusal{408, "the request's body did not come in time"};
      co_return true;
    }
  }
}

bool Connection::admit(Exchange& exchange) {
  const Lane lane = server_.handler.classify(exchange.request);
  const auto index = static_cast<std::size_t>(lane);
  auto& stats = server_.stats;
  if (stats.in_flight[index] >= server_.options.limits.lanes[index].max_in_flight) {
    ++stats.throttled[index];
    exchange.refusal = Refusal{429, fmt::format("too many requests at once ({})", to_string(lane)),
                               server_.options.limits.retry_after_seconds};
    return false;
  }
  ++stats.in_flight[index];
  exchange.lane = lane;
  return true;
}

Task<Connection::Next> Connection::answer(Exchange& exchange) {
  auto& request = exchange.request;
  request.method = exchange.head.method;
  request.target = std::move(exchange.head.target);
  request.headers = std::move(exchange.head.headers);
  if (exchange.head.framing != Framing::none) {
    if (!co_await read_body(exchange)) co_return Next::close;
    if (exchange.refusal) co_return co_await refuse(exchange);
  }
  request.peer = peer_;
  if (!admit(exchange)) co_return co_await refuse(exchange);
  co_return co_await handle(exchange);
}

Task<Connection::Next> Connection::handle(Exchange& exchange) {
  ++server_.stats.requests;
  overdue_ = false;
  enter(Phase::handling, server_.options.limits.lanes[static_cast<std::size_t>(*exchange.lane)].deadline);
  cancel_ = std::make_unique<CancelSource>();
  exchange.request.cancel = cancel_->token();
  exchange.request.deadline = deadline_;
  transport_->monitor(this);
  Response response = co_await server_.handler.handle(std::move(exchange.request));
  if (response.stream != nullptr && exchange.head.method != Method::head) {
    const Next next = co_await send_stream(exchange, std::move(response));
    transport_->monitor(nullptr);
    co_return next;
  }
  transport_->monitor(nullptr);
  // What was logged of it is written before the answer leaves, together with what others have logged in this
  // turn.
  if (log_waits()) co_await Yield{server_.loop};
  if (log_waits()) flush_log();
  const bool close = !exchange.head.keep_alive || server_.stopping || peer_gone_ ||
                     response.headers.has_token("connection", "close");
  co_return co_await send(exchange, std::move(response), close);
}

Task<Connection::Next> Connection::send(Exchange& exchange, Response response, bool close) {
  std::string head;
  if (!render_head(exchange, response, close, head)) {
    log_error("a handler's header cannot be sent", {{"peer", peer_.address}});
    response = server_.render(Refusal{500, "the answer could not be sent"});
    close = true;
    head.clear();
    MOOR_ASSERT(render_head(exchange, response, close, head), "the refusal renderer's headers are broken");
  }
  std::vector<Slice> slices{slice_of(head)};
  const bool has_body =
      exchange.head.method != Method::head && response.status != 204 && response.status != 304;
  if (has_body) slices.push_back(slice_of(response.body_view()));
  std::size_t first = 0;
  auto pushed = push(slices, first);
  if (pushed == Push::blocked) {
    slices.erase(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(first));
    pushed = co_await write_all(std::move(slices), Phase::writing) ? Push::done : Push::dead;
  }
  if (pushed == Push::dead && !peer_gone_) ++server_.stats.went_away;
  // The phase must not be idle now, or the next request's wait would count as the first one's.
  phase_ = Phase::writing;
  co_return pushed == Push::done && !close ? Next::go_on : Next::close;
}

Task<Connection::Next> Connection::send_stream(Exchange& exchange, Response response) {
  chunked_ = !exchange.head.http_1_0;
  const bool close = !exchange.head.keep_alive || server_.stopping;
  std::string head;
  if (!render_head(exchange, response, close, head)) {
    response.stream.reset();
    auto refusal = server_.render(Refusal{500, "the answer could not be sent"});
    co_return co_await send(exchange, std::move(refusal), true);
  }
  std::vector<Slice> slices{slice_of(head)};
  if (!co_await write_all(std::move(slices), Phase::writing)) co_return Next::close;
  enter(Phase::streaming, Duration::zero());
  if (server_.stopping) cancel_->cancel(make_error(Errc::unavailable, "the server is stopping"));
  const auto result = co_await response.stream->run(*this);
  // Whatever the stream held goes before the connection waits for its next request.
  response.stream.reset();
  if (peer_gone_ || transport_->is_closed() || timed_out_) co_return Next::close;
  if (!result && !server_.stopping) {
    log_info("stream ended by an error", {{"peer", peer_.address}, {"error", result.error()}});
    // No last chunk: the client must see that something is missing.
    transport_->close();
    co_return Next::close;
  }
  if (chunked_) {
    std::vector<Slice> last{slice_of("0\r\n\r\n")};
    if (!co_await write_all(std::move(last), Phase::writing)) co_return Next::close;
  }
  phase_ = Phase::writing;
  co_return close || server_.stopping || !chunked_ ? Next::close : Next::go_on;
}

Task<Connection::Next> Connection::refuse(Exchange& exchange) {
  const Refusal refusal = *exchange.refusal;
  const bool throttled = refusal.status == 429;
  if (!throttled) ++server_.stats.refused;
  auto response = server_.render(refusal);
  // After anything but a throttled request it is not certain where the next one would begin.
  const bool close = !throttled || !exchange.head.keep_alive || server_.stopping;
  timed_out_ = false;
  const Next next = co_await send(exchange, std::move(response), close);
  co_return next == Next::close && !transport_->is_closed() ? Next::linger : next;
}

// Closing while the client still sends makes the kernel reset the connection, and the client may lose the
// answer that said why. So: say that we are done, then read for a while.
Task<bool> Connection::linger() {
  transport_->end_writing();
  enter(Phase::closing, kLinger);
  input_.clear();
  std::size_t dropped = 0;
  while (dropped < kLingerBytes) {
    const auto outcome = transport_->read_some(server_.scratch.data(), server_.scratch.size());
    if (outcome.status == Transport::Status::again) {
      co_await transport_->ready(outcome.wait_for);
    } else if (outcome.status == Transport::Status::done) {
      dropped += outcome.bytes;
    } else {
      break;
    }
  }
  co_return true;
}

bool Connection::render_head(const Exchange& exchange, const Response& response, bool close,
                             std::string& out) {
  out.reserve(256);
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(reason_phrase(response.status)).append("\r\n");
  out += server_.date_line();
  for (const auto& [name, value] : response.headers) {
    // Framing is the server's business.
    if (equal_ignoring_case(name, "content-length") || equal_ignoring_case(name, "transfer-encoding") ||
        equal_ignoring_case(name, "connection"))
      continue;
    if (!is_header_name(name) || !is_header_value(value)) return false;
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (response.stream != nullptr) {
    if (!exchange.head.http_1_0) out += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204 && response.status != 304) {
    out.append("Content-Length: ").append(std::to_string(response.body_view().size())).append("\r\n");
  }
  if (close) out += "Connection: close\r\n";
  out += "\r\n";
  return true;
}

Connection::Push Connection::push(std::vector<Slice>& slices, std::size_t& first) {
  for (;;) {  // each round makes progress or ends
    while (first < slices.size() && slices[first].size == 0) ++first;
    if (first == slices.size()) return Push::done;
    const auto outcome = transport_->write_some(slices.data() + first, slices.size() - first);
    if (outcome.status == Transport::Status::again) return Push::blocked;
    if (outcome.status != Transport::Status::done) return Push::dead;
    std::size_t sent = outcome.bytes;
    while (sent > 0) {
      const std::size_t step = std::min(sent, slices[first].size);
      slices[first].data += step;
      slices[first].size -= step;
      sent -= step;
      if (slices[first].size == 0) ++first;
    }
  }
}

Task<bool> Connection::write_all(std::vector<Slice> slices, Phase phase) {
  std::size_t first = 0;
  for (;;) {  // bounded by the write time-out, which closes the transport
    const Push pushed = push(slices, first);
    if (pushed != Push::blocked) co_return pushed == Push::done;
    if (deadline_ == TimePoint::never() || phase_ != phase) {
      const auto by_size = std::chrono::seconds(total(slices, first) / (64 * 1024));
      enter(phase, server_.options.limits.write_timeout + by_size);
    }
    co_await transport_->writable();
  }
}

Error Connection::gone() const {
  if (timed_out_) return make_error(Errc::timed_out, "the client reads too slowly");
  return make_error(Errc::unavailable, "the client has gone");
}

Task<Result<void>> Connection::write_chunk(std::vector<Slice> parts) {
  const std::size_t size = total(parts, 0);
  if (peer_gone_ || timed_out_ || transport_->is_closed()) co_return gone();
  if (size == 0) co_return Result<void>();
  const std::string line = fmt::format("{:x}\r\n", size);
  if (chunked_) {
    parts.insert(parts.begin(), slice_of(line));
    parts.push_back(slice_of("\r\n"));
  }
  std::size_t first = 0;
  auto pushed = push(parts, first);
  if (pushed == Push::blocked) {
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first));
    pushed = co_await write_all(std::move(parts), Phase::streaming) ? Push::done : Push::dead;
    enter(Phase::streaming, Duration::zero());
  }
  if (pushed == Push::done) co_return Result<void>();
  if (!timed_out_) client_left();
  co_return gone();
}

Task<Result<void>> Connection::write(std::string chunk) {
  std::vector<Slice> parts;
  parts.reserve(3);
  parts.push_back(slice_of(chunk));
  co_return co_await write_chunk(std::move(parts));
}

Task<Result<void>> Connection::write(SharedText chunk) {
  std::vector<Slice> parts;
  parts.reserve(3);
  parts.push_back(slice_of(*chunk));
  co_return co_await write_chunk(std::move(parts));
}

Task<Result<void>> Connection::write(std::vector<SharedText> parts) {
  std::vector<Slice> slices;
  slices.reserve(parts.size() + 2);
  for (const auto& part : parts) slices.push_back(slice_of(*part));
  co_return co_await write_chunk(std::move(slices));
}

bool Connection::on_readable() {
  // A client may send its next request before it has our answer, but not fill our memory with them.
  if (input_.size() > server_.options.limits.head.bytes) {
    if (phase_ == Phase::streaming) client_left();
    return false;
  }
  const auto outcome = fill();
  if (outcome.status == Transport::Status::done || outcome.status == Transport::Status::again) return true;
  client_left();
  return false;
}

void Connection::client_left() {
  if (peer_gone_) return;
  peer_gone_ = true;
  ++server_.stats.went_away;
  // A client that has only ended its own direction may still read one answer, but a stream needs a listener.
  if (phase_ == Phase::streaming) transport_->close();
  if (cancel_ != nullptr) cancel_->cancel(make_error(Errc::unavailable, "the client has gone"));
}

void Connection::check_deadline(TimePoint now) {
  if (now < deadline_) return;
  deadline_ = TimePoint::never();
  auto& stats = server_.stats;
  switch (phase_) {
    case Phase::idle: transport_->close(); return;
    case Phase::head:
    case Phase::body:
      ++stats.timed_out;
      timed_out_ = true;
      transport_->interrupt();
      return;
    case Phase::handling: end_patience(); return;
    case Phase::handshake:
    case Phase::writing:
      ++stats.timed_out;
      transport_->close();
      return;
    case Phase::streaming:
      ++stats.timed_out;
      timed_out_ = true;
      transport_->close();
      if (cancel_ != nullptr) cancel_->cancel(gone());
      return;
    case Phase::closing: transport_->close(); return;
  }
}

void Connection::begin_stop() {
  if (phase_ == Phase::idle) {
    transport_->close();
  } else if (phase_ == Phase::streaming) {
    cancel_->cancel(make_error(Errc::unavailable, "the server is stopping"));
  }
}

void Connection::end_patience() {
  if (phase_ == Phase::streaming) {
    transport_->close();
  } else if (phase_ != Phase::handling) {
    transport_->close();
  } else if (!overdue_) {
    overdue_ = true;
    deadline_ = server_.loop.clock().now() + server_.options.limits.cancel_grace;
    cancel_->cancel(make_error(Errc::timed_out, "the request took too long"));
  } else {
    ++server_.stats.timed_out;
    log_warn("a handler goes on after its request was cancelled", {{"peer", peer_.address}});
    transport_->close();
  }
}

}  // namespace moor::http
