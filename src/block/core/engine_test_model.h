// What a client may see: for every sector the values it can legally hold, given what was submitted,
// acknowledged, flushed and read. Deliberately simple; knows nothing of members.
//
// A value ends when it was answered, or when the engine that had it died. A value that ended before another
// one was submitted is replaced by that one's acknowledgement, and by any read that returns something else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace moor::block::engine::test {

class SectorModel {
 public:
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();

  struct Entry {
    std::uint64_t uid = 0;
    std::uint64_t content = 0;
    std::uint64_t submitted = 0;
    std::uint64_t ended = kOpen;
    bool acknowledged = false;
    int engine = 0;
  };
  using Entries = std::vector<Entry>;

  SectorModel() : possible_{{}}, durable_{{}} {
    possible_[0].ended = durable_[0].ended = 0;
    possible_[0].acknowledged = durable_[0].acknowledged = true;
  }

  const Entries& possible() const { return possible_; }
  bool allows(std::uint64_t content) const { return allows(possible_, content); }
  static bool allows(const Entries& entries, std::uint64_t content) {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.content == content; });
  }

  void submit(const Entry& entry) {
    possible_.push_back(entry);
    durable_.push_back(entry);
  }
  // False: the write is acknowledged but nothing that may follow it is left: it has been lost.
  bool acknowledge(std::uint64_t uid, std::uint64_t submitted, std::uint64_t now, bool fua) {
    for (Entries* entries : {&possible_, &durable_}) {
      for (Entry& entry : *entries) {
        if (entry.uid != uid) continue;
        entry.ended = std::min(entry.ended, now);
        entry.acknowledged = true;
      }
    }
    drop_before(possible_, submitted);
    if (fua) drop_before(durable_, submitted);
    return !possible_.empty();
  }
  void end(std::uint64_t uid, std::uint64_t now) {
    for (Entries* entries : {&possible_, &durable_}) {
      for (Entry& entry : *entries) {
        if (entry.uid == uid) entry.ended = std::min(entry.ended, now);
      }
    }
  }
  // Everything but what is `kept` by an engine that may send it again.
  void end_others(const std::set<std::uint64_t>& kept, std::uint64_t now) {
    for (Entries* entries : {&possible_, &durable_}) {
      for (Entry& entry : *entries) {
        if (!kept.contains(entry.uid)) entry.ended = std::min(entry.ended, now);
      }
    }
  }
  void flushed(std::uint64_t submitted) {
    std::uint64_t newest = 0;
    for (const Entry& entry : durable_) {
      if (entry.acknowledged && entry.ended < submitted) newest = std::max(newest, entry.submitted);
    }
    drop_before(durable_, newest);
  }
  void seen(std::uint64_t content, std::uint64_t submitted) {
    if (!allows(content)) return;
    std::erase_if(possible_, [&](const Entry& e) { return e.content != content && e.ended < submitted; });
  }
  // No member has lived through: only flushed values count.
  void roll_back() {
    for (Entry& entry : durable_) entry.acknowledged = false;
    possible_ = durable_;
  }
  std::string describe() const {
    std::string text;
    for (const Entry& e : possible_) {
      text += fmt::format(" {}[{}..{}{}]", e.content, e.submitted,
                          e.ended == kOpen ? "" : std::to_string(e.ended), e.acknowledged ? " ack" : "");
    }
    return text;
  }

 private:
  static void drop_before(Entries& entries, std::uint64_t submitted) {
    std::erase_if(entries, [&](const Entry& e) { return e.ended < submitted; });
  }

  Entries possible_;
  Entries durable_;
};

}  // namespace moor::block::engine::test
