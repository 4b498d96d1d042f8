// Transport: one connected (or listening) socket on the loop, plain or TLS, TCP or unix. Reads and writes
// never wait; a task that must wait awaits readable() or writable() and tries again. All on the loop's
// thread. Shared, because the reactor's callbacks hold it until they have run, which may be after its
// connection has ended.
#pragma once

#include <coroutine>
#include <cstddef>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "http/tls.h"

namespace moor::http {

struct Slice {
  const char* data;
  std::size_t size;
};

class Transport : public std::enable_shared_from_this<Transport> {
 public:
  enum class Direction { read, write };
  enum class Status { done, again, closed, failed };
  struct Outcome {
    Status status = Status::failed;
    std::size_t bytes = 0;
    Direction wait_for = Direction::read;  // with `again`
  };
  // Is told that bytes (or the end) have come while nobody awaits readable(). True: keep watching.
  class Monitor {
   public:
    virtual bool on_readable() = 0;

   protected:
    ~Monitor() = default;
  };
  struct Ready {
    Transport& transport;
    Direction direction;
    bool await_ready() const noexcept;
    void await_suspend(std::coroutine_handle<> waiter) const;
    void await_resume() const noexcept {}
  };

  // Takes the socket, which must not block.
  static Result<std::shared_ptr<Transport>> adopt(Loop& loop, int socket);
  virtual ~Transport() = default;

  void start_tls(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }
  TlsSession* tls() const { return tls_.get(); }
  void drop_tls() { tls_.reset(); }  // after a failed handshake
  Task<Result<void>> handshake();

  Outcome read_some(char* data, std::size_t size);
  // Nothing has come that waits to be read: not a byte, not the end.
  bool is_silent() const;
  // Writes from the front of the slices; may take less than all.
  Outcome write_some(const Slice* slices, std::size_t count);
  Ready readable() { return {*this, Direction::read}; }
  Ready writable() { return {*this, Direction::write}; }
  Ready ready(Direction direction) { return {*this, direction}; }
  void monitor(Monitor* monitor);

  // Wakes whoever waits, without closing.
  virtual void interrupt() = 0;
  // Sends the end of our direction (TLS: close_notify first); reading goes on.
  void end_writing();
  // Whoever waits is woken and finds the transport closed.
  virtual void close() = 0;
  bool is_closed() const { return socket_ < 0; }
  int socket() const { return socket_; }
  // What went wrong, after `failed`.
  Error error() const;

 protected:
  explicit Transport(int socket) : socket_(socket) {}
  virtual void start_wait(Direction direction) = 0;
  void arm(Direction direction);
  void on_ready(Direction direction, bool aborted);

  int socket_;
  bool armed_[2] = {false, false};

 private:
  Outcome write_plain(const Slice* slices, std::size_t count);
  Outcome write_tls(const Slice* slices, std::size_t count);

  std::coroutine_handle<> waiter_[2];
  Monitor* monitor_ = nullptr;
  std::unique_ptr<TlsSession> tls_;
  int error_number_ = 0;
};

}  // namespace moor::http
