#include "model/core/pod.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/core/cells.h"
#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(ClaimVolumeSource, "A claim that is used as a volume.") {
  f.omit_empty();
  f.add("claimName", &ClaimVolumeSource::claim_name, "Claim in the pod's namespace.").required();
  f.add("readOnly", &ClaimVolumeSource::read_only, "Whether all mounts are read-only.");
}

MOOR_DESCRIBE(CsiVolumeSource, "A volume that a CSI driver makes for this pod alone.") {
  f.omit_empty();
  f.add("driver", &CsiVolumeSource::driver, "Name of the driver.").required();
  f.add("readOnly", &CsiVolumeSource::read_only, "Whether it is read-only.");
  f.add("fsType", &CsiVolumeSource::fs_type, "File system.");
  f.add("volumeAttributes", &CsiVolumeSource::volume_attributes, "Parameters for the driver.");
  f.preserve(&CsiVolumeSource::extra);
}

MOOR_DESCRIBE(PodVolume, "A volume that containers of the pod can mount.") {
  f.omit_empty();
  f.add("name", &PodVolume::name, "Name that mounts refer to.").required();
  f.add("persistentVolumeClaim", &PodVolume::persistent_volume_claim, "A claim as the source.");
  f.add("csi", &PodVolume::csi, "A CSI driver as the source.");
  f.preserve(&PodVolume::extra);
}

MOOR_DESCRIBE(VolumeMount, "Where a volume is mounted in a container.") {
  f.omit_empty();
  f.add("name", &VolumeMount::name, "Name of the volume.").required();
  f.add("mountPath", &VolumeMount::mount_path, "Directory in the container.").required();
  f.add("readOnly", &VolumeMount::read_only, "Whether the mount is read-only.");
  f.preserve(&VolumeMount::extra);
}

MOOR_DESCRIBE(VolumeDevice, "Where a raw block volume appears in a container.") {
  f.add("name", &VolumeDevice::name, "Name of the volume.").required();
  f.add("devicePath", &VolumeDevice::device_path, "Path of the device in the container.").required();
}

MOOR_DESCRIBE(Container, "A program that the pod runs.") {
  f.omit_empty();
  f.add("name", &Container::name, "Name of the container.").required();
  f.add("image", &Container::image, "Image that it runs.");
  f.add("volumeMounts", &Container::volume_mounts, "Volumes it mounts.").list_map({"mountPath"});
  f.add("volumeDevices", &Container::volume_devices, "Raw block volumes it uses.").list_map({"devicePath"});
  f.preserve(&Container::extra);
}

MOOR_DESCRIBE(PodSpec, "What the pod is asked to be.") {
  f.omit_empty();
  f.add("volumes", &PodSpec::volumes, "Volumes that containers can mount.").list_map({"name"});
  f.add("initContainers", &PodSpec::init_containers, "Containers that run first, one after the other.")
      .list_map({"name"});
  f.add("containers", &PodSpec::containers, "Containers that run side by side.")
      .list_map({"name"})
      .required();
  f.add("restartPolicy", &PodSpec::restart_policy, "When containers are started again.")
      .default_to("Always")
      .one_of({"Always", "OnFailure", "Never"});
  f.add("terminationGracePeriodSeconds", &PodSpec::termination_grace_period_seconds,
        "Seconds the pod has to end by itself.")
      .default_to(30);
  f.add("nodeSelector", &PodSpec::node_selector, "Labels that the node must have.").atomic();
  f.add("serviceAccountName", &PodSpec::service_account_name, "Identity the pod runs as.");
  f.add("nodeName", &PodSpec::node_name, "Node the pod runs on; set once.");
  f.add("hostNetwork", &PodSpec::host_network, "Whether the pod uses the node's network.");
  f.add("schedulerName", &PodSpec::scheduler_name, "Who chooses the node.").default_to("default-scheduler");
  f.preserve(&PodSpec::extra);
}

MOOR_DESCRIBE(PodCondition, "One thing observed of the pod.") {
  f.omit_empty();
  f.add("type", &PodCondition::type, "What is observed.").required();
  f.add("status", &PodCondition::status, "True, False or Unknown.").required();
  f.add("lastProbeTime", &PodCondition::last_probe_time, "When it was last looked at.");
  f.add("lastTransitionTime", &PodCondition::last_transition_time, "When the status last changed.");
  f.add("reason", &PodCondition::reason, "Why, in one word.");
  f.add("message", &PodCondition::message, "Why, in a sentence.");
  f.preserve(&PodCondition::extra);
}

MOOR_DESCRIBE(ContainerStatus, "How a container fares.") {
  f.omit_empty();
  f.add("name", &ContainerStatus::name, "Name of the container.").required();
  f.add("ready", &ContainerStatus::ready, "Whether it is ready.").omit_empty(false);
  f.add("restartCount", &ContainerStatus::restart_count, "How often it was started again.").omit_empty(false);
  f.add("image", &ContainerStatus::image, "Image that it runs.").omit_empty(false);
  f.add("imageID", &ContainerStatus::image_id, "Identity of the image.").omit_empty(false);
  f.add("started", &ContainerStatus::started, "Whether it has started.");
  f.add("state", &ContainerStatus::state, "waiting, running or terminated, with details.");
  f.preserve(&ContainerStatus::extra);
}

MOOR_DESCRIBE(PodVolumeStatus, "What controller and node tell each other about one volume of the pod.") {
  f.add("name", &PodVolumeStatus::name, "Name of the volume in the pod.").required();
  f.add("safeToMount", &PodVolumeStatus::safe_to_mount,
        "Said by the controller: attached, the node may mount.");
  f.add("safeToDetach", &PodVolumeStatus::safe_to_detach,
        "Said by the node: unmounted, the controller may detach.");
}

