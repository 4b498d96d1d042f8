#include "model/storage/storage_class.h"

#include "model/make_kind.h"

namespace moor::model::storage {

MOOR_DESCRIBE(StorageClass, "A class of storage that claims can ask for.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "StorageClass");
  f.add("metadata", &StorageClass::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("provisioner", &StorageClass::provisioner, "Driver that makes the volumes.")
      .required()
      .not_empty()
      .immutable();
  f.add("parameters", &StorageClass::parameters,
        "Parameters for the driver, such as numberOfReplicas or migratable.")
      .immutable();
  f.add("reclaimPolicy", &StorageClass::reclaim_policy, "What happens to a volume when its claim is gone.")
      .default_to("Delete")
      .one_of({"Delete", "Retain"})
      .immutable();
  f.add("mountOptions", &StorageClass::mount_options, "Options for mounting the volumes.");
  f.add("allowVolumeExpansion", &StorageClass::allow_volume_expansion, "Whether claims may grow.");
  f.add("volumeBindingMode", &StorageClass::volume_binding_mode,
        "When a volume is made: Immediate, or once a pod needs it.")
      .default_to("Immediate")
      .one_of({"Immediate", "WaitForFirstConsumer"})
      .immutable();
  f.add("allowedTopologies", &StorageClass::allowed_topologies, "Where volumes may be made.");
}

namespace {

Json name_cell(const Json& object, Time) {
  const Json* metadata = object.find("metadata");
  if (metadata == nullptr) return "";
  std::string text(metadata->get_string("name").value_or(""));
  const Json* annotations = metadata->find("annotations");
  if (annotations != nullptr && annotations->get_string(kDefaultClassAnnotation) == "true")
    text += " (default)";
  return text;
}

Json expansion_cell(const Json& object, Time) {
  return object.get_bool("allowVolumeExpansion").value_or(false);
}

}  // namespace

MOOR_KIND(
    StorageClass, .group = kGroup, .version = kVersion, .kind = "StorageClass", .plural = "storageclasses",
    .singular = "storageclass", .short_names = {"sc"}, .namespaced = false, .has_status = false,
    .columns =
        {{.name = "Provisioner", .path = ".provisioner", .description = "Driver that makes the volumes."},
         {.name = "ReclaimPolicy",
          .path = ".reclaimPolicy",
          .description = "What happens when the claim is gone."},
         {.name = "VolumeBindingMode", .path = ".volumeBindingMode", .description = "When a volume is made."},
         {.name = "AllowVolumeExpansion",
          .type = "boolean",
          .description = "Whether claims may grow.",
          .cell = expansion_cell},
         age_column()},
    .name_cell = name_cell, .strategic_patch = true,
    .check = typed_check<StorageClass, validate_storage_class>)

Causes validate_storage_class(const StorageClass& storage_class) {
  Causes causes;
  if (storage_class.parameters.size() > 512)
    causes.push_back(too_many("parameters", storage_class.parameters.size(), 512));
  std::size_t bytes = 0;
  for (const auto& [key, value] : storage_class.parameters) {
    bytes += key.size() + value.size();
    if (key.empty()) causes.push_back(invalid("parameters", key, "a parameter needs a name"));
  }
  if (bytes > 256 * 1024) causes.push_back(too_long("parameters", 256 * 1024));
  return causes;
}

}  // namespace moor::model::storage
