// Numbered places where a process can die: around every durable write and every external call. The numbers of
// a seed are the same in every run until the first crash, so that a sweep can go through them: run once and
// count, then once for each number with a crash before or after it. Further crashes may be armed by how many
// points later they come: a second one during the recovery.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace moor::sim {

struct CrashSite {
  std::string process;  // "agent node-1", "server-1", "replica e-12ab on node-2"
  std::string what;     // "start e-12ab", "commit", "pwrite volume.meta"
};

enum class CrashWhen : std::uint8_t { never, before, after };

class CrashPoints {
 public:
  using Listener = std::function<void(std::uint64_t number, const CrashSite& site)>;

  // The process dies at that point; `power`: its whole machine does.
  void arm(std::uint64_t number, CrashWhen when, bool power = false) { armed_[number] = {when, power}; }
  // The same, counted from now.
  void arm_later(std::uint64_t points, CrashWhen when, bool power = false) {
    arm(reached_ + points, when, power);
  }
  void listen(Listener listener) { listener_ = std::move(listener); }
  std::uint64_t reached() const { return reached_; }
  // Which part of a run is swept; a scenario may open and close it.
  void set_window(bool open) { window_ = open; }
  bool in_window() const { return window_; }

  struct Verdict {
    CrashWhen when = CrashWhen::never;
    bool power = false;
  };
  // By the world, just before the effect.
  Verdict reach(const CrashSite& site) {
    const std::uint64_t number = reached_++;
    if (listener_) listener_(number, site);
    const auto found = armed_.find(number);
    if (found == armed_.end()) return {};
    const Verdict verdict = found->second;
    armed_.erase(found);
    return verdict;
  }
  bool is_quiet() const { return armed_.empty() && !listener_; }

 private:
  std::map<std::uint64_t, Verdict> armed_;
  std::uint64_t reached_ = 0;
  bool window_ = true;
  Listener listener_;
};

}  // namespace moor::sim
