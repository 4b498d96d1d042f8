#include "model/longhorn/share_manager.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(ShareManagerSpec, "What is wanted of the share.") {
  f.add("image", &ShareManagerSpec::image, "Version of the NFS server.");
}

MOOR_DESCRIBE(ShareManagerStatus, "What is known of the share.") {
  f.add("ownerID", &ShareManagerStatus::owner_id, "Node that serves the share.");
  f.add("state", &ShareManagerStatus::state, "State of the share.");
  f.add("currentImage", &ShareManagerStatus::current_image, "Version of the NFS server that runs.");
  f.add("endpoint", &ShareManagerStatus::endpoint, "Where the share is found: nfs://HOST/VOLUME.");
}

MOOR_DESCRIBE(ShareManager, "The NFS share of an rwx volume.") {
  f.type_meta(kApiVersion, "ShareManager");
  f.add("metadata", &ShareManager::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &ShareManager::spec, "What is wanted of the share.");
  f.add("status", &ShareManager::status, "What is known of the share.");
}

MOOR_KIND(ShareManager, .group = kGroup, .version = kVersion, .kind = "ShareManager",
          .plural = "sharemanagers", .singular = "sharemanager", .short_names = {"lhsm"},
          .categories = {"longhorn"}, .custom = true,
          .columns = {
              {.name = "State", .path = ".status.state", .description = "State of the share."},
              {.name = "Node", .path = ".status.ownerID", .description = "Node that serves it."},
              {.name = "Image", .path = ".status.currentImage", .description = "Version of the NFS server."},
              age_column()})

}  // namespace moor::model::longhorn
