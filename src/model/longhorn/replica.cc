#include "model/longhorn/replica.h"

#include "model/longhorn/describe_instance.h"
#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(ReplicaSpec, "What is wanted of the replica.") {
  add_instance_spec(f);
  f.add("engineName", &ReplicaSpec::engine_name, "Engine that uses the replica.");
  f.add("migrationEngineName", &ReplicaSpec::migration_engine_name, "Standby engine during a move.");
  f.add("healthyAt", &ReplicaSpec::healthy_at, "When the replica came in step; empty: it is not.");
  f.add("failedAt", &ReplicaSpec::failed_at, "When the replica failed; empty: it has not.");
  f.add("lastHealthyAt", &ReplicaSpec::last_healthy_at, "When the replica was last seen in step.");
  f.add("lastFailedAt", &ReplicaSpec::last_failed_at, "When the replica last failed.");
  f.add("diskID", &ReplicaSpec::disk_id, "UUID of the disk that holds it.");
  f.add("diskPath", &ReplicaSpec::disk_path, "Path of that disk on its node.");
  f.add("dataDirectoryName", &ReplicaSpec::data_directory_name, "Directory of the replica on the disk.");
  f.add("backingImage", &ReplicaSpec::backing_image, "Image that lies under the volume's own blocks.");
  f.add("active", &ReplicaSpec::active, "Whether the replica is one of those in use.");
  f.add("hardNodeAffinity", &ReplicaSpec::hard_node_affinity, "Node the replica must be on; empty: any.");
  f.add("evictionRequested", &ReplicaSpec::eviction_requested, "Whether the replica is to leave its disk.");
  f.add("revisionCounterDisabled", &ReplicaSpec::revision_counter_disabled,
        "Accepted for old manifests; has no effect.");
  f.add("unmapMarkDiskChainRemovedEnabled", &ReplicaSpec::unmap_mark_disk_chain_removed_enabled,
        "Whether trimming also frees blocks held by the latest snapshots.");
  f.add("rebuildRetryCount", &ReplicaSpec::rebuild_retry_count, "How often a rebuild was tried.");
  f.add("snapshotMaxCount", &ReplicaSpec::snapshot_max_count, "Most snapshots the volume may have.");
  f.add("snapshotMaxSize", &ReplicaSpec::snapshot_max_size,
        "Most bytes of all snapshots together, written as a string.")
      .as_string();
}

MOOR_DESCRIBE(ReplicaStatus, "What is known of the replica.") {
  add_instance_status(f);
  f.add("epoch", &ReplicaStatus::epoch,
        "Highest epoch that the replica has stored: it obeys no older engine.")
      .omit_empty(false);
  f.add("generation", &ReplicaStatus::generation, "Generation of the Grant that the replica has stored.")
      .omit_empty(false);
  f.add("usedBytes", &ReplicaStatus::used_bytes, "Bytes that the replica uses on its disk.")
      .omit_empty(false);
}

MOOR_DESCRIBE(Replica, "One copy of a volume's data.") {
  f.type_meta(kApiVersion, "Replica");
  f.add("metadata", &Replica::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Replica::spec, "What is wanted of the replica.");
  f.add("status", &Replica::status, "What is known of the replica.");
}

MOOR_KIND(
    Replica, .group = kGroup, .version = kVersion, .kind = "Replica", .plural = "replicas",
    .singular = "replica", .short_names = {"lhr"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "Data Engine", .path = ".spec.dataEngine", .description = "What keeps the data."},
                {.name = "State", .path = ".status.currentState", .description = "State of the process."},
                {.name = "Node", .path = ".spec.nodeID", .description = "Node it runs on."},
                {.name = "Disk", .path = ".spec.diskID", .description = "Disk that holds it."},
                {.name = "InstanceManager",
                 .path = ".status.instanceManagerName",
                 .description = "Agent that runs the process."},
                {.name = "Image", .path = ".status.currentImage", .description = "Version of the program."},
                age_column()},
    .selectable_fields = {"spec.nodeID", "spec.volumeName"})

}  // namespace moor::model::longhorn
