// What is, as nobody in the cluster can see it: every process with its core object, every disk with its
// bytes, the store as it is now, and what clients were promised. For checkers only. Everything here is
// borrowed and valid until the next step of the world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "block/core/bridge.h"
#include "block/core/engine.h"
#include "block/core/replica.h"
#include "block/core/sim_disk.h"
#include "control/runtime/plan.h"
#include "control/runtime/view.h"
#include "model/kind.h"
#include "registry/selection.h"
#include "sim/history.h"
#include "store/store.h"

namespace moor::sim {

using JsonPtr = std::shared_ptr<const Json>;

struct NodeSight {
  std::string name;
  std::string boot_id;
  bool up = false;        // the machine has power
  bool agent_up = false;  // its agent's process lives
  bool cut = false;       // some link of the machine is cut now
};

struct ServerSight {
  std::string name;
  bool up = false;
  bool paused = false;
  bool leading = false;  // by its own belief
};

// A process of `moorblk engine` that lives.
struct EngineSight {
  std::string node;
  std::string boot_id;  // of the node, when it started
  std::string volume;
  std::string engine;       // its id: the Engine object's name
  std::uint64_t epoch = 0;  // the one it has now
  int pid = 0;
  bool paused = false;
  bool serving = false;  // its listener is open, and it is no standby
  bool standby = false;  // not activated yet: it forwards reads and acknowledges nothing
  std::size_t clients = 0;
  const block::engine::Engine* core = nullptr;
};

// A directory of a replica, with its process if there is one.
struct ReplicaSight {
  std::string node;
  std::string directory;
  std::string volume;
  std::string name;                      // the Replica object's, as far as a process was ever started for it
  int pid = 0;                           // 0: no process
  bool open = false;                     // the process has opened its store
  const block::Replica* core = nullptr;  // null: no process
  const block::SimDisk* disk = nullptr;
  // The newest floor and generation that the disk is known to have, also while no process runs.
  block::Floor floor;
  block::Generation generation = 0;
  std::uint64_t full_until = 0;         // the last step at which its disk had no room; now: the highest
  std::uint64_t holder_connection = 0;  // which of the process's connections it obeys; 0: none
  std::size_t unfinished = 0;           // requests of the one before that were under way when it was let in
};

struct DeviceSight {
  std::string node;
  std::string volume;
  std::string link;  // the path that clients open
  int pid = 0;
  std::size_t users = 0;
  const block::bridge::Bridge* core = nullptr;
};

// One write of a transaction.
struct Change {
  const model::KindInfo* kind = nullptr;
  std::string space;
  std::string name;
  JsonPtr before;  // null: it is new
  JsonPtr after;   // null: it is gone
  store::Revision revision = 0;
  control::Decoder* decoder = nullptr;  // keeps what was decoded for the next checker; null: nothing does
};

// The typed form; null when there is none, or it does not fit its kind.
template <class T>
std::shared_ptr<const T> decode_with(control::Decoder* decoder, const JsonPtr& json) {
  if (json == nullptr) return nullptr;
  if (decoder != nullptr) return decoder->get<T>(json);
  auto value = model::decode<T>(*json);
  return value ? std::make_shared<const T>(*std::move(value)) : nullptr;
}

// A transaction of the store that has been applied: visible from now on, durable.
struct Commit {
  std::uint64_t step = 0;
  TimePoint at;
  std::string through;  // the server that wrote it; empty: the store itself, or only removals
  std::vector<Change> changes;
};

// A controller has looked at a key: what it saw, and what it wants. Nothing is written yet.
struct Decision {
  std::string server;
  std::string_view controller;
  const control::Key* key = nullptr;
  const control::View* view = nullptr;
  const control::Plan* plan = nullptr;
};

// A server tells a watcher: these are the changes after `after`, up to `upto`, that it asked for.
struct Watched {
  const registry::Selection* selection = nullptr;
  store::Revision after = 0;
  store::Revision upto = 0;
  std::vector<store::Revision> seen;
};

// What can have changed in one step, for checkers that need not look every time.
struct Step {
  std::uint64_t number = 0;
  TimePoint at;
  bool committed = false;  // the store has a new revision
  bool processes = false;  // a process started, ended, was paused or woke, or an engine began to serve
  bool io = false;         // a client's request was answered
  bool replicas = false;   // a replica has worked: floors, bytes, sessions
  bool engines = false;    // an engine has taken a step
  bool floors = false;     // a replica has another floor, or obeys another engine
  // Those whose processes or disks any of this was about: nothing that these are made of has changed
  // elsewhere.
  std::vector<std::string> volumes;

  bool is_anything() const { return committed || processes || io || replicas || engines || floors; }
  void touch(const std::string& volume) {
    if (std::find(volumes.begin(), volumes.end(), volume) == volumes.end()) volumes.push_back(volume);
  }
};

class Reality {
 public:
  virtual ~Reality() = default;
  virtual TimePoint now() const = 0;
  virtual std::uint64_t step() const = 0;
  virtual bool is_healing() const = 0;  // faults have stopped

  virtual std::vector<NodeSight> nodes() const = 0;
  virtual std::vector<ServerSight> servers() const = 0;
  virtual std::vector<EngineSight> engines() const = 0;
  virtual std::vector<ReplicaSight> replicas() const = 0;
  virtual std::vector<DeviceSight> devices() const = 0;
  // Those of one volume: what is asked at every answer must not cost more the more volumes there are.
  virtual std::vector<EngineSight> engines_of(std::string_view volume) const {
    auto found = engines();
    std::erase_if(found, [&](const EngineSight& one) { return one.volume != volume; });
    return found;
  }
  virtual std::size_t engine_count_of(std::string_view volume) const { return engines_of(volume).size(); }
  virtual std::vector<ReplicaSight> replicas_of(std::string_view volume) const {
    auto found = replicas();
    std::erase_if(found, [&](const ReplicaSight& one) { return one.volume != volume; });
    return found;
  }

  // The newest state of the store, whatever any server's cache says. Null: not there.
  virtual JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const = 0;
  virtual void for_each(const model::KindInfo& kind,
                        const std::function<void(const JsonPtr&)>& visit) const = 0;
  template <class T>
  std::optional<T> get(std::string_view space, std::string_view name) const {
    const auto value = decode_with<T>(decoder(), find(control::kind_of<T>(), space, name));
    if (value == nullptr) return std::nullopt;
    return *value;
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for_each(control::kind_of<T>(), [&](const JsonPtr& json) {
      if (const auto value = decode_with<T>(decoder(), json)) found.push_back(*value);
    });
    return found;
  }

  // Many checkers ask for the same objects, most of which have not changed; null: each decodes for itself.
  virtual control::Decoder* decoder() const { return nullptr; }

  // What clients asked for and were told, by volume (its uid).
  virtual const std::map<std::string, VolumeHistory>& histories() const = 0;

  // All bytes of the volume as this replica's head holds them, read from a copy of its disk: slow, disturbs
  // nothing. Absent: the directory cannot be opened.
  virtual std::optional<std::vector<std::byte>> bytes_of(const ReplicaSight& replica) const = 0;
  // What this replica would answer to an engine if it were started now: whether it stopped cleanly, and which
  // regions may differ from the other members'. From a copy as well.
  virtual std::optional<block::HelloAnswer> answer_of(const ReplicaSight&) const { return std::nullopt; }
};

}  // namespace moor::sim
