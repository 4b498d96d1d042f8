#include "model/core/node.h"

#include "model/core/cells.h"
#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(Taint, "Keeps pods away from the node unless they tolerate it.") {
  f.omit_empty();
  f.add("key", &Taint::key, "Key of the taint.").required();
  f.add("value", &Taint::value, "Value of the taint.");
  f.add("effect", &Taint::effect, "What happens to pods: NoSchedule, PreferNoSchedule or NoExecute.")
      .required();
  f.add("timeAdded", &Taint::time_added, "When the taint was set.");
}

MOOR_DESCRIBE(NodeSpec, "What is wanted of the node.") {
  f.omit_empty();
  f.add("unschedulable", &NodeSpec::unschedulable, "Whether new pods are kept away (cordoned).");
  f.add("taints", &NodeSpec::taints, "Taints of the node.").patch_merge("key");
  f.add("providerID", &NodeSpec::provider_id, "Identity of the machine with its provider.");
  f.preserve(&NodeSpec::extra);
}

MOOR_DESCRIBE(NodeCondition, "One thing observed of the node.") {
  f.omit_empty();
  f.add("type", &NodeCondition::type, "What is observed.").required();
  f.add("status", &NodeCondition::status, "True, False or Unknown.").required();
  f.add("lastHeartbeatTime", &NodeCondition::last_heartbeat_time, "When it was last reported.");
  f.add("lastTransitionTime", &NodeCondition::last_transition_time, "When the status last changed.");
  f.add("reason", &NodeCondition::reason, "Why, in one word.");
  f.add("message", &NodeCondition::message, "Why, in a sentence.");
}

MOOR_DESCRIBE(NodeAddress, "An address of the node.") {
  f.add("type", &NodeAddress::type, "Hostname, InternalIP or ExternalIP.").required();
  f.add("address", &NodeAddress::address, "The address.").required();
}

MOOR_DESCRIBE(AttachedVolume, "A volume that is attached to the node.") {
  f.add("name", &AttachedVolume::name, "Unique name of the volume.").required();
  f.add("devicePath", &AttachedVolume::device_path, "Where the device is.").required();
}

MOOR_DESCRIBE(NodeSystemInfo, "What the machine is.") {
  f.add("machineID", &NodeSystemInfo::machine_id, "Identity of the installation.");
  f.add("systemUUID", &NodeSystemInfo::system_uuid, "Identity of the hardware.");
  f.add("bootID", &NodeSystemInfo::boot_id,
        "Identity of this boot; a new one means the machine was restarted.");
  f.add("kernelVersion", &NodeSystemInfo::kernel_version, "Version of the kernel.");
  f.add("osImage", &NodeSystemInfo::os_image, "Name of the operating system.");
  f.add("containerRuntimeVersion", &NodeSystemInfo::container_runtime_version,
        "Version of the container runtime.");
  f.add("kubeletVersion", &NodeSystemInfo::kubelet_version, "Version of the node's agent.");
  f.add("kubeProxyVersion", &NodeSystemInfo::kube_proxy_version, "Not used.");
  f.add("operatingSystem", &NodeSystemInfo::operating_system, "linux.");
  f.add("architecture", &NodeSystemInfo::architecture, "Processor architecture.");
  f.preserve(&NodeSystemInfo::extra);
}

MOOR_DESCRIBE(NodeStatus, "What is known of the node.") {
  f.omit_empty();
  f.add("capacity", &NodeStatus::capacity, "All that the node has.");
  f.add("allocatable", &NodeStatus::allocatable, "What pods may use of it.");
  f.add("phase", &NodeStatus::phase, "Not used any more.");
  f.add("conditions", &NodeStatus::conditions, "What is observed of the node.").list_map({"type"});
  f.add("addresses", &NodeStatus::addresses, "Where the node is reached.").list_map({"type"});
  f.add("nodeInfo", &NodeStatus::node_info, "What the machine is.");
  f.add("volumesInUse", &NodeStatus::volumes_in_use,
        "Volumes that are mounted, or may be: not safe to detach.");
  f.add("volumesAttached", &NodeStatus::volumes_attached, "Volumes that are attached.");
  f.preserve(&NodeStatus::extra);
}

