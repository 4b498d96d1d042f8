#include "model/longhorn/snapshot.h"

#include <fmt/format.h>

#include "model/make_kind.h"
#include "model/names.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(SnapshotSpec, "What the snapshot is asked to be. It cannot change.") {
  f.add("volume", &SnapshotSpec::volume, "Volume that the snapshot belongs to.")
      .required()
      .not_empty()
      .immutable();
  f.add("createSnapshot", &SnapshotSpec::create_snapshot,
        "Whether a snapshot is to be taken for this object; false for one that the engine already has.")
      .immutable();
  f.add("labels", &SnapshotSpec::labels, "Labels that are stored with the snapshot.").immutable();
}

MOOR_DESCRIBE(SnapshotStatus, "What is known of the snapshot.") {
  f.add("parent", &SnapshotStatus::parent, "Snapshot before this one; empty for the first.");
  f.add("children", &SnapshotStatus::children,
        "Snapshots after this one; volume-head is what is being written.");
  f.add("markRemoved", &SnapshotStatus::mark_removed, "Whether it is marked to be merged away.");
  f.add("userCreated", &SnapshotStatus::user_created, "Whether someone asked for it.");
  f.add("creationTime", &SnapshotStatus::creation_time, "When it was taken.");
  f.add("size", &SnapshotStatus::size, "Bytes that only this snapshot holds.");
  f.add("labels", &SnapshotStatus::labels, "Labels stored with the snapshot.");
  f.add("ownerID", &SnapshotStatus::owner_id, "Node or server that looks after the object.");
  f.add("error", &SnapshotStatus::error, "What went wrong.").omit_empty();
  f.add("restoreSize", &SnapshotStatus::restore_size, "Smallest volume in bytes that can hold the content.");
  f.add("readyToUse", &SnapshotStatus::ready_to_use, "Whether it can be restored, cloned or backed up.");
  f.add("checksum", &SnapshotStatus::checksum, "Checksum of the content, once computed.");
}

MOOR_DESCRIBE(Snapshot, "A snapshot of a volume.") {
  f.type_meta(kApiVersion, "Snapshot");
  f.add("metadata", &Snapshot::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &Snapshot::spec, "What the snapshot is asked to be.").required();
  f.add("status", &Snapshot::status, "What is known of the snapshot.");
}

MOOR_KIND(
    Snapshot, .group = kGroup, .version = kVersion, .kind = "Snapshot", .plural = "snapshots",
    .singular = "snapshot", .short_names = {"lhsnap"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "Volume", .path = ".spec.volume", .description = "Volume it belongs to."},
                {.name = "CreationTime", .path = ".status.creationTime", .description = "When it was taken."},
                {.name = "ReadyToUse",
                 .type = "boolean",
                 .path = ".status.readyToUse",
                 .description = "Whether it can be restored, cloned or backed up."},
                {.name = "RestoreSize",
                 .path = ".status.restoreSize",
                 .description = "Smallest volume that can hold the content."},
                {.name = "Size", .path = ".status.size", .description = "Bytes that only it holds."},
                age_column()},
    .selectable_fields = {"spec.volume", "status.readyToUse"},
    .check_update = typed_check_update<Snapshot, validate_snapshot_update>, .rules_concern_status = false)

Causes validate_snapshot_update(const Snapshot& before, const Snapshot& after) {
  Causes causes;
  const std::string key(kVolumeLabel);
  const auto was = before.metadata.labels.find(key);
  const auto is = after.metadata.labels.find(key);
  const std::string now = is == after.metadata.labels.end() ? "" : is->second;
  if (was != before.metadata.labels.end() && was->second != now)
    causes.push_back(immutable(fmt::format("metadata.labels[{}]", key), now));
  return causes;
}

std::map<std::string, std::string> selectable_labels(const SnapshotSpec& spec) {
  std::map<std::string, std::string> labels;
  for (const auto& [key, value] : spec.labels)
    if (is_qualified_name(key) && is_label_value(value)) labels.emplace(key, value);
  return labels;
}

}  // namespace moor::model::longhorn
