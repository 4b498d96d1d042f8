#include "model/longhorn/node.h"

#include <fmt/format.h>

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(DiskSpec, "A disk of the node, as it is wanted.") {
  f.add("diskType", &DiskSpec::type, "filesystem: a directory; block: a whole device.")
      .default_to("filesystem");
  f.add("path", &DiskSpec::path, "Directory or device on the node.");
  f.add("diskDriver", &DiskSpec::disk_driver, "Driver of a block disk; empty chooses one.")
      .one_of({"", "auto", "aio", "nvme"});
  f.add("allowScheduling", &DiskSpec::allow_scheduling, "Whether new replicas may be placed here.");
  f.add("evictionRequested", &DiskSpec::eviction_requested, "Whether all replicas are to leave.");
  f.add("storageReserved", &DiskSpec::storage_reserved, "Bytes that are kept free for others.").at_least(0);
  f.add("tags", &DiskSpec::tags, "Tags that volumes select disks by.");
}

MOOR_DESCRIBE(DiskStatus, "A disk of the node, as it is.") {
  f.add("conditions", &DiskStatus::conditions, "Ready and Schedulable, with their reasons.")
      .list_map({"type"})
      .atomic_items();
  f.add("storageAvailable", &DiskStatus::storage_available, "Bytes free.");
  f.add("storageScheduled", &DiskStatus::storage_scheduled, "Bytes promised to replicas.");
  f.add("storageMaximum", &DiskStatus::storage_maximum, "Bytes in all.");
  f.add("scheduledReplica", &DiskStatus::scheduled_replica, "Bytes promised to each replica.");
  f.add("scheduledBackingImage", &DiskStatus::scheduled_backing_image,
        "Bytes promised to each backing image.");
  f.add("diskUUID", &DiskStatus::disk_uuid, "Identity that is stored on the disk itself.");
  f.add("diskName", &DiskStatus::disk_name, "Name of the disk.");
  f.add("diskPath", &DiskStatus::disk_path, "Directory or device on the node.");
  f.add("diskType", &DiskStatus::type, "filesystem or block.");
  f.add("diskDriver", &DiskStatus::disk_driver, "Driver in use.");
  f.add("filesystemType", &DiskStatus::filesystem_type, "File system that was found.");
  f.add("instanceManagerName", &DiskStatus::instance_manager_name, "Agent that serves the disk.");
}

MOOR_DESCRIBE(NodeSpec, "How the node is wanted to be used.") {
  f.add("name", &NodeSpec::name, "Name of the node.");
  f.add("disks", &NodeSpec::disks, "Disks of the node, by name.");
  f.add("allowScheduling", &NodeSpec::allow_scheduling, "Whether new replicas may be placed here.");
  f.add("evictionRequested", &NodeSpec::eviction_requested, "Whether all replicas are to leave.");
  f.add("tags", &NodeSpec::tags, "Tags that volumes select nodes by.");
  f.add("instanceManagerCPURequest", &NodeSpec::instance_manager_cpu_request,
        "Accepted for old manifests; has no effect.");
}

MOOR_DESCRIBE(SnapshotCheckStatus, "When snapshots were last checked.") {
  f.add("lastPeriodicCheckedAt", &SnapshotCheckStatus::last_periodic_checked_at,
        "When the last periodic check ended.");
}

MOOR_DESCRIBE(NodeStatus, "What is known of the node.") {
  f.add("conditions", &NodeStatus::conditions, "Ready and Schedulable, with their reasons.")
      .list_map({"type"})
      .atomic_items();
  f.add("diskStatus", &NodeStatus::disk_status, "The disks as they are, by name.");
  f.add("region", &NodeStatus::region, "Region the node is in.");
  f.add("zone", &NodeStatus::zone, "Zone the node is in.");
  f.add("snapshotCheckStatus", &NodeStatus::snapshot_check_status, "When snapshots were last checked.");
  f.add("autoEvicting", &NodeStatus::auto_evicting, "Whether replicas leave because the node is cordoned.");
  f.add("incarnation", &NodeStatus::incarnation, "Counts the lives of the node: it grows with each boot.");
  f.add("bootID", &NodeStatus::boot_id, "Boot that the present incarnation stands for.");
}

MOOR_DESCRIBE(Node, "A node as a place for replicas.") {
  f.type_meta(kApiVersion, "Node");
  f.add("metadata", &Node::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Node::spec, "How the node is wanted to be used.");
  f.add("status", &Node::status, "What is known of the node.");
}

MOOR_KIND(Node, .group = kGroup, .version = kVersion, .kind = "Node", .plural = "nodes", .singular = "node",
          .short_names = {"lhn"}, .categories = {"longhorn"}, .custom = true,
          .columns = {{.name = "Ready",
                       .path = ".status.conditions[?(@.type==\"Ready\")].status",
                       .description = "Whether the node answers."},
                      {.name = "AllowScheduling",
                       .type = "boolean",
                       .path = ".spec.allowScheduling",
                       .description = "Whether new replicas are wanted here."},
                      {.name = "Schedulable",
                       .path = ".status.conditions[?(@.type==\"Schedulable\")].status",
                       .description = "Whether new replicas can be placed here."},
                      age_column()},
          .check = typed_check<Node, validate_node>, .rules_concern_status = false)

Causes validate_node(const Node& node) {
  Causes causes;
  std::map<std::string, std::string> by_path;
  for (const auto& [name, disk] : node.spec.disks) {
    const std::string field = fmt::format("spec.disks[{}].path", name);
    if (disk.path.empty()) {
      causes.push_back(required(field));
      continue;
    }
    // Two disks over one directory would count the same room twice.
    const auto [other, fresh] = by_path.emplace(disk.path, name);
    if (!fresh)
      causes.push_back(
          invalid(field, disk.path, fmt::format("is the path of disk \"{}\" too", other->second)));
  }
  if (!node.spec.name.empty() && node.spec.name != node.metadata.name)
    causes.push_back(invalid("spec.name", node.spec.name, "must be the name of the object"));
  return causes;
}

}  // namespace moor::model::longhorn
