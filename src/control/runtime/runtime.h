// Runs controllers: wakes their keys by what changes, reconciles each key on one worker at a time, and writes
// plans in one transaction each. A plan that lost against somebody else's write is dropped and the key looked
// at again.
//
// It works for one term of leadership: every write is conditioned on the term's own object, so that a leader
// that has been replaced without knowing can change nothing (S39). On one executor's thread; no clock, thread
// or chance of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/task_group.h"
#include "control/runtime/controller.h"
#include "control/runtime/keyed_queue.h"
#include "control/runtime/leader.h"
#include "control/runtime/own_writes.h"
#include "control/runtime/write_turns.h"
#include "registry/events.h"
#include "registry/local_registry.h"

namespace moor::control {

// Figures of one controller since it was made.
struct ControllerStats {
  std::uint64_t reconciles = 0;
  std::uint64_t writes = 0;     // objects
  std::uint64_t commits = 0;    // plans
  std::uint64_t conflicts = 0;  // plans that came too late
  std::uint64_t errors = 0;
  std::size_t waiting = 0;
  Duration busy{0};     // from taking a key to its plan being durable, all keys together
  Duration longest{0};  // of one key
};

struct RuntimeOptions {
  std::size_t workers = 32;  // keys at once, per controller
  // Volumes that are being attached or detached at once. Enough to keep every agent busy, few enough that
  // their objects stay at hand.
  Gate::Limits limits{.begun_at_once = 128};
  std::string field_manager = "moord-controllers";
  // For tests and the simulator: after each plan that says it is settled, ask its controller again and stop
  // the process if it was not.
  bool check_settled = false;
};

class Runtime final : public Duty {
 public:
  Runtime(registry::LocalRegistry& registry, std::vector<std::unique_ptr<Controller>> controllers,
          registry::EventRecorder* events = nullptr, RuntimeOptions options = {});
  ~Runtime() override;

  // Until cancelled. `term` guards every write.
  Task<Result<void>> lead(registry::Guard term, CancelToken token) override;

  std::vector<std::string_view> names() const;
  ControllerStats stats(std::size_t controller) const;
  // Nothing waits and nothing is under way; timers may still be set.
  bool is_idle() const;

 private:
  struct Lane;
  struct Dependent {
    std::size_t lane = 0;
    Key key;
    auto operator<=>(const Dependent&) const = default;
  };
  struct DependentHash {
    std::size_t operator()(const Dependent& one) const { return KeyHash()(one.key) * 31 + one.lane; }
  };
  using Dependents = std::unordered_set<Dependent, DependentHash>;  // a thousand volumes read one node

  Task<Result<void>> listen(CancelToken token);
  Task<Result<void>> work(Lane& lane, registry::Guard term, CancelToken token);
  Task<Result<void>> look_at(Lane& lane, Key key, registry::Guard term, CancelToken token);
  // A plan for the key, and the objects that it writes taken.
  struct Turn;
  Task<Result<void>> plan_in_turn(Lane& lane, Key key, Turn* turn, CancelToken token);
  // What the lane's successor makes of the plan joins it.
  void ask_successor(Lane& lane, const Key& key, Turn& turn);
  Task<Result<void>> write(Lane& lane, Key key, Turn* turn, registry::Guard term);
  void notice(const store::Change& change);
  // The lanes' own keys, where the change is their own write.
  using Writers = std::vector<std::optional<Key>>;
  void wake_readers(std::string_view key, const Json* before, const Json* after, const Writers& writers);
  void check_settled(const Lane& lane, const Key& key, const Plan& plan, const View::Moment& moment);
  void remember_reads(Lane& lane, const Key& key, const Reads& reads);
  void note_read(const Dependent& dependent, const Reads::Read& read);
  void forget_read(const Dependent& dependent, const Reads::Read& read);
  View::Moment moment() const;

  registry::LocalRegistry& registry_;
  registry::EventRecorder* events_;
  RuntimeOptions options_;
  RegistrySource source_;
  Decoder decoder_;
  WriteTurns turns_;
  Gate gate_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unordered_map<const model::KindInfo*, std::vector<std::pair<std::size_t, Wake>>> wakes_;
  // By what was read, and by what of it counts.
  FlatTextMap<std::vector<std::pair<Digest, Dependents>>> dependents_;
  std::map<std::string, TimePoint> heartbeats_;
};

}  // namespace moor::control