MOOR_DESCRIBE(PodStatus, "What is known of the pod.") {
  f.omit_empty();
  f.add("phase", &PodStatus::phase, "Pending, Running, Succeeded, Failed or Unknown.");
  f.add("conditions", &PodStatus::conditions, "What is observed of the pod.").list_map({"type"});
  f.add("message", &PodStatus::message, "Why it is in this phase, in a sentence.");
  f.add("reason", &PodStatus::reason, "Why it is in this phase, in one word.");
  f.add("nominatedNodeName", &PodStatus::nominated_node_name, "Node that is being cleared for the pod.");
  f.add("hostIP", &PodStatus::host_ip, "Address of the node.");
  f.add("podIP", &PodStatus::pod_ip, "Address of the pod.");
  f.add("startTime", &PodStatus::start_time, "When the node accepted the pod.");
  f.add("containerStatuses", &PodStatus::container_statuses, "How each container fares.");
  f.add("volumeStatuses", &PodStatus::volume_statuses,
        "What controller and node tell each other about volumes.")
      .list_map({"name"});
  f.preserve(&PodStatus::extra);
}

MOOR_DESCRIBE(Pod, "A group of containers that run together on one node.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Pod");
  f.add("metadata", &Pod::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Pod::spec, "What the pod is asked to be.").required();
  f.add("status", &Pod::status, "What is known of the pod.");
}

namespace {

const Json* container_statuses(const Json& object) {
  const Json* list = object.find_path({"status", "containerStatuses"});
  return list != nullptr && list->is_array() ? list : nullptr;
}

Json ready_cell(const Json& object, Time) {
  const Json* containers = object.find_path({"spec", "containers"});
  const Json* statuses = container_statuses(object);
  std::size_t ready = 0;
  for (std::size_t i = 0; statuses != nullptr && i < statuses->size(); ++i)
    ready += statuses->at(i).get_bool("ready").value_or(false) ? 1 : 0;
  return fmt::format("{}/{}", ready, containers == nullptr ? 0 : containers->size());
}

// The phase, or what a container waits or has ended for, or that the pod is going.
Json pod_status_cell(const Json& object, Time) {
  const Json* status = object.find("status");
  std::string text(status == nullptr ? "" : status->get_string("phase").value_or(""));
  if (status != nullptr) {
    const auto reason = status->get_string("reason").value_or("");
    if (!reason.empty()) text = reason;
  }
  const Json* statuses = container_statuses(object);
  for (std::size_t i = 0; statuses != nullptr && i < statuses->size(); ++i)
    for (const std::string_view state : {"waiting", "terminated"})
      if (const Json* found = statuses->at(i).find_path({"state", state}); found != nullptr)
        if (const auto reason = found->get_string("reason").value_or(""); !reason.empty()) text = reason;
  if (object.find_path({"metadata", "deletionTimestamp"}) != nullptr) text = "Terminating";
  return text;
}

Json restarts_cell(const Json& object, Time) {
  std::int64_t count = 0;
  const Json* statuses = container_statuses(object);
  for (std::size_t i = 0; statuses != nullptr && i < statuses->size(); ++i)
    count += statuses->at(i).get_int64("restartCount").value_or(0);
  return fmt::format("{}", count);
}

Json or_none(const Json& object, std::string_view part, std::string_view member) {
  const Json* found = object.find_path({part, member});
  return found == nullptr || !found->is_string() || found->as_string().empty() ? Json("<none>") : *found;
}

}  // namespace

MOOR_KIND(
    Pod, .version = kVersion, .kind = "Pod", .plural = "pods", .singular = "pod", .short_names = {"po"},
    .categories = {"all"},
    .columns = {{.name = "Ready", .description = "Containers that are ready, of all.", .cell = ready_cell},
                {.name = "Status", .description = "How far the pod has come.", .cell = pod_status_cell},
                {.name = "Restarts",
                 .description = "How often containers were started again.",
                 .cell = restarts_cell},
                age_column(),
                {.name = "IP",
                 .description = "Address of the pod.",
                 .priority = 1,
                 .cell = [](const Json& object, Time) { return or_none(object, "status", "podIP"); }},
                {.name = "Node",
                 .description = "Node the pod runs on.",
                 .priority = 1,
                 .cell = [](const Json& object, Time) { return or_none(object, "spec", "nodeName"); }},
                {.name = "Nominated Node",
                 .description = "Node that is being cleared for the pod.",
                 .priority = 1,
                 .cell = [](const Json& object,
                            Time) { return or_none(object, "status", "nominatedNodeName"); }}},
    .selectable_fields = {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
                          "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
                          "status.nominatedNodeName"},
    .strategic_patch = true, .check_update = typed_check_update<Pod, validate_pod_update>)

Causes validate_pod_update(const Pod& before, const Pod& after) {
  Causes causes;
  if (!before.spec.node_name.empty() && before.spec.node_name != after.spec.node_name)
    causes.push_back(forbidden("spec.nodeName", "a pod does not change its node; make a new one"));
  const auto same_names = [](const auto& was, const auto& is) {
    return std::equal(was.begin(), was.end(), is.begin(), is.end(),
                      [](const auto& a, const auto& b) { return a.name == b.name; });
  };
  if (!same_names(before.spec.volumes, after.spec.volumes))
    causes.push_back(forbidden("spec.volumes", "the volumes of a pod cannot change"));
  if (!same_names(before.spec.containers, after.spec.containers))
    causes.push_back(forbidden("spec.containers", "the containers of a pod cannot be added or removed"));
  return causes;
}

}  // namespace moor::model::core
