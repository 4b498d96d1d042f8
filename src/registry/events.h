// Events: what happened to an object, for people. The recorder counts a repetition instead of writing a new
// Event; the expiry takes old ones away. Neither ever holds up whoever reports.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "base/random.h"
#include "registry/local_registry.h"
#include "registry/registry.h"

namespace moor::registry {

struct EventNote {
  Json involved;                // apiVersion, kind, namespace, name, uid: reference_to() makes one
  std::string type = "Normal";  // or Warning
  std::string reason;           // one CamelCase word
  std::string message;
};

// The involvedObject for an object of this kind.
Json reference_to(const model::KindInfo& kind, const Json& object);

struct EventRecorderOptions {
  std::string component;                       // moord, moord-agent
  std::string host;                            // the node, for agents
  Duration window = std::chrono::minutes(10);  // the same again within it is counted
  std::size_t max_waiting = 1000;              // notes not written yet; more are dropped and counted
  std::size_t max_known = 4096;                // events remembered for counting
};

// On one executor's thread. record() never waits; run() writes, until cancelled.
class EventRecorder {
 public:
  EventRecorder(Executor& executor, Registry& registry, Random& random, EventRecorderOptions options);
  void record(EventNote note);
  Task<Result<void>> run(CancelToken token);
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Known {
    std::string space;
    std::string name;
    std::int64_t count = 0;
    TimePoint last;
    std::list<std::string>::iterator age;
  };
  Task<Answer<void>> write(EventNote note);
  Task<Answer<void>> count_again(std::string key, ResourceName where);
  Task<Answer<void>> write_new(std::string key, EventNote note);
  void remember(const std::string& key, Known known);
  void forget(const std::string& key);

  Executor& executor_;
  Registry& registry_;
  Random& random_;
  EventRecorderOptions options_;
  std::deque<EventNote> waiting_;
  std::optional<Completion<bool>> wake_;
  std::map<std::string, Known> known_;
  std::list<std::string> by_age_;  // least recently used first
  std::uint64_t dropped_ = 0;
};

struct EventExpiryOptions {
  Duration time_to_live = std::chrono::hours(1);
  Duration pause = std::chrono::seconds(30);
  std::size_t per_turn = 200;
};

// Removes events that were last seen longer ago than their time to live, a bounded number per turn.
Task<Result<void>> expire_events(LocalRegistry& registry, EventExpiryOptions options, CancelToken token);

}  // namespace moor::registry
