#include "model/storage/csi_driver.h"

#include "model/make_kind.h"

namespace moor::model::storage {

MOOR_DESCRIBE(CSIDriverSpec, "What the driver needs.") {
  f.omit_empty();
  f.add("attachRequired", &CSIDriverSpec::attach_required,
        "Whether volumes are attached before they are mounted.")
      .default_to(true)
      .immutable();
  f.add("podInfoOnMount", &CSIDriverSpec::pod_info_on_mount, "Whether the driver is told about the pod.")
      .default_to(false);
  f.add("volumeLifecycleModes", &CSIDriverSpec::volume_lifecycle_modes, "Persistent, Ephemeral or both.")
      .list_set()
      .default_to(Json::array({"Persistent"}))
      .immutable();
  f.add("storageCapacity", &CSIDriverSpec::storage_capacity,
        "Whether the driver reports how much room it has.")
      .default_to(false);
  f.add("fsGroupPolicy", &CSIDriverSpec::fs_group_policy, "When ownership of files is changed for a pod.")
      .default_to("ReadWriteOnceWithFSType")
      .one_of({"ReadWriteOnceWithFSType", "File", "None"});
  f.add("tokenRequests", &CSIDriverSpec::token_requests, "Tokens the driver wants for the pod.");
  f.add("requiresRepublish", &CSIDriverSpec::requires_republish,
        "Whether the driver wants to be asked again and again.")
      .default_to(false);
  f.add("seLinuxMount", &CSIDriverSpec::se_linux_mount,
        "Whether the driver takes SELinux labels as mount options.")
      .default_to(false);
  f.preserve(&CSIDriverSpec::extra);
}

MOOR_DESCRIBE(CSIDriver, "A CSI driver of the cluster.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "CSIDriver");
  f.add("metadata", &CSIDriver::metadata, "Name of the driver and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &CSIDriver::spec, "What the driver needs.").required().omit_empty(false);
}

namespace {

Json tokens_cell(const Json& object, Time) {
  const Json* requests = object.find_path({"spec", "tokenRequests"});
  std::string text;
  for (std::size_t i = 0; requests != nullptr && requests->is_array() && i < requests->size(); ++i)
    text += (text.empty() ? "" : ",") + std::string(requests->at(i).get_string("audience").value_or(""));
  return text.empty() ? "<unset>" : text;
}

Json modes_cell(const Json& object, Time) {
  const Json* modes = object.find_path({"spec", "volumeLifecycleModes"});
  std::string text;
  for (std::size_t i = 0; modes != nullptr && modes->is_array() && i < modes->size(); ++i)
    if (modes->at(i).is_string()) text += (text.empty() ? "" : ",") + std::string(modes->at(i).as_string());
  return text.empty() ? "<none>" : text;
}

}  // namespace

MOOR_KIND(CSIDriver, .group = kGroup, .version = kVersion, .kind = "CSIDriver", .plural = "csidrivers",
          .singular = "csidriver", .namespaced = false, .has_status = false,
          .columns = {{.name = "AttachRequired",
                       .type = "boolean",
                       .path = ".spec.attachRequired",
                       .description = "Whether volumes are attached before they are mounted."},
                      {.name = "PodInfoOnMount",
                       .type = "boolean",
                       .path = ".spec.podInfoOnMount",
                       .description = "Whether the driver is told about the pod."},
                      {.name = "StorageCapacity",
                       .type = "boolean",
                       .path = ".spec.storageCapacity",
                       .description = "Whether it reports its room."},
                      {.name = "TokenRequests", .description = "Tokens it wants.", .cell = tokens_cell},
                      {.name = "RequiresRepublish",
                       .type = "boolean",
                       .path = ".spec.requiresRepublish",
                       .description = "Whether it wants to be asked again."},
                      {.name = "Modes", .description = "Kinds of volumes it makes.", .cell = modes_cell},
                      age_column()},
          .strategic_patch = true)

}  // namespace moor::model::storage
