// A control client that waits for its answers: for `moorblk ctl` and for tests. Programs with a loop of their
// own use block/core/control_protocol.h directly.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "block/core/control_protocol.h"
#include "block/io/address.h"

namespace moor::block::io {

class ControlClient {
 public:
  // Connects and says hello. timed_out and unavailable mean what they say; unsupported: another version.
  static Result<ControlClient> connect(const std::string& path, std::chrono::milliseconds timeout);

  // What the server told with hello.
  const Json& about() const { return about_; }
  // Events that arrive meanwhile go to `on_event`, and each starts the time-out anew: something happens.
  // Without it they are kept for next_event(), up to a bound.
  using OnEvent = std::function<void(const control::Event&)>;
  Result<Json> call(std::string_view op, Json arguments = Json::object(), const OnEvent& on_event = nullptr);
  // Sends a request whose answer nobody waits for.
  Result<void> notify(std::string_view op, Json arguments = Json::object());
  // timed_out: none came.
  Result<control::Event> next_event(std::chrono::milliseconds timeout);

 private:
  ControlClient(Descriptor socket, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}
  Result<void> send(std::string_view text);
  Result<std::variant<control::Reply, control::Event>> receive(std::chrono::steady_clock::time_point until);

  Descriptor socket_;
  std::chrono::milliseconds timeout_;
  Json about_;
  control::FrameReader reader_;
  std::string unread_;
  std::deque<control::Event> events_;
  std::uint64_t next_id_ = 1;
};

}  // namespace moor::block::io
