#include "sim/process.h"

#include <algorithm>

#include "base/assert.h"

namespace moor::sim {
namespace {
// 2023-11-14: the wall clock's beginning, the same in every run.
constexpr std::chrono::microseconds kBegin = std::chrono::seconds(1'700'000'000);
constexpr int kMostUnwinding = 5'000'000;
}  // namespace

TimePoint SimProcess::OwnClock::now() const {
  return process_.dead_ ? process_.private_now_ : process_.scheduler_.now();
}

WallTime SimProcess::OwnClock::wall() const {
  return {kBegin + std::chrono::duration_cast<std::chrono::microseconds>(now().since_start) + offset_};
}

SimProcess::~SimProcess() {
  *alive_ = false;
  for (auto& [id, timer] : timers_) scheduler_.cancel(timer.event);
}

void SimProcess::post(Work work) {
  ready_.push_back(std::move(work));
  schedule_turn();
}

void SimProcess::schedule_turn() {
  if (turn_scheduled_ || paused_ || dead_ || ready_.empty()) return;
  turn_scheduled_ = true;
  scheduler_.soon([this, alive = alive_] {
    if (*alive) turn();
  });
}

void SimProcess::turn() {
  turn_scheduled_ = false;
  if (paused_ || dead_ || ready_.empty()) return;
  const Work work = std::move(ready_.front());
  ready_.pop_front();
  const auto alive = alive_;  // the work may end the process
  work();
  if (*alive) schedule_turn();
}

Executor::TimerId SimProcess::start_timer(TimePoint when, Work work) {
  const TimerId id = next_timer_++;
  Timer timer{when, std::move(work), 0};
  if (!dead_) timer.event = scheduler_.at(when, [this, id] { fire(id); });
  timers_.emplace(id, std::move(timer));
  return id;
}

void SimProcess::fire(TimerId id) {
  auto node = timers_.extract(id);
  if (!node.empty()) post(std::move(node.mapped().work));
}

void SimProcess::stop_timer(TimerId id) {
  const auto found = timers_.find(id);
  if (found == timers_.end()) return;
  scheduler_.cancel(found->second.event);
  timers_.erase(found);
}

void SimProcess::pause() {
  paused_ = true;
}

void SimProcess::resume() {
  paused_ = false;
  schedule_turn();
}

void SimProcess::die() {
  if (dead_) return;
  private_now_ = scheduler_.now();
  dead_ = true;
  for (auto& [id, timer] : timers_) scheduler_.cancel(std::exchange(timer.event, 0));
  for (const Work& work : std::exchange(deaths_, {})) work();
}

bool SimProcess::run_one() {
  MOOR_ASSERT(dead_, "a process of the world is run by the world");
  if (!ready_.empty()) {
    const Work work = std::move(ready_.front());
    ready_.pop_front();
    work();
    return true;
  }
  const auto next = std::min_element(timers_.begin(), timers_.end(), [](const auto& a, const auto& b) {
    return a.second.when < b.second.when;
  });
  if (next == timers_.end()) return false;
  private_now_ = std::max(private_now_, next->second.when);
  const Work work = std::move(next->second.work);
  timers_.erase(next);
  work();
  return true;
}

void SimProcess::unwind(const std::function<bool()>& done) {
  for (int turns = 0; !done(); ++turns) {
    MOOR_ASSERT(turns < kMostUnwinding, "{} does not end when it is cancelled", name_);
    MOOR_ASSERT(run_one(), "{} is cancelled and waits for something that will never come", name_);
  }
  // What was posted meanwhile must not run after its owner is gone.
  while (!ready_.empty()) ready_.pop_front();
}

}  // namespace moor::sim
