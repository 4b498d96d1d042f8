#include "base/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <deque>
#include <thread>
#include <unordered_map>

#include "base/log.h"

namespace moor {
namespace asio = boost::asio;

namespace {
// In turn: so many pieces of its own work, then so many of what sockets, timers and other threads have for
// it.
constexpr int kOwnPerTurn = 64;
constexpr int kOthersPerTurn = 64;
}  // namespace

// Work that the loop's own thread posts waits in a queue of its own: Asio would take a lock and allocate for
// each piece, and ask the kernel for events after nearly every one.
struct Loop::Inside {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::unordered_map<TimerId, asio::steady_timer> timers;
  TimerId next_timer = 1;
  std::atomic<std::thread::id> thread;
  std::deque<Work> ready;
  int own = 0;                  // done in this turn
  int others = 0;               // likewise
  bool has_older_work = false;  // perhaps: posted before this thread ran the loop

  void take_over() {
    const auto self = std::this_thread::get_id();
    if (thread.load(std::memory_order_relaxed) == self) return;
    thread = self;
    has_older_work = true;
  }
  // Something of others', waiting for it if it must; what was logged is written before that.
  bool run_other() {
    if (log_waits()) {
      if (context.poll_one() > 0) return true;
      flush_log();
    }
    return context.run_one() > 0;
  }
  void run_ready() {
    const Work work = std::move(ready.front());
    ready.pop_front();
    work();
  }
};

Loop::Loop() : inside_(std::make_unique<Inside>()) {}

Loop::~Loop() {
  // Whatever is dropped may own tasks that post once more while they go.
  while (!inside_->ready.empty()) {
    std::deque<Work> dropped = std::move(inside_->ready);
    inside_->ready.clear();
  }
}

void Loop::post(Work work) {
  if (inside_->thread.load(std::memory_order_relaxed) != std::this_thread::get_id())
    return asio::post(inside_->context, std::move(work));
  inside_->ready.push_back(std::move(work));
}

Executor::TimerId Loop::start_timer(TimePoint when, Work work) {
  const TimerId id = inside_->next_timer++;
  const std::chrono::steady_clock::time_point due{when.since_start};
  auto& timer = inside_->timers.try_emplace(id, inside_->context, due).first->second;
  timer.async_wait([this, id, work = std::move(work)](const boost::system::error_code& error) {
    if (error) return;
    // stop_timer() after the timer became due but before this ran: it is gone, so the work is too.
    if (inside_->timers.erase(id) > 0) work();
  });
  return id;
}

void Loop::stop_timer(TimerId timer) {
  inside_->timers.erase(timer);
}

bool Loop::run_one() {
  inside_->take_over();
  if (inside_->ready.empty()) return inside_->run_other();
  if (inside_->has_older_work || inside_->own >= kOwnPerTurn) {
    const bool done = inside_->context.poll_one() > 0;
    if (!done) inside_->has_older_work = false;
    if (!done || ++inside_->others >= kOthersPerTurn) inside_->own = inside_->others = 0;
    if (done) return true;
  }
  ++inside_->own;
  inside_->run_ready();
  return true;
}

void Loop::run() {
  while (!inside_->context.stopped()) run_one();
}

void Loop::stop() {
  inside_->context.stop();
}

asio::io_context& Loop::context() {
  return inside_->context;
}

}  // namespace moor
