#include <algorithm>

#include "http/client_inside.h"

namespace moor::http {
namespace {
constexpr int kMaxInterim = 8;

Error broken_off() {
  return make_error(Errc::timed_out, "the connection broke before the answer was whole");
}
}  // namespace

ClientConnection::~ClientConnection() {
  transport_->close();
  --shared_.connections;
}

bool ClientConnection::is_quiet() {
  if (!input_.empty()) return false;
  if (transport_->is_silent()) return true;
  char byte = 0;  // TLS has news of its own: tickets, say
  return transport_->read_some(&byte, 1).status == Transport::Status::again;
}

Task<ClientConnection::Sent> ClientConnection::send(std::vector<Slice> slices) {
  std::size_t bytes = 0;
  std::size_t first = 0;
  for (;;) {  // bounded by the caller's deadline, which closes the transport
    while (first < slices.size() && slices[first].size == 0) ++first;
    if (first == slices.size()) co_return Sent{{}, bytes};
    const auto outcome = transport_->write_some(slices.data() + first, slices.size() - first);
    if (outcome.status == Transport::Status::again) {
      co_await transport_->ready(outcome.wait_for);
      continue;
    }
    if (outcome.status != Transport::Status::done) co_return Sent{transport_->error(), bytes};
    bytes += outcome.bytes;
    for (std::size_t left = outcome.bytes; left > 0;) {
      const std::size_t step = std::min(left, slices[first].size);
      slices[first].data += step;
      slices[first].size -= step;
      left -= step;
      if (slices[first].size == 0) ++first;
    }
  }
}

Task<Result<std::size_t>> ClientConnection::fill() {
  for (;;) {  // bounded by the caller's deadline, which closes the transport
    auto& scratch = shared_.scratch;
    const auto outcome = transport_->read_some(scratch.data(), scratch.size());
    if (outcome.status == Transport::Status::done) {
      answered = true;
      input_.append(scratch, 0, outcome.bytes);
      co_return outcome.bytes;
    }
    if (outcome.status == Transport::Status::closed) co_return std::size_t{0};
    if (outcome.status == Transport::Status::failed) co_return transport_->error();
    co_await transport_->ready(outcome.wait_for);
  }
}

Task<Result<ResponseHead>> ClientConnection::read_head(Method method, const HeadLimits& limits) {
  for (int interim = 0; interim <= kMaxInterim; ++interim) {
    std::size_t scanned = 0;
    HeadScan scan = scan_head(input_, scanned);
    // An answer has rarely come by now: waiting first saves a read that finds nothing.
    if (input_.empty()) co_await transport_->readable();
    while (scan.state == HeadScan::State::more) {
      if (input_.size() > limits.bytes) co_return make_error(Errc::corrupt, "the answer's head is too large");
      CO_TRY(const auto bytes, co_await fill());
      if (bytes == 0) co_return make_error(Errc::unavailable, "the connection was closed");
      scan = scan_head(input_, scanned);
    }
    if (scan.state == HeadScan::State::broken)
      co_return make_error(Errc::corrupt, "the answer is not HTTP/1.1");
    CO_TRY(auto head, parse_response_head(std::string_view(input_).substr(0, scan.size), method, limits));
    input_.erase(0, scan.size);
    if (head.status >= 200) co_return std::move(head);
  }
  co_return make_error(Errc::corrupt, "too many interim answers");
}

Task<Result<void>> ClientConnection::read_body(BodyDecoder& decoder, std::string& out) {
  const std::size_t before = out.size();
  while (!decoder.done() && out.size() == before) {
    if (input_.empty()) {
      const auto filled = co_await fill();
      if (!filled) co_return broken_off();
      if (*filled == 0 && !decoder.end_by_close()) co_return broken_off();
      if (*filled == 0) break;
    }
    const auto step = decoder.feed(input_, out);
    input_.erase(0, step.consumed);
    if (step.state == BodyDecoder::State::broken)
      co_return make_error(Errc::corrupt, "the answer's chunks are malformed");
    if (step.state == BodyDecoder::State::too_large)
      co_return make_error(Errc::exhausted, "the answer is larger than allowed");
  }
  co_return Result<void>();
}

}  // namespace moor::http
