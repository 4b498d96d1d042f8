#include "sim/scheduler.h"

#include <cstring>

namespace moor::sim {

Scheduler::EventId Scheduler::at(TimePoint when, Work work) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.work = std::move(work);
  slot.taken = true;
  ++slot.use;
  const EventId event = std::uint64_t{slot.use} << 32 | index;
  heap_.push({std::max(when, now_), next_number_++, event});
  return event;
}

void Scheduler::cancel(EventId event) {
  const auto index = static_cast<std::uint32_t>(event);
  if (event == 0 || index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (slot.use != event >> 32 || !slot.taken) return;
  slot.taken = false;
  slot.work = nullptr;
  free_.push_back(index);
}

void Scheduler::drop_cancelled() {
  while (!heap_.empty()) {
    const Slot& slot = slots_[static_cast<std::uint32_t>(heap_.top().event)];
    if (slot.taken && slot.use == heap_.top().event >> 32) return;
    heap_.pop();
  }
}

TimePoint Scheduler::next_due() {
  if (!ready_.empty()) return now_;
  drop_cancelled();
  return heap_.empty() ? TimePoint::never() : heap_.top().when;
}

bool Scheduler::run_one() {
  Work work;
  if (!ready_.empty()) {
    work = std::move(ready_.front());
    ready_.pop_front();
  } else {
    drop_cancelled();
    if (heap_.empty()) return false;
    const Due due = heap_.top();
    heap_.pop();
    now_ = due.when;
    const auto index = static_cast<std::uint32_t>(due.event);
    work = std::move(slots_[index].work);
    slots_[index].work = nullptr;
    slots_[index].taken = false;
    free_.push_back(index);
  }
  ++steps_;
  mix(static_cast<std::uint64_t>(now_.since_start.count()));
  work();
  return true;
}

void Scheduler::mix(std::string_view text) {
  mix(text.size());
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    mix(word);
    text.remove_prefix(sizeof word);
  }
  for (const char byte : text) mix(static_cast<unsigned char>(byte));
}

}  // namespace moor::sim
