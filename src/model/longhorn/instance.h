// What engines and replicas have in common: a process on a node that is wanted in some state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/longhorn/volume.h"

namespace moor::model::longhorn {

enum class InstanceState { none, running, stopped, error, starting, stopping, suspended, unknown };
MOOR_ENUM_NAMES(InstanceState, "", "running", "stopped", "error", "starting", "stopping", "suspended",
                "unknown")

struct InstanceSpec {
  std::string volume_name = {};
  std::int64_t volume_size = 0;
  std::string node_id = {};
  std::string image = {};
  InstanceState desire_state = InstanceState::none;
  bool log_requested = false;
  bool salvage_requested = false;
  DataEngine data_engine = DataEngine::none;
};

struct InstanceStatus {
  std::string owner_id = {};
  std::string instance_manager_name = {};
  InstanceState current_state = InstanceState::none;
  std::string current_image = {};
  std::string ip = {};
  std::string storage_ip = {};
  std::int32_t port = 0;
  bool started = false;
  bool log_fetched = false;
  bool salvage_executed = false;
  std::vector<Condition> conditions = {};
};

}  // namespace moor::model::longhorn
