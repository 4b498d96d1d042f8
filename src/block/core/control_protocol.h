// The control protocol as bytes: how the agent (or a person, by `moorblk ctl`) drives a moorblk process over
// a unix socket. docs/control-protocol.md is its description for others. A frame is a 32-bit big-endian
// length and that many bytes of JSON; a request has an id and gets one reply with it; events come in between
// to whoever subscribed. The first request is `hello` with a version.
//
// Step machines without I/O, one thread. Decoders are total on garbage: a frame that is no message ends the
// session. What handlers do is theirs (io/control_server.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"

namespace moor::block::control {

inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::uint32_t kMaxFrameBytes = 4u << 20;
inline constexpr std::uint32_t kMaxCallsInFlight = 64;
inline constexpr std::size_t kMaxOutBytes = 8u << 20;  // a subscriber that lags by more is cut off
inline constexpr std::size_t kMaxSubscriptions = 64;

// Collects frames from a stream.
class FrameReader {
 public:
  // Takes bytes up to the end of one frame; invalid: a frame that is too long, and nothing can follow.
  Result<std::size_t> feed(Bytes bytes);
  bool complete() const { return complete_; }
  // The frame's text; the next feed() begins a new one.
  std::string take();

 private:
  std::vector<std::byte> header_;
  std::string body_;
  std::size_t size_ = 0;
  bool complete_ = false;
};

void write_frame(OutQueue& out, std::string_view text);

struct Call {
  std::uint64_t id = 0;
  std::string op;
  Json arguments;  // an object
};
struct Ended {
  std::string why;  // empty: nothing wrong
};
using SessionEvent = std::variant<Call, Ended>;

// The server's side of one connection. It answers hello, subscribe and unsubscribe by itself.
class Session {
 public:
  // `about`: who serves, given to every client with hello: {"program": "engine", "volume": …}.
  Session(BufferPool& pool, Json about);

  std::size_t feed(Bytes bytes);
  bool paused() const { return calls_.size() >= kMaxCallsInFlight || out_.bytes() > kMaxOutBytes; }
  std::vector<SessionEvent> take_events() { return std::exchange(events_, {}); }
  OutQueue& out() { return out_; }

  // Each call gets one of these; asserted.
  void reply(std::uint64_t id, Json result);
  void reply_error(std::uint64_t id, const Error& error);
  // Goes out if the client subscribed to that name or to "*". A client that lags too far behind gets the
  // event "overrun" and is ended.
  void event(std::string_view name, const Json& data);
  bool ended() const { return ended_; }

 private:
  void on_frame(std::string_view text);
  void on_hello(const Call& call);
  void on_subscription(const Call& call);
  void send(const Json& message);
  void end(std::string why);
  Error duplicate_id() const;

  Json about_;
  OutQueue out_;
  FrameReader reader_;
  std::vector<SessionEvent> events_;
  std::set<std::uint64_t> calls_;
  std::set<std::string, std::less<>> subscriptions_;
  std::uint64_t event_number_ = 0;
  bool greeted_ = false;
  bool ended_ = false;
};

// The client's side: texts of frames to send, and what the frames received say.
std::string encode_call(const Call& call);
struct Reply {
  std::uint64_t id = 0;
  Result<Json> result = Json();
};
struct Event {
  std::string name;
  std::uint64_t number = 0;  // counts up by one per session: a gap cannot happen, and a reader may check
  Json data;
};
Result<std::variant<Reply, Event>> decode_message(std::string_view text);

// Errc from its word; internal for words that this build does not know.
Errc errc_of(std::string_view word);

}  // namespace moor::block::control
