// Many volumes attached and detached through the API, with the time of each step, as a client sees it: the
// ticket is written → the ticket is satisfied → a block has been read from the device; the ticket is taken
// back → the volume is detached.
#pragma once

#include <string>
#include <vector>

#include "base/loop.h"
#include "base/pool.h"
#include "base/result.h"
#include "base/task.h"
#include "registry/registry.h"

namespace moor::bench {

struct RunOptions {
  std::vector<std::string> volumes;
  int nodes = 3;
  bool read_device = true;  // hollow agents have none
};

struct Times {
  std::vector<Duration> satisfied;  // from asking
  std::vector<Duration> usable;     // from asking; equals satisfied without devices
  std::vector<Duration> detached;   // from taking back
  Duration attach_span{};           // the first asking to the last usable
  Duration detach_span{};
};

struct RunEnv {
  Loop& loop;
  registry::Registry& registry;
  Pool& pool;
};

// What one durable write through the API takes, one after the other: the unit in which hops are counted, on a
// disk that others use too.
Task<Result<std::vector<Duration>>> write_one_by_one(RunEnv env, int count);
// Makes the volumes and waits until each has its book of tickets and places for its replicas.
Task<Result<void>> make_volumes(RunEnv env, std::vector<std::string> names, std::string size, int replicas);
// Waits for that many nodes to be Ready.
Task<Result<void>> wait_for_ready_nodes(RunEnv env, int nodes);
// Attaches all at once and waits for all.
Task<Result<void>> attach_all(RunEnv env, RunOptions options, Times* times);
Task<Result<void>> detach_all(RunEnv env, RunOptions options, Times* times);

}  // namespace moor::bench
