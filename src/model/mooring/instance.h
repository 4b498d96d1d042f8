// A virtual machine with its block-device mappings: which volumes it has, under which attachment.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"
#include "model/mooring/group.h"

namespace moor::model::mooring {

enum class InstancePower { none, running, stopped, shelved };
MOOR_ENUM_NAMES(InstancePower, "", "Running", "Stopped", "Shelved")

enum class InstancePhase {
  none,
  building,
  active,
  stopped,
  paused,
  migrating,
  resized,
  shelved,
  error,
  deleting
};
MOOR_ENUM_NAMES(InstancePhase, "", "Building", "Active", "Stopped", "Paused", "Migrating", "Resized",
                "Shelved", "Error", "Deleting")

struct BlockDevice {
  std::string volume = {};
  std::string device_name = {};
  std::string bus = {};
  std::optional<std::int32_t> boot_index = {};
  bool delete_on_termination = false;
  bool read_only = false;
  std::string tag = {};
  // Attachment that the mapping stands on; set means it is made with tickets. Empty: not attached yet.
  std::string attachment_id = {};
};
MOOR_DESCRIBED(BlockDevice);

struct InstanceSpec {
  std::string node_id = {};
  InstancePower power = InstancePower::none;
  std::int32_t cpus = 0;
  std::int64_t memory_mib = 0;
  std::string kernel = {};
  std::string initrd = {};
  std::string command_line = {};
  std::vector<BlockDevice> block_devices = {};
  std::string project_id = {};
  std::string user_id = {};
};
MOOR_DESCRIBED(InstanceSpec);

struct BlockDeviceStatus {
  std::string volume = {};
  std::string attachment_id = {};
  std::string node_id = {};
  bool connected = false;
  bool plugged = false;
  std::string path = {};
  std::string error = {};
};
MOOR_DESCRIBED(BlockDeviceStatus);

struct InstanceFault {
  std::string message = {};
  std::optional<Time> at = {};
};
MOOR_DESCRIBED(InstanceFault);

struct InstanceStatus {
  InstancePhase phase = InstancePhase::none;
  std::string current_node_id = {};
  std::string operation = {};  // the Operation under way
  std::vector<BlockDeviceStatus> block_devices = {};
  std::vector<StandardCondition> conditions = {};
  std::optional<InstanceFault> fault = {};
  std::int64_t observed_generation = 0;
  std::string console = {};
  std::optional<Time> launched_at = {};
};
MOOR_DESCRIBED(InstanceStatus);

struct Instance {
  ObjectMeta metadata = {};
  InstanceSpec spec = {};
  InstanceStatus status = {};
};
MOOR_DESCRIBED_KIND(Instance);

Causes validate_instance(const Instance& instance);

}  // namespace moor::model::mooring
