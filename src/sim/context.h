// What every part of a world is given: the queue, the network, the counts, and where observers listen.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/world.h"

namespace moor::sim {

class Caller;
class EngineProcess;

// Who lies in wait for the next engine that starts.
struct Ambush {
  std::int64_t steps = 0;  // of that engine, until it strikes
  std::function<void(const std::string& volume, const std::string& node)> strike;
};

struct Context {
  explicit Context(WorldOptions wanted)
      : options(std::move(wanted)), scheduler(options.seed), network(scheduler) {}

  WorldOptions options;
  block::BufferPool pool;  // before the queue, whose messages hold buffers of it
  Scheduler scheduler;
  Network network;
  CrashPoints crash_points;
  std::optional<Ambush> ambush;
  WorldCounts counts;
  std::vector<Caller*> callers;  // in the order of their making
  control::Decoder decoder;      // for checkers
  Step changed;                  // since the last step was judged
  std::map<std::string, std::vector<const EngineProcess*>, std::less<>> engines;  // that live, by volume
  std::function<void(const Commit&)> on_commit;
  std::function<void(const Decision&)> on_decision;
  std::function<void(const ClientAnswer&)> on_answer;
  std::function<void(const Watched&)> on_watch;
  // The newest engine of a volume serves.
  std::function<void(const EngineSight&, const block::engine::Serve&)> on_serve;
  std::function<void(TraceLine)> on_trace;  // empty: nobody reads

  bool is_traced() const { return static_cast<bool>(on_trace); }
  void trace(std::string who, std::string kind, std::string text) {
    if (on_trace)
      on_trace({scheduler.steps(), scheduler.now(), std::move(who), std::move(kind), std::move(text)});
  }
  std::uint64_t fresh_seed() { return scheduler.random().next(); }
};

}  // namespace moor::sim
