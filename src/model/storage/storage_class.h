// A class of storage: which driver makes volumes for claims, with which parameters.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/storage/group.h"

namespace moor::model::storage {

struct StorageClass {
  ObjectMeta metadata = {};
  std::string provisioner = {};
  std::map<std::string, std::string> parameters = {};
  std::string reclaim_policy = {};
  std::vector<std::string> mount_options = {};
  std::optional<bool> allow_volume_expansion = {};
  std::string volume_binding_mode = {};
  Json allowed_topologies = {};
};
MOOR_DESCRIBED_KIND(StorageClass);

inline constexpr std::string_view kDefaultClassAnnotation = "storageclass.kubernetes.io/is-default-class";

Causes validate_storage_class(const StorageClass& storage_class);

}  // namespace moor::model::storage
