#include "block/io/loop.h"

#include <liburing.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <set>
#include <vector>

#include "base/assert.h"

namespace moor::block::io {

struct Loop::Ring {
  io_uring ring{};
  std::vector<TurnTask*> tasks;
  std::vector<TurnTask*> running;  // the tasks of the turn that is ending; null: ran, or forgotten
  std::set<std::pair<Time, Timer*>> timers;
  std::map<Retired*, std::unique_ptr<Retired>> retired;
  std::vector<std::unique_ptr<Retired>> finished;  // deleted at the end of the turn: they may be on the stack

  io_uring_sqe* next(Completion* done) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    if (sqe == nullptr) {
      // The queue is full within one turn: hand it over early. The kernel takes entries even when completions
      // wait (IORING_FEAT_NODROP), so one submit makes room.
      const int submitted = io_uring_submit(&ring);
      sqe = io_uring_get_sqe(&ring);
      MOOR_ASSERT(sqe != nullptr, "io_uring takes no more operations: {}", submitted);
    }
    io_uring_sqe_set_data(sqe, done);
    return sqe;
  }
};

struct Loop::Signals final : Completion {
  Loop* loop = nullptr;
  int descriptor = -1;
  signalfd_siginfo info{};
  std::function<void(int)> handler;

  ~Signals() {
    if (descriptor >= 0) ::close(descriptor);
  }
  void wait() {
    loop->read(*this, descriptor, std::as_writable_bytes(std::span(&info, 1)),
               static_cast<std::uint64_t>(-1));
  }
  void on_complete(int result) override {
    if (result == static_cast<int>(sizeof info)) handler(static_cast<int>(info.ssi_signo));
    if (result != -ECANCELED) wait();
  }
};

void Timer::start(std::chrono::nanoseconds after) {
  stop();
  // now() is as old as the turn; a timer must never fire early, so it counts from the real present.
  due_ = std::chrono::steady_clock::now() + after;
  running_ = true;
  loop_->ring_->timers.emplace(due_, this);
}

void Timer::stop() {
  if (!running_) return;
  running_ = false;
  loop_->ring_->timers.erase({due_, this});
}

Result<std::unique_ptr<Loop>> Loop::create(unsigned entries) {
  auto ring = std::make_unique<Ring>();
  // One thread submits and waits: the kernel then runs its share of the work inside our wait instead of
  // interrupting us. Kernels before 6.1 lack that and work all the same.
  const unsigned wanted = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  int error = io_uring_queue_init(entries, &ring->ring, wanted);
  if (error == -EINVAL) error = io_uring_queue_init(entries, &ring->ring, 0);
  if (error < 0) {
    auto failure = errno_error(-error, "io_uring_setup");
    return make_error(Errc::unavailable, failure.message);
  }
  return std::unique_ptr<Loop>(new Loop(std::move(ring)));
}

Loop::Loop(std::unique_ptr<Ring> ring) : ring_(std::move(ring)), now_(std::chrono::steady_clock::now()) {}

Loop::~Loop() {
  // Ends every pending operation, so that nothing writes into what is deleted next.
  io_uring_queue_exit(&ring_->ring);
  // Objects may retire others as they go: connections their streams.
  while (!ring_->retired.empty() || !ring_->finished.empty()) {
    const auto retired = std::exchange(ring_->retired, {});
    const auto finished = std::exchange(ring_->finished, {});
  }
}

Result<void> Loop::run() {
  while (!stopped_) TRY_VOID(run_once(std::chrono::hours(1)));
  // What was answered in the turn that stopped us still goes out.
  TRY_VOID(run_once(std::chrono::nanoseconds(0)));
  stopped_ = false;
  return {};
}

Result<void> Loop::run_once(std::chrono::nanoseconds wait_at_most) {
  run_turn_tasks();
  auto wait = stopped_ ? std::chrono::nanoseconds(0) : wait_at_most;
  if (!ring_->tasks.empty() || !ring_->finished.empty()) wait = std::chrono::nanoseconds(0);
  if (!ring_->timers.empty()) {
    const auto left = ring_->timers.begin()->first - std::chrono::steady_clock::now();
    wait = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), wait);
  }
  int result = 0;
  if (wait.count() == 0) {
    // DEFER_TASKRUN delivers completions only inside a call that asks for events.
    result = io_uring_submit_and_get_events(&ring_->ring);
  } else {
    __kernel_timespec limit{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_->ring, &first, 1, &limit, nullptr);
  }
  now_ = std::chrono::steady_clock::now();
  ++statistics_.turns;
  const bool passing =
      result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY || result == -EAGAIN;
  if (!passing) return errno_error(-result, "io_uring_enter");
  dispatch_completions();
  fire_timers();
  const auto finished = std::exchange(ring_->finished, {});
  return {};
}

void Loop::dispatch_completions() {
  constexpr unsigned kBatch = 64;
  constexpr int kMostBatches = 64;  // then timers and sends get their turn
  std::array<std::pair<Completion*, int>, kBatch> batch{};
  for (int round = 0; round < kMostBatches; ++round) {
    // Copied out first: a handler may submit, and with it move the completion queue.
    std::array<io_uring_cqe*, kBatch> entries{};
    const unsigned count = io_uring_peek_batch_cqe(&ring_->ring, entries.data(), kBatch);
    if (count == 0) return;
    for (unsigned i = 0; i < count; ++i) {
      batch[i] = {static_cast<Completion*>(io_uring_cqe_get_data(entries[i])), entries[i]->res};
    }
    io_uring_cq_advance(&ring_->ring, count);
    statistics_.completions += count;
    for (unsigned i = 0; i < count; ++i) {
      if (batch[i].first != nullptr) batch[i].first->on_complete(batch[i].second);
    }
  }
}

