// The HTTP/1.1 server on a Loop: TCP and unix listeners, plain and TLS, one handler. Everything runs on the
// loop's thread, the handler too. The server must be stopped (and its stop awaited) before it, its handler
// or the loop is destroyed.
//
// What it promises its handler: a request arrives whole, within limits, with an unambiguous target; its token
// is cancelled when the client has gone, the deadline has passed or the server stops. What it promises its
// clients: one answer per request, in order; a stream that ends with its last chunk is complete.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "http/message.h"
#include "http/parser.h"
#include "http/tls.h"

namespace moor::http {

// Requests of one lane compete only with each other: a flood of lists does not stop heartbeats.
enum class Lane { read, mutating, watch, heartbeat, system };
inline constexpr std::size_t kLanes = 5;
std::string_view to_string(Lane lane);

struct LaneLimits {
  std::size_t max_in_flight;
  Duration deadline;  // zero: none (streams end by themselves)
};

class Handler {
 public:
  virtual ~Handler() = default;
  // Which lane a request belongs to; its body has not been looked at. Must not suspend or fail.
  virtual Lane classify(const Request& request) const = 0;
  virtual Task<Response> handle(Request request) = 0;
};

struct ServerLimits {
  HeadLimits head{};
  std::size_t body_bytes = 3 * 1024 * 1024;
  // All request bodies together, from their first byte to their answer: many middling uploads are refused
  // (503) before they eat the machine.
  std::size_t all_bodies_bytes = 256 * 1024 * 1024;
  std::size_t connections = 16 * 1024;
  // Indexed by Lane: read, mutating, watch, heartbeat, system (health and metrics).
  std::array<LaneLimits, kLanes> lanes = {{
      {400, std::chrono::seconds(60)},
      {200, std::chrono::seconds(60)},
      {12'000, Duration::zero()},
      {500, std::chrono::seconds(15)},
      {64, std::chrono::seconds(15)},
  }};
  int retry_after_seconds = 1;
  Duration handshake_timeout = std::chrono::seconds(10);
  Duration head_timeout = std::chrono::seconds(10);  // from the first byte of a request
  Duration body_timeout = std::chrono::seconds(60);
  // Longer than the 90 s after which Go's clients drop an idle connection, so that they close first.
  Duration idle_timeout = std::chrono::seconds(120);
  // For one response or one chunk to reach the kernel, plus a second per 64 KiB of it.
  Duration write_timeout = std::chrono::seconds(30);
  // A handler that goes on this long after its token was cancelled loses its connection.
  Duration cancel_grace = std::chrono::seconds(5);
  int listen_backlog = 1024;
  int send_buffer_bytes = 0;  // of each socket; 0: the kernel's choice
};

struct ServerOptions {
  ServerLimits limits;
  // The answer to what the server itself turns away. Empty: a line of text.
  std::function<Response(const Refusal&)> render_refusal;
};

struct ListenOptions {
  std::string address;                    // "127.0.0.1:6440" (port 0: a free one), "[::1]:0", "unix:/path"
  std::shared_ptr<const TlsContext> tls;  // none: plain
};

struct ServerStats {
  std::size_t connections = 0;
  std::array<std::size_t, kLanes> in_flight{};
  std::size_t body_bytes = 0;  // held now
  std::uint64_t accepted = 0;
  std::uint64_t turned_away = 0;  // connections over the limit
  std::uint64_t requests = 0;     // that reached the handler
  std::uint64_t refused = 0;      // by the server itself, other than 429
  std::array<std::uint64_t, kLanes> throttled{};
  std::uint64_t timed_out = 0;  // connections cut by a time-out of theirs
  std::uint64_t went_away = 0;  // clients that left before their answer
  std::uint64_t handshakes_failed = 0;
  std::uint64_t handshakes_resumed = 0;  // by a ticket: without signatures
};

class Server {
 public:
  Server(Loop& loop, Handler& handler, ServerOptions options = {});
  ~Server();  // asserts that it has been stopped, if it ever listened
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves from now on; gives the URL that clients can use, with the actual port.
  Result<Url> listen(ListenOptions options);
  // Stops accepting, closes idle connections, cancels streams (they end with their last chunk) and lets other
  // requests finish for `grace`; then cancels those, and after cancel_grace cuts them off. Done when nothing
  // runs any more. Once.
  Task<Result<void>> stop(Duration grace);
  const ServerStats& stats() const;

  struct Inside;

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace moor::http
