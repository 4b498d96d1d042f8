#include "http/transport.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace moor::http {
namespace {

constexpr std::size_t kMaxSlices = 64;
constexpr std::size_t kTlsRecord = 16 * 1024;

std::size_t index_of(Transport::Direction direction) {
  return static_cast<std::size_t>(direction);
}

Transport::Outcome from_tls(TlsSession::Outcome outcome) {
  using Status = TlsSession::Status;
  switch (outcome.status) {
    case Status::done: return {Transport::Status::done, outcome.bytes};
    case Status::want_read: return {Transport::Status::again, 0, Transport::Direction::read};
    case Status::want_write: return {Transport::Status::again, 0, Transport::Direction::write};
    case Status::closed: return {Transport::Status::closed, 0};
    case Status::failed: break;
  }
  return {Transport::Status::failed, 0};
}

}  // namespace

bool Transport::Ready::await_ready() const noexcept {
  // Bytes that OpenSSL already holds do not make the socket readable again.
  return transport.is_closed() ||
         (direction == Direction::read && transport.tls_ != nullptr && transport.tls_->has_pending());
}

void Transport::Ready::await_suspend(std::coroutine_handle<> waiter) const {
  MOOR_ASSERT(!transport.waiter_[index_of(direction)], "one task waits for one direction");
  transport.waiter_[index_of(direction)] = waiter;
  transport.arm(direction);
}

void Transport::arm(Direction direction) {
  if (armed_[index_of(direction)] || is_closed()) return;
  armed_[index_of(direction)] = true;
  start_wait(direction);
}

void Transport::on_ready(Direction direction, bool aborted) {
  armed_[index_of(direction)] = false;
  if (const auto waiter = std::exchange(waiter_[index_of(direction)], nullptr)) {
    if (direction == Direction::read && monitor_ != nullptr) arm(direction);
    waiter.resume();
  } else if (direction == Direction::read && monitor_ != nullptr && !is_closed()) {
    if (aborted || monitor_->on_readable()) {
      if (monitor_ != nullptr) arm(direction);
    }
  }
}

void Transport::monitor(Monitor* monitor) {
  monitor_ = monitor;
  if (monitor != nullptr) arm(Direction::read);
}

Task<Result<void>> Transport::handshake() {
  for (;;) {  // bounded by the owner's time-out, which closes us
    if (is_closed()) co_return make_error(Errc::timed_out, "TLS handshake: closed");
    const Outcome outcome = from_tls(tls_->handshake());
    if (outcome.status == Status::done) co_return Result<void>();
    if (outcome.status != Status::again) co_return tls_->error();
    co_await ready(outcome.wait_for);
  }
}

Transport::Outcome Transport::read_some(char* data, std::size_t size) {
  if (is_closed()) return {Status::closed, 0};
  if (tls_ != nullptr) return from_tls(tls_->read(data, size));
  const ssize_t count = ::recv(socket_, data, size, 0);
  if (count > 0) return {Status::done, static_cast<std::size_t>(count)};
  if (count == 0) return {Status::closed, 0};
  if (errno == EAGAIN || errno == EINTR) return {Status::again, 0, Direction::read};
  error_number_ = errno;
  return {Status::failed, 0};
}

bool Transport::is_silent() const {
  if (is_closed() || (tls_ != nullptr && tls_->has_pending())) return false;
  char byte = 0;
  return ::recv(socket_, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

Transport::Outcome Transport::write_some(const Slice* slices, std::size_t count) {
  if (is_closed()) return {Status::closed, 0};
  return tls_ != nullptr ? write_tls(slices, count) : write_plain(slices, count);
}

Transport::Outcome Transport::write_plain(const Slice* slices, std::size_t count) {
  std::array<iovec, kMaxSlices> parts;
  const std::size_t used = std::min(count, kMaxSlices);
  for (std::size_t i = 0; i < used; ++i) parts[i] = {const_cast<char*>(slices[i].data), slices[i].size};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
  if (sent >= 0) return {Status::done, static_cast<std::size_t>(sent)};
  if (errno == EAGAIN || errno == EINTR) return {Status::again, 0, Direction::write};
  error_number_ = errno;
  return {Status::failed, 0};
}

Transport::Outcome Transport::write_tls(const Slice* slices, std::size_t count) {
  // Small parts travel in one record: a record each would cost a system call and 22 bytes per part. After
  // `again` the same slices come back and give the same record, as OpenSSL demands.
  std::array<char, kTlsRecord> record;
  if (slices[0].size >= kTlsRecord) return from_tls(tls_->write(slices[0].data, slices[0].size));
  std::size_t size = 0;
  for (std::size_t i = 0; i < count && size < record.size(); ++i) {
    const std::size_t take = std::min(slices[i].size, record.size() - size);
    std::memcpy(record.data() + size, slices[i].data, take);
    size += take;
  }
  return from_tls(tls_->write(record.data(), size));
}

void Transport::end_writing() {
  if (is_closed()) return;
  if (tls_ != nullptr) tls_->send_close();
  // Fails only when the peer is gone already, which the reading side sees by itself.
  static_cast<void>(::shutdown(socket_, SHUT_WR));
}

Error Transport::error() const {
  if (tls_ != nullptr) return tls_->error();
  return make_error(Errc::unavailable,
                    error_number_ == 0 ? "connection closed" : std::strerror(error_number_));
}

}  // namespace moor::http