void Loop::run_turn_tasks() {
  // What a task queues now runs in the next turn: no task can keep the loop from its completions.
  auto& running = ring_->running;
  running.swap(ring_->tasks);
  for (std::size_t i = 0; i < running.size(); ++i) {
    TurnTask* task = std::exchange(running[i], nullptr);
    if (task == nullptr) continue;
    task->queued_ = false;
    task->on_turn_end();
  }
  running.clear();
}

void Loop::fire_timers() {
  auto& timers = ring_->timers;
  const std::size_t most = timers.size();  // those that restart themselves wait for the next turn
  for (std::size_t i = 0; i < most && !timers.empty() && timers.begin()->first <= now_; ++i) {
    Timer* timer = timers.begin()->second;
    timer->stop();
    timer->fire_();
  }
}

void Loop::accept(Completion& done, int listener) {
  io_uring_prep_accept(ring_->next(&done), listener, nullptr, nullptr, SOCK_CLOEXEC);
}

void Loop::connect(Completion& done, int socket, const sockaddr* address, socklen_t size) {
  io_uring_prep_connect(ring_->next(&done), socket, address, size);
}

void Loop::receive(Completion& done, int socket, std::span<std::byte> into) {
  io_uring_prep_recv(ring_->next(&done), socket, into.data(), into.size(), 0);
}

void Loop::receive_all(Completion& done, int socket, std::span<std::byte> into) {
  io_uring_prep_recv(ring_->next(&done), socket, into.data(), into.size(), MSG_WAITALL);
}

void Loop::send(Completion& done, int socket, const msghdr* message) {
  io_uring_prep_sendmsg(ring_->next(&done), socket, message, MSG_NOSIGNAL | MSG_WAITALL);
}

void Loop::read(Completion& done, int file, std::span<std::byte> into, std::uint64_t offset) {
  io_uring_prep_read(ring_->next(&done), file, into.data(), static_cast<unsigned>(into.size()), offset);
}

void Loop::write(Completion& done, int file, std::span<const std::byte> from, std::uint64_t offset) {
  io_uring_prep_write(ring_->next(&done), file, from.data(), static_cast<unsigned>(from.size()), offset);
}

void Loop::read_vector(Completion& done, int file, std::span<const iovec> into, std::uint64_t offset) {
  io_uring_prep_readv(ring_->next(&done), file, into.data(), static_cast<unsigned>(into.size()), offset);
}

void Loop::write_vector(Completion& done, int file, std::span<const iovec> from, std::uint64_t offset) {
  io_uring_prep_writev(ring_->next(&done), file, from.data(), static_cast<unsigned>(from.size()), offset);
}

void Loop::sync(Completion& done, int file, bool data_only) {
  io_uring_prep_fsync(ring_->next(&done), file, data_only ? IORING_FSYNC_DATASYNC : 0);
}

void Loop::allocate(Completion& done, int file, int mode, std::uint64_t offset, std::uint64_t length) {
  io_uring_prep_fallocate(ring_->next(&done), file, mode, static_cast<off_t>(offset),
                          static_cast<off_t>(length));
}

void Loop::poll(Completion& done, int descriptor, unsigned events) {
  io_uring_prep_poll_add(ring_->next(&done), descriptor, events);
}

void Loop::cancel(Completion& pending) {
  io_uring_prep_cancel(ring_->next(nullptr), &pending, 0);
}

void Loop::at_turn_end(TurnTask& task) {
  if (task.queued_) return;
  task.queued_ = true;
  ring_->tasks.push_back(&task);
}

void Loop::forget(TurnTask& task) {
  task.queued_ = false;
  for (auto* list : {&ring_->tasks, &ring_->running}) {
    std::replace(list->begin(), list->end(), &task, static_cast<TurnTask*>(nullptr));
  }
}

Result<void> Loop::on_signals(std::initializer_list<int> signals, std::function<void(int)> handler) {
  MOOR_ASSERT(signals_ == nullptr, "signals are already heard");
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error(errno, "pthread_sigmask");
  auto heard = std::make_unique<Signals>();
  heard->loop = this;
  heard->handler = std::move(handler);
  heard->descriptor = signalfd(-1, &set, SFD_CLOEXEC);
  if (heard->descriptor < 0) return errno_error(errno, "signalfd");
  signals_ = std::move(heard);
  signals_->wait();
  return {};
}

void Loop::retire(std::unique_ptr<Retired> object) {
  Retired* key = object.get();
  ring_->retired.emplace(key, std::move(object));
}

void Loop::retired_done(Retired& object) {
  const auto found = ring_->retired.find(&object);
  MOOR_ASSERT(found != ring_->retired.end(), "not retired");
  ring_->finished.push_back(std::move(found->second));
  ring_->retired.erase(found);
}

}  // namespace moor::block::io
