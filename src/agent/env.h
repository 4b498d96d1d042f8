// What every part of an agent is given. References outlive the parts.
#pragma once

#include <map>
#include <string>

#include "agent/core/node_plan.h"
#include "agent/host.h"
#include "base/executor.h"
#include "model/kind.h"
#include "model/longhorn/instance.h"
#include "registry/registry.h"

namespace moor::agent {

// Requests that one agent has under way: enough to keep a server busy, and few enough that many agents
// together stay below what it takes at once.
constexpr std::size_t kMostRequests = 12;

struct AgentOptions {
  NodeOptions node;
  std::string directory;         // D
  std::string device_directory;  // links to devices
  Duration heartbeat = std::chrono::seconds(3);
  Duration disk_interval = std::chrono::seconds(30);
};

// A disk that may be used, by its identity.
struct UsableDisk {
  std::string name;
  std::string path;
};

struct Env {
  Executor& executor;
  registry::Registry& registry;
  Host& host;
  const AgentOptions& options;
  Self self;
  std::map<std::string, UsableDisk> disks;           // by uuid
  std::map<std::string, std::string> disk_problems;  // by uuid, of those known before
};

template <class T>
const model::KindInfo& kind_of() {
  return kind_info(static_cast<const T*>(nullptr));
}

// Writes are signed with this name in managedFields.
registry::WriteOptions as_agent();

inline model::Time wall_of(const Clock& clock) {
  return model::Time(clock.wall().since_epoch);
}

// The bytes of a volume's secret as moorblk takes them: hexadecimal, because a token travels as text.
Task<Result<std::string>> read_volume_token(registry::Registry& registry, std::string space,
                                            std::string volume);

// States that a process leaves by itself within moments. They are told only when they last: whoever waits for
// the process waits for what follows, and every write costs the server and all who watch.
constexpr Duration kPassing = std::chrono::milliseconds(100);
inline bool is_passing(model::longhorn::InstanceState state) {
  using model::longhorn::InstanceState;
  return state == InstanceState::starting || state == InstanceState::stopping;
}

// The newer of two versions of one object.
bool is_newer(const Json& object, const Json& than);
// Writes the status if it differs from the one that `object` has; answers the object as it is then, or absent
// when there was nothing to write.
Task<Result<std::optional<Json>>> write_status(registry::Registry& registry, registry::ResourceName what,
                                               Json object, Json status);
Task<Result<void>> drop_finalizer(registry::Registry& registry, registry::ResourceName what, Json object);

}  // namespace moor::agent
