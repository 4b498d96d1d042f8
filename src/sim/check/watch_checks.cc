// S40: what a watcher is told is all that happened, in the order in which it happened.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "registry/keys.h"
#include "sim/check/checks.h"

namespace moor::sim {
namespace {

class AWatchHasNoGap final : public Checker {
 public:
  AWatchHasNoGap() : Checker("S40") {}

  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      auto& past = past_[change.kind];
      past.push_back({change.revision, registry::key_of(*change.kind, change.space, change.name),
                      change.before, change.after});
      if (past.size() > kMost) past.pop_front();
    }
  }

  void on_watch(const Reality&, const Watched& watched) override {
    store::Revision before = watched.after;
    for (const store::Revision revision : watched.seen) {
      if (revision < before)
        return violated(fmt::format("a watch of {} was told of revision {} after revision {}",
                                    watched.selection->place(), revision, before));
      before = revision;
    }
    for (const Past& one : past_[&watched.selection->kind()]) {
      if (one.revision <= watched.after || one.revision > watched.upto || !concerns(watched, one)) continue;
      if (std::find(watched.seen.begin(), watched.seen.end(), one.revision) == watched.seen.end())
        return violated(
            fmt::format("a watch of {} that goes on after revision {} was told what happened up to revision "
                        "{}, and not of "
                        "the write of {} as revision {}",
                        watched.selection->place(), watched.after, watched.upto, one.key, one.revision));
    }
  }

 private:
  static constexpr std::size_t kMost = 4000;  // of a kind: a watch that lags more was told to list
  struct Past {
    store::Revision revision = 0;
    std::string key;
    JsonPtr before;
    JsonPtr after;
  };
  static bool concerns(const Watched& watched, const Past& one) {
    const std::string& place = watched.selection->place();
    if (watched.selection->is_one_key() ? one.key != place : !one.key.starts_with(place)) return false;
    return (one.before != nullptr && watched.selection->matches(*one.before)) ||
           (one.after != nullptr && watched.selection->matches(*one.after));
  }

  std::map<const model::KindInfo*, std::deque<Past>> past_;  // looked up, never walked
};

}  // namespace

std::unique_ptr<Checker> invariant_s40_a_watch_has_no_gap() {
  return std::make_unique<AWatchHasNoGap>();
}

}  // namespace moor::sim
