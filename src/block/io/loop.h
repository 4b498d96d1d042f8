// The loop of a moorblk process: one thread, one io_uring, no locks. Each turn handles every completion that
// is there, then runs the turn-end tasks (each connection sends once, everything that gathered), then makes
// one system call that submits all new operations and waits.
//
// An operation belongs to a Completion that its owner keeps alive until on_complete() was called: exactly
// once per operation, never from inside the call that started it, with the kernel's result (a negative errno
// on failure). Memory and descriptors named by it must live as long. An object that its owner lets go while
// operations are pending hands itself to retire(): it is deleted when it reports done, at the latest with the
// loop.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/result.h"

namespace moor::block::io {

using Time = std::chrono::steady_clock::time_point;

class Completion {
 public:
  virtual void on_complete(int result) = 0;

 protected:
  ~Completion() = default;
};

class TurnTask {
 public:
  virtual ~TurnTask() = default;
  // Runs before the loop sleeps. It may queue itself or others again; they run in the next turn.
  virtual void on_turn_end() = 0;

 private:
  friend class Loop;
  bool queued_ = false;
};

// Something that waits for its own pending operations.
class Retired {
 public:
  virtual ~Retired() = default;
};

class Loop;

// Calls once, at or after its time. Restarting moves it; destroying it cancels it.
class Timer {
 public:
  Timer(Loop& loop, std::function<void()> fire) : loop_(&loop), fire_(std::move(fire)) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start(std::chrono::nanoseconds after);
  void stop();
  bool is_running() const { return running_; }

 private:
  friend class Loop;
  Loop* loop_;
  std::function<void()> fire_;
  Time due_{};
  bool running_ = false;
};

struct LoopStatistics {
  std::uint64_t turns = 0;
  std::uint64_t completions = 0;
};

class Loop {
 public:
  // unavailable: the kernel has no io_uring, or a policy forbids it.
  static Result<std::unique_ptr<Loop>> create(unsigned entries = 256);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Until stop(); an error means that the ring itself failed.
  Result<void> run();
  // One turn, waiting at most this long; for tests and for programs with a loop of their own.
  Result<void> run_once(std::chrono::nanoseconds wait_at_most);
  void stop() { stopped_ = true; }
  // As of the start of this turn.
  Time now() const { return now_; }

  void accept(Completion& done, int listener);
  void connect(Completion& done, int socket, const sockaddr* address, socklen_t size);
  void receive(Completion& done, int socket, std::span<std::byte> into);
  // Completes when all of it is there; less means that the stream has ended or broke.
  void receive_all(Completion& done, int socket, std::span<std::byte> into);
  // All of it, or an error: a short count means that the connection broke in the middle.
  void send(Completion& done, int socket, const msghdr* message);
  void read(Completion& done, int file, std::span<std::byte> into, std::uint64_t offset);
  void write(Completion& done, int file, std::span<const std::byte> from, std::uint64_t offset);
  void read_vector(Completion& done, int file, std::span<const iovec> into, std::uint64_t offset);
  void write_vector(Completion& done, int file, std::span<const iovec> from, std::uint64_t offset);
  void sync(Completion& done, int file, bool data_only);
  void allocate(Completion& done, int file, int mode, std::uint64_t offset, std::uint64_t length);
  void poll(Completion& done, int descriptor, unsigned events);
  // The operation still completes, perhaps with -ECANCELED.
  void cancel(Completion& pending);

  void at_turn_end(TurnTask& task);
  void forget(TurnTask& task);
  // Blocks these signals for the process and hears of them here. Once per loop.
  Result<void> on_signals(std::initializer_list<int> signals, std::function<void(int)> handler);

  void retire(std::unique_ptr<Retired> object);
  void retired_done(Retired& object);

  const LoopStatistics& statistics() const { return statistics_; }

 private:
  friend class Timer;
  struct Ring;
  struct Signals;
  explicit Loop(std::unique_ptr<Ring> ring);
  void run_turn_tasks();
  void fire_timers();
  void dispatch_completions();

  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Signals> signals_;
  Time now_;
  bool stopped_ = false;
  LoopStatistics statistics_;
};

}  // namespace moor::block::io
