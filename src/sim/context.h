// What every part of a world is given: the queue, the network, the counts, and where observers listen.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/world.h"

namespace moor::sim {

class Caller;
class EngineProcess;

struct Context {
  explicit Context(WorldOptions wanted)
      : options(std::move(wanted)), scheduler(options.seed), network(scheduler) {}

  WorldOptions options;
  block::BufferPool pool;  // before the queue, whose messages hold buffers of it
  Scheduler scheduler;
  Network network;
  CrashPoints crash_points;
  WorldCounts counts;
  std::vector<Caller*> callers;  // in the order of their making
  control::Decoder decoder;      // for checkers
  Step changed;                  // since the last step was judged
  std::map<std::string, std::vector<const EngineProcess*>, std::less<>> engines;  // that live, by volume
  std::function<void(const Commit&)> on_commit;
  std::function<void(const Decision&)> on_decision;
  std::function<void(const ClientAnswer&)> on_answer;
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
