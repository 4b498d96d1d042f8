#include "base/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unordered_map>

namespace moor {
namespace asio = boost::asio;

struct Loop::Inside {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::unordered_map<TimerId, asio::steady_timer> timers;
  TimerId next_timer = 1;
};

Loop::Loop() : inside_(std::make_unique<Inside>()) {}
Loop::~Loop() = default;

void Loop::post(Work work) {
  asio::post(inside_->context, std::move(work));
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
  return inside_->context.run_one() > 0;
}

void Loop::run() {
  inside_->context.run();
}

void Loop::stop() {
  inside_->context.stop();
}

asio::io_context& Loop::context() {
  return inside_->context;
}

}  // namespace moor
