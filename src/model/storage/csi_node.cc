#include "model/storage/csi_node.h"

#include "model/make_kind.h"

namespace moor::model::storage {

MOOR_DESCRIBE(VolumeNodeResources, "How many volumes of a driver the node can take.") {
  f.omit_empty();
  f.add("count", &VolumeNodeResources::count, "Most volumes attached at once; absent: no limit.").at_least(0);
}

MOOR_DESCRIBE(CSINodeDriver, "A driver that runs on the node.") {
  f.omit_empty();
  f.add("name", &CSINodeDriver::name, "Name of the driver.").required();
  f.add("nodeID", &CSINodeDriver::node_id, "Name that the driver knows the node by.").required();
  f.add("topologyKeys", &CSINodeDriver::topology_keys, "Labels that say where the node is.")
      .omit_empty(false);
  f.add("allocatable", &CSINodeDriver::allocatable, "How many volumes the node can take.");
}

MOOR_DESCRIBE(CSINodeSpec, "The drivers of the node.") {
  f.add("drivers", &CSINodeSpec::drivers, "Drivers that run on the node.").list_map({"name"}).required();
}

MOOR_DESCRIBE(CSINode, "The CSI drivers that run on a node.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "CSINode");
  f.add("metadata", &CSINode::metadata, "Name of the node and the rest of the metadata.").omit_empty(false);
  f.add("spec", &CSINode::spec, "The drivers of the node.").required().omit_empty(false);
}

namespace {

Json drivers_cell(const Json& object, Time) {
  const Json* drivers = object.find_path({"spec", "drivers"});
  return static_cast<std::int64_t>(drivers == nullptr ? 0 : drivers->size());
}

}  // namespace

MOOR_KIND(CSINode, .group = kGroup, .version = kVersion, .kind = "CSINode", .plural = "csinodes",
          .singular = "csinode", .namespaced = false, .has_status = false,
          .columns = {{.name = "Drivers",
                       .type = "integer",
                       .description = "How many drivers run there.",
                       .cell = drivers_cell},
                      age_column()},
          .strategic_patch = true)

}  // namespace moor::model::storage
