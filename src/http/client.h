// An HTTP/1.1 client for one endpoint, on a Loop, with kept-alive connections. All on the loop's thread. A
// Client must outlive its calls; streams may outlive it.
//
// What errors mean:
//   unavailable   nothing was done: refused, cut off or timed out before the request was sent whole
//   timed_out     the request was sent and no (whole) answer came: it may or may not have happened
//   unauthorized  TLS: one side does not accept the other's certificate
//   cancelled     the caller's token
//   exhausted     a limit of this client (connections, size of an answer)
//   corrupt       the answer is not HTTP
// An answer with any status is a Response, not an error. Retries are the caller's business, but for one case:
// a kept connection that turns out to be dead before any byte was answered is replaced once, if the method is
// idempotent or nothing was sent.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "http/message.h"
#include "http/parser.h"
#include "http/tls.h"

namespace moor::http {

struct ClientOptions {
  Url endpoint;
  TlsClientOptions tls;      // for https
  std::string bearer_token;  // sent with every request that has no Authorization of its own
  std::size_t max_connections = 256;
  std::size_t max_idle_connections = 32;
  // Shorter than the server's, so that it is this side that closes.
  Duration idle_timeout = std::chrono::seconds(60);
  Duration connect_timeout = std::chrono::seconds(10);  // with the TLS handshake
  std::size_t max_body_bytes = 256 * 1024 * 1024;       // of an answer read whole
  std::size_t max_line_bytes = 8 * 1024 * 1024;         // of a stream read by lines
  HeadLimits head{};
};

// The body of an answer, read as it comes. Destroying it before its end closes the connection.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  virtual int status() const = 0;
  virtual const Headers& headers() const = 0;
  // The next bytes, as they came; none at the clean end. timed_out: broken off in the middle.
  virtual Task<Result<std::optional<std::string>>> next_chunk(CancelToken token) = 0;
  // The next line without its end; a last line without one counts.
  virtual Task<Result<std::optional<std::string>>> next_line(CancelToken token) = 0;
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> make(Loop& loop, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Task<Result<Response>> send(Request request, CancelToken token, TimePoint deadline);
  // Returns with the answer's head; the deadline is for that. The rest comes through the stream.
  Task<Result<std::unique_ptr<ResponseStream>>> open(Request request, CancelToken token, TimePoint deadline);

  const Url& endpoint() const;
  std::size_t connections() const;  // in use and idle
  std::size_t idle_connections() const;

  class Inside;

 private:
  explicit Client(std::shared_ptr<Inside> inside) : inside_(std::move(inside)) {}
  // Shared with streams: one that ends after its client gives its connection back to nobody.
  std::shared_ptr<Inside> inside_;
};

}  // namespace moor::http
