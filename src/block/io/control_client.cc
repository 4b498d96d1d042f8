#include "block/io/control_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

namespace moor::block::io {

namespace {

constexpr std::size_t kMaxKeptEvents = 10'000;

int milliseconds_until(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

}  // namespace

Result<ControlClient> ControlClient::connect(const std::string& path, std::chrono::milliseconds timeout) {
  TRY(const auto address, parse_address(path.starts_with("unix:") ? path : "unix:" + path));
  TRY(auto socket, connect_blocking(address));
  ControlClient client(std::move(socket), timeout);
  TRY(client.about_, client.call("hello", Json::object({{"version", control::kVersion}})));
  return client;
}

Result<void> ControlClient::send(std::string_view text) {
  std::string frame(4, '\0');
  store_big_endian(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(text.size()));
  frame += text;
  std::string_view rest = frame;
  while (!rest.empty()) {
    const auto sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return make_error(Errc::unavailable, errno_error(errno, "send").message);
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::variant<control::Reply, control::Event>> ControlClient::receive(
    std::chrono::steady_clock::time_point until) {
  for (;;) {  // ends: a frame, an error, or `until`
    if (!unread_.empty()) {
      TRY(const auto taken, reader_.feed(as_bytes(unread_)));
      unread_.erase(0, taken);
      if (reader_.complete()) return control::decode_message(reader_.take());
    }
    pollfd wait{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, milliseconds_until(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno_error(errno, "poll");
    if (ready == 0) return make_error(Errc::timed_out, "no answer in time");
    std::array<char, 16 * 1024> buffer;
    const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_error(Errc::unavailable, errno_error(errno, "receive").message);
    if (got == 0) return make_error(Errc::unavailable, "the other side closed the connection");
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Result<Json> ControlClient::call(std::string_view op, Json arguments, const OnEvent& on_event) {
  const auto id = next_id_++;
  TRY_VOID(send(control::encode_call({id, std::string(op), std::move(arguments)})));
  auto until = std::chrono::steady_clock::now() + timeout_;
  for (;;) {  // ends with receive()
    TRY(auto message, receive(until));
    if (auto* event = std::get_if<control::Event>(&message)) {
      if (on_event) {
        on_event(*event);
        until = std::chrono::steady_clock::now() + timeout_;
        continue;
      }
      if (events_.size() >= kMaxKeptEvents)
        return make_error(Errc::exhausted, "too many events were not read");
      events_.push_back(std::move(*event));
      continue;
    }
    auto& reply = std::get<control::Reply>(message);
    if (reply.id == id) return std::move(reply.result);
    // id 0: the server could not read our request; its error says why.
    if (reply.id == 0 && !reply.result) return reply.result.error();
  }
}

Result<void> ControlClient::notify(std::string_view op, Json arguments) {
  return send(control::encode_call({next_id_++, std::string(op), std::move(arguments)}));
}

Result<control::Event> ControlClient::next_event(std::chrono::milliseconds timeout) {
  if (!events_.empty()) {
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {  // ends with receive()
    TRY(auto message, receive(until));
    if (auto* event = std::get_if<control::Event>(&message)) return std::move(*event);
  }
}

}  // namespace moor::block::io
