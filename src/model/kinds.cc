#include "model/kinds.h"

#include <algorithm>

namespace moor::model {

// One line per kind. The order is the order of discovery: within a name that two groups have (nodes,
// volumeattachments), kubectl takes the first.
#define MOOR_ALL_KINDS(X)            \
  X(core, Namespace)                 \
  X(core, Node)                      \
  X(core, Pod)                       \
  X(core, PersistentVolume)          \
  X(core, PersistentVolumeClaim)     \
  X(core, Event)                     \
  X(core, Secret)                    \
  X(storage, StorageClass)           \
  X(storage, VolumeAttachment)       \
  X(storage, CSINode)                \
  X(storage, CSIDriver)              \
  X(coordination, Lease)             \
  X(snapshot, VolumeSnapshot)        \
  X(snapshot, VolumeSnapshotContent) \
  X(snapshot, VolumeSnapshotClass)   \
  X(longhorn, Volume)                \
  X(longhorn, VolumeAttachment)      \
  X(longhorn, Engine)                \
  X(longhorn, Replica)               \
  X(longhorn, Snapshot)              \
  X(longhorn, Node)                  \
  X(longhorn, Backup)                \
  X(longhorn, BackupVolume)          \
  X(longhorn, BackupTarget)          \
  X(longhorn, RecurringJob)          \
  X(longhorn, ShareManager)          \
  X(longhorn, BackingImage)          \
  X(longhorn, Setting)               \
  X(mooring, Grant)                  \
  X(mooring, Ledger)                 \
  X(mooring, Instance)               \
  X(mooring, Operation)

#define MOOR_DECLARE_KIND(space, Type)    \
  namespace space {                       \
  struct Type;                            \
  const KindInfo& kind_info(const Type*); \
  }
MOOR_ALL_KINDS(MOOR_DECLARE_KIND)

namespace {

#define MOOR_LIST_KIND(space, Type) &space::kind_info(static_cast<const space::Type*>(nullptr)),

const std::vector<const KindInfo*>& kinds() {
  static const std::vector<const KindInfo*> all = {MOOR_ALL_KINDS(MOOR_LIST_KIND)};
  return all;
}

}  // namespace

std::span<const KindInfo* const> all_kinds() {
  return kinds();
}

std::span<const GroupVersion> all_group_versions() {
  static const std::vector<GroupVersion> all = [] {
    std::vector<GroupVersion> found;
    for (const KindInfo* kind : kinds()) {
      const GroupVersion one{kind->group, kind->version};
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
    }
    return found;
  }();
  return all;
}

std::vector<const KindInfo*> kinds_of(const GroupVersion& group_version) {
  std::vector<const KindInfo*> found;
  for (const KindInfo* kind : kinds())
    if (kind->group == group_version.group && kind->version == group_version.version) found.push_back(kind);
  return found;
}

const KindInfo* find_kind(std::string_view group, std::string_view version, std::string_view resource) {
  for (const KindInfo* kind : kinds())
    if (kind->plural == resource && kind->group == group && kind->version == version) return kind;
  return nullptr;
}

const KindInfo* find_kind_by_name(std::string_view api_version, std::string_view name) {
  const std::size_t slash = api_version.find('/');
  const std::string_view group = slash == std::string_view::npos ? "" : api_version.substr(0, slash);
  const std::string_view version =
      slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
  for (const KindInfo* kind : kinds())
    if (kind->kind == name && kind->group == group && kind->version == version) return kind;
  return nullptr;
}

}  // namespace moor::model
