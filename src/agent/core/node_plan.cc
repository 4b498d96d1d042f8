#include "agent/core/node_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/plant.h"

namespace moor::agent {
namespace {

constexpr std::int64_t kWorthTelling = 200;  // one part of so many

}  // namespace

Lives current_life(const Lives& recorded, const Lives& told, const std::string& boot_id) {
  const Lives& newer = told.incarnation > recorded.incarnation ? told : recorded;
  if (newer.incarnation > 0 && (newer.boot_id == boot_id || MOOR_PLANT("agent-same-life-after-boot")))
    return newer;
  return {newer.incarnation + 1, boot_id};
}

bool is_newcomer(const Lives& recorded, const Lives& told, const std::string& boot_id) {
  if (told.incarnation == 0 || told.boot_id == boot_id) return false;
  return recorded.incarnation < told.incarnation ||
         (recorded.incarnation == told.incarnation && recorded.boot_id != told.boot_id);
}

std::string disk_objection(const model::longhorn::DiskStatus* known, const DiskFacts& facts) {
  if (!facts.problem.empty()) return facts.problem;
  if (known == nullptr || known->disk_uuid.empty() || known->disk_uuid == facts.uuid) return {};
  if (facts.uuid.empty()) return fmt::format("the disk lost its identity: it was {}", known->disk_uuid);
  return fmt::format("another disk is mounted there: {} instead of {}", facts.uuid, known->disk_uuid);
}

model::longhorn::Node first_node(const NodeOptions& options) {
  model::longhorn::Node node;
  node.metadata.name = options.name;
  node.spec.name = options.name;
  node.spec.allow_scheduling = true;
  model::longhorn::DiskSpec disk;
  disk.type = model::longhorn::DiskType::filesystem;
  disk.path = options.default_disk;
  disk.allow_scheduling = true;
  node.spec.disks["default"] = disk;
  return node;
}

model::longhorn::NodeStatus node_status(const model::longhorn::Node& object, const NodeOptions& options,
                                        const Lives& life, const std::map<std::string, DiskFacts>& disks,
                                        model::Time wall) {
  model::longhorn::NodeStatus status = object.status;
  status.incarnation = life.incarnation;
  status.boot_id = life.boot_id;
  status.zone = options.zone;
  status.region = options.region;
  std::erase_if(status.disk_status, [&](const auto& one) { return !object.spec.disks.contains(one.first); });
  for (const auto& [name, facts] : disks) {
    const auto spec = object.spec.disks.find(name);
    if (spec == object.spec.disks.end()) continue;
    model::longhorn::DiskStatus& disk = status.disk_status[name];
    const std::string why = disk_objection(&disk, facts);
    disk.disk_name = name;
    disk.disk_path = spec->second.path;
    disk.type = spec->second.type;
    disk.instance_manager_name = options.name;
    const bool ready = why.empty();
    if (ready) {
      disk.disk_uuid = facts.uuid;
      disk.filesystem_type = facts.filesystem;
      // A file system's room changes with every write; only what matters for placing is told.
      const std::int64_t change = std::abs(disk.storage_available - facts.available);
      if (disk.storage_maximum != facts.maximum || change * kWorthTelling >= facts.maximum)
        disk.storage_available = facts.available;
      disk.storage_maximum = facts.maximum;
    }
    set_condition(disk.conditions,
                  {std::string(model::longhorn::kDiskReady),
                   ready ? model::ConditionStatus::yes : model::ConditionStatus::no, "", "",
                   ready ? "" : "DiskNotReady", why},
                  wall);
  }
  return status;
}

void describe_core_node(model::core::Node& node, const NodeOptions& options, const std::string& boot_id,
                        const std::string& kernel) {
  auto& labels = node.metadata.labels;
  labels["kubernetes.io/hostname"] = options.name;
  const auto label = [&](const char* key, const std::string& value) {
    if (!value.empty()) labels[key] = value;
  };
  label("topology.kubernetes.io/zone", options.zone);
  label("topology.kubernetes.io/region", options.region);
  node.status.addresses = {{"InternalIP", options.address}, {"Hostname", options.name}};
  node.status.node_info.boot_id = boot_id;
  node.status.node_info.kernel_version = kernel;
  node.status.node_info.operating_system = "linux";
}

}  // namespace moor::agent