MOOR_DESCRIBE(Node, "A machine that runs workloads.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Node");
  f.add("metadata", &Node::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Node::spec, "What is wanted of the node.");
  f.add("status", &Node::status, "What is known of the node.");
}

namespace {

Json node_status_cell(const Json& object, Time) {
  std::string text = "Unknown";
  const Json* conditions = object.find_path({"status", "conditions"});
  for (std::size_t i = 0; conditions != nullptr && conditions->is_array() && i < conditions->size(); ++i)
    if (conditions->at(i).get_string("type") == "Ready")
      text = conditions->at(i).get_string("status") == "True" ? "Ready" : "NotReady";
  const Json* cordoned = object.find_path({"spec", "unschedulable"});
  if (cordoned != nullptr && cordoned->is_bool() && cordoned->as_bool()) text += ",SchedulingDisabled";
  return text;
}

Json roles_cell(const Json& object, Time) {
  constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
  std::string text;
  const Json* labels = object.find_path({"metadata", "labels"});
  for (std::size_t i = 0; labels != nullptr && labels->is_object() && i < labels->size(); ++i) {
    const std::string_view key = labels->key_at(i);
    if (key.starts_with(kPrefix)) text += (text.empty() ? "" : ",") + std::string(key.substr(kPrefix.size()));
  }
  return text.empty() ? "<none>" : text;
}

Json address_cell(const Json& object, std::string_view type) {
  const Json* addresses = object.find_path({"status", "addresses"});
  for (std::size_t i = 0; addresses != nullptr && addresses->is_array() && i < addresses->size(); ++i)
    if (addresses->at(i).get_string("type") == type)
      return addresses->at(i).get_string("address").value_or("<none>");
  return "<none>";
}

Json internal_ip_cell(const Json& object, Time) {
  return address_cell(object, "InternalIP");
}

Json external_ip_cell(const Json& object, Time) {
  return address_cell(object, "ExternalIP");
}

}  // namespace

MOOR_KIND(
    Node, .version = kVersion, .kind = "Node", .plural = "nodes", .singular = "node", .short_names = {"no"},
    .namespaced = false,
    .columns = {{.name = "Status",
                 .description = "Whether the node is ready and takes pods.",
                 .cell = node_status_cell},
                {.name = "Roles", .description = "Roles of the node, from its labels.", .cell = roles_cell},
                age_column(),
                {.name = "Version",
                 .path = ".status.nodeInfo.kubeletVersion",
                 .description = "Version of the node's agent."},
                {.name = "Internal-IP",
                 .description = "Address inside the cluster.",
                 .priority = 1,
                 .cell = internal_ip_cell},
                {.name = "External-IP",
                 .description = "Address outside the cluster.",
                 .priority = 1,
                 .cell = external_ip_cell},
                {.name = "OS-Image",
                 .path = ".status.nodeInfo.osImage",
                 .description = "Operating system.",
                 .priority = 1},
                {.name = "Kernel-Version",
                 .path = ".status.nodeInfo.kernelVersion",
                 .description = "Version of the kernel.",
                 .priority = 1},
                {.name = "Container-Runtime",
                 .path = ".status.nodeInfo.containerRuntimeVersion",
                 .description = "Container runtime.",
                 .priority = 1}},
    .selectable_fields = {"spec.unschedulable"}, .strategic_patch = true)

bool Node::is_ready() const {
  for (const NodeCondition& condition : status.conditions)
    if (condition.type == "Ready") return condition.status == "True";
  return false;
}

bool Node::has_taint(std::string_view key) const {
  for (const Taint& taint : spec.taints)
    if (taint.key == key) return true;
  return false;
}

}  // namespace moor::model::core
