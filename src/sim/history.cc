#include "sim/history.h"

#include <fmt/format.h>

#include <algorithm>

namespace moor::sim {

SlotHistory::SlotHistory() : possible_{{}}, durable_{{}} {
  for (Entries* entries : {&possible_, &durable_}) {
    entries->front().ended = 0;
    entries->front().acknowledged = true;
  }
}

bool SlotHistory::allows(const Entries& entries, std::uint64_t content) {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.content == content; });
}

void SlotHistory::submit(const Entry& entry) {
  possible_.push_back(entry);
  durable_.push_back(entry);
}

bool SlotHistory::acknowledge(std::uint64_t uid, std::uint64_t submitted, std::uint64_t now) {
  bool known = false;
  for (Entries* entries : {&possible_, &durable_}) {
    for (Entry& entry : *entries) {
      if (entry.uid != uid) continue;
      entry.ended = std::min(entry.ended, now);
      entry.acknowledged = true;
      known = true;
    }
  }
  if (!known) return false;
  std::erase_if(possible_, [&](const Entry& e) { return e.ended < submitted; });
  return !possible_.empty();
}

void SlotHistory::end(std::uint64_t uid, std::uint64_t now) {
  for (Entries* entries : {&possible_, &durable_})
    for (Entry& entry : *entries)
      if (entry.uid == uid) entry.ended = std::min(entry.ended, now);
}

void SlotHistory::orphan(std::uint64_t uid, std::uint64_t epoch) {
  for (Entries* entries : {&possible_, &durable_})
    for (Entry& entry : *entries)
      if (entry.uid == uid && entry.ended == kOpen) entry.orphan_of = std::max<std::uint64_t>(epoch, 1);
}

void SlotHistory::end_orphans(std::uint64_t epoch, std::uint64_t now) {
  for (Entries* entries : {&possible_, &durable_})
    for (Entry& entry : *entries)
      if (entry.orphan_of != 0 && entry.orphan_of < epoch && entry.ended == kOpen) entry.ended = now;
}

void SlotHistory::flushed(std::uint64_t submitted) {
  std::uint64_t newest = 0;
  for (const Entry& entry : durable_)
    if (entry.acknowledged && entry.ended < submitted) newest = std::max(newest, entry.submitted);
  std::erase_if(durable_, [&](const Entry& e) { return e.ended < newest; });
}

void SlotHistory::seen(std::uint64_t content, std::uint64_t submitted) {
  if (!allows(content)) return;
  std::erase_if(possible_, [&](const Entry& e) { return e.content != content && e.ended < submitted; });
}

void SlotHistory::roll_back() {
  for (Entry& entry : durable_) entry.acknowledged = false;
  possible_ = durable_;
}

std::string SlotHistory::describe() const {
  std::string text;
  for (const Entry& e : possible_)
    text += fmt::format(" {}[asked at step {}{}]", e.content, e.submitted,
                        e.acknowledged     ? ", acknowledged"
                        : e.ended == kOpen ? ", open"
                                           : ", never answered");
  return text;
}

}  // namespace moor::sim
