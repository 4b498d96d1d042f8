#include "model/mooring/instance.h"

#include <fmt/format.h>

#include <set>

#include "model/make_kind.h"

namespace moor::model::mooring {

MOOR_DESCRIBE(BlockDevice, "A volume of the instance and how the guest sees it.") {
  f.omit_empty();
  f.add("volume", &BlockDevice::volume, "Name of the volume.").required().not_empty();
  f.add("deviceName", &BlockDevice::device_name, "Name in the guest, such as vdb; empty: the next free one.");
  f.add("bus", &BlockDevice::bus, "How it is plugged in.").default_to("virtio").one_of({"virtio", "scsi"});
  f.add("bootIndex", &BlockDevice::boot_index,
        "Order in which devices are tried at boot; absent: not booted from.")
      .at_least(0);
  f.add("deleteOnTermination", &BlockDevice::delete_on_termination,
        "Whether the volume goes with the instance.");
  f.add("readOnly", &BlockDevice::read_only, "Whether the guest may only read.");
  f.add("tag", &BlockDevice::tag, "Name by which the guest can find it.");
  f.add("attachmentID", &BlockDevice::attachment_id,
        "Attachment that the mapping stands on. Set by the system.");
}

MOOR_DESCRIBE(InstanceSpec, "What the instance is asked to be.") {
  f.omit_empty();
  f.add("nodeID", &InstanceSpec::node_id, "Node it is to run on; empty: one is chosen.");
  f.add("power", &InstanceSpec::power,
        "Whether it is to run, to be stopped, or to be shelved: off its node, its volumes reserved.")
      .default_to("Running");
  f.add("cpus", &InstanceSpec::cpus, "Number of virtual processors.").default_to(1).at_least(1).at_most(256);
  f.add("memoryMiB", &InstanceSpec::memory_mib, "Memory in MiB.").default_to(256).at_least(16);
  f.add("kernel", &InstanceSpec::kernel, "Kernel to start directly; empty: boot from a device.");
  f.add("initrd", &InstanceSpec::initrd, "Initial file system for that kernel.");
  f.add("commandLine", &InstanceSpec::command_line, "Command line for that kernel.");
  f.add("blockDevices", &InstanceSpec::block_devices, "Volumes of the instance.")
      .list_map({"volume"})
      .max_items(32);
  f.add("projectID", &InstanceSpec::project_id, "Project that owns the instance.");
  f.add("userID", &InstanceSpec::user_id, "User who made the instance.");
}

MOOR_DESCRIBE(BlockDeviceStatus, "How one volume of the instance fares.") {
  f.omit_empty();
  f.add("volume", &BlockDeviceStatus::volume, "Name of the volume.").required();
  f.add("attachmentID", &BlockDeviceStatus::attachment_id, "Attachment in use.");
  f.add("nodeID", &BlockDeviceStatus::node_id, "Node it is attached to.");
  f.add("connected", &BlockDeviceStatus::connected, "Whether the node can reach it.");
  f.add("plugged", &BlockDeviceStatus::plugged, "Whether the guest has it.");
  f.add("path", &BlockDeviceStatus::path, "Device or address on the node.");
  f.add("error", &BlockDeviceStatus::error, "What went wrong.");
}

MOOR_DESCRIBE(InstanceFault, "Why the instance is in error.") {
  f.omit_empty();
  f.add("message", &InstanceFault::message, "What went wrong and what to repair.");
  f.add("at", &InstanceFault::at, "When.");
}

MOOR_DESCRIBE(InstanceStatus, "What is known of the instance.") {
  f.omit_empty();
  f.add("phase", &InstanceStatus::phase, "What the instance is doing.");
  f.add("currentNodeID", &InstanceStatus::current_node_id, "Node it runs on; empty: none.");
  f.add("operation", &InstanceStatus::operation, "Operation that is under way.");
  f.add("blockDevices", &InstanceStatus::block_devices,
        "How each volume fares; two entries of one volume during a move.");
  f.add("conditions", &InstanceStatus::conditions, "What is observed of the instance.").list_map({"type"});
  f.add("fault", &InstanceStatus::fault, "Why it is in error.");
  f.add("observedGeneration", &InstanceStatus::observed_generation,
        "The metadata.generation that was acted on.");
  f.add("console", &InstanceStatus::console, "Where its console is found.");
  f.add("launchedAt", &InstanceStatus::launched_at, "When it was started first.");
}

MOOR_DESCRIBE(Instance, "A virtual machine with its volumes.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Instance");
  f.add("metadata", &Instance::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Instance::spec, "What the instance is asked to be.").default_to(Json::object());
  f.add("status", &Instance::status, "What is known of the instance.");
}

namespace {

Json volumes_cell(const Json& object, Time) {
  const Json* devices = object.find_path({"spec", "blockDevices"});
  std::string text;
  for (std::size_t i = 0; devices != nullptr && devices->is_array() && i < devices->size(); ++i)
    text += (text.empty() ? "" : ",") + std::string(devices->at(i).get_string("volume").value_or(""));
  return text;
}

}  // namespace

MOOR_KIND(
    Instance, .group = kGroup, .version = kVersion, .kind = "Instance", .plural = "instances",
    .singular = "instance", .short_names = {"vm"}, .categories = {"mooring"}, .custom = true,
    .columns = {{.name = "Phase", .path = ".status.phase", .description = "What it is doing."},
                {.name = "Node", .path = ".status.currentNodeID", .description = "Node it runs on."},
                {.name = "Volumes", .description = "Volumes of the instance.", .cell = volumes_cell},
                {.name = "Operation", .path = ".status.operation", .description = "Operation under way."},
                age_column()},
    .selectable_fields = {"spec.nodeID", "status.currentNodeID", "status.phase"},
    .check = typed_check<Instance, validate_instance>)

Causes validate_instance(const Instance& instance) {
  Causes causes;
  std::set<std::string> names;
  std::set<std::int32_t> boot;
  for (std::size_t i = 0; i < instance.spec.block_devices.size(); ++i) {
    const BlockDevice& device = instance.spec.block_devices[i];
    const std::string path = fmt::format("spec.blockDevices[{}]", i);
    if (!device.device_name.empty() && !names.insert(device.device_name).second)
      causes.push_back(duplicate(path + ".deviceName", device.device_name));
    if (device.boot_index && !boot.insert(*device.boot_index).second)
      causes.push_back(duplicate(path + ".bootIndex", *device.boot_index));
  }
  return causes;
}

}  // namespace moor::model::mooring
