// Waiting until nodes are in: each has its Node with condition Ready and a Lease renewed since this start, so
// that what an earlier run left in the store does not count.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "base/cancel.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"

namespace moor::cmd {

struct NodesWanted {
  std::filesystem::path kubeconfig;
  std::set<std::string> names;
  std::function<void(const std::string&)> on_ready;  // each, once
};

// Settings that a machine for trying things out needs, made once; whoever changes them keeps his change. All
// nodes share one disk with everything else on the machine, so that it may be nearly full.
Task<Result<void>> ensure_dev_settings(Loop& loop, std::filesystem::path kubeconfig);

Task<Result<void>> wait_for_nodes(Loop& loop, NodesWanted wanted, CancelToken token);

}  // namespace moor::cmd
