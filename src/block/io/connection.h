// A byte stream on the loop, between a socket and a protocol machine. Receives while the machine wants bytes,
// sends what the machine has put out, once per turn.
//
// The owner destroys the Connection whenever it likes, also inside a callback; operations that are still
// under way then finish on their own, into buffers that they hold. After on_closed() nothing is called any
// more.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"
#include "block/io/address.h"
#include "block/io/loop.h"

namespace moor::block::io {

class TlsSession;

class StreamHandler {
 public:
  // Returns how many bytes were taken. The rest is kept and offered again once wants_bytes() and something
  // stirred the connection.
  virtual std::size_t on_bytes(Bytes bytes) = 0;
  // While false nothing is received: the kernel's buffer fills and the other side waits.
  virtual bool wants_bytes() const = 0;
  // Where a large payload goes next, or empty.
  virtual Slice direct_space() const { return {}; }
  virtual void direct_filled(std::size_t) {}
  virtual OutQueue& out() = 0;
  // The other side is gone, or the stream failed. `why` is absent after an orderly end.
  virtual void on_closed(std::optional<Error> why) = 0;

 protected:
  ~StreamHandler() = default;
};

class Connection {
 public:
  Connection(Loop& loop, BufferPool& pool, Descriptor socket, StreamHandler& handler);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Something changed: there may be bytes to send or room for more. Acted on at the end of the turn.
  void stir();
  // Receives no more, sends what is queued (for at most ten seconds), then on_closed().
  void close_after_send();
  // Everything after what has been sent so far is TLS. What was received and not taken belongs to it.
  void start_tls(std::unique_ptr<TlsSession> session);
  bool is_tls() const;

 private:
  class Stream;
  Stream* stream_;
  Loop* loop_;
};

}  // namespace moor::block::io
