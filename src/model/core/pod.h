// A pod, as far as volumes are concerned: where it runs, which claims it uses, how far it has come.
// Everything else that Kubernetes knows of pods is kept as it came.
#pragma once

#include <map>

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"

namespace moor::model::core {

struct ClaimVolumeSource {
  std::string claim_name = {};
  bool read_only = false;
};
MOOR_DESCRIBED(ClaimVolumeSource);

struct CsiVolumeSource {
  std::string driver = {};
  std::optional<bool> read_only = {};
  std::optional<std::string> fs_type = {};
  std::map<std::string, std::string> volume_attributes = {};
  Json extra = {};
};
MOOR_DESCRIBED(CsiVolumeSource);

struct PodVolume {
  std::string name = {};
  std::optional<ClaimVolumeSource> persistent_volume_claim = {};
  std::optional<CsiVolumeSource> csi = {};
  Json extra = {};  // the other thirty kinds of volume
};
MOOR_DESCRIBED(PodVolume);

struct VolumeMount {
  std::string name = {};
  std::string mount_path = {};
  bool read_only = false;
  Json extra = {};
};
MOOR_DESCRIBED(VolumeMount);

struct VolumeDevice {
  std::string name = {};
  std::string device_path = {};
};
MOOR_DESCRIBED(VolumeDevice);

struct Container {
  std::string name = {};
  std::string image = {};
  std::vector<VolumeMount> volume_mounts = {};
  std::vector<VolumeDevice> volume_devices = {};
  Json extra = {};
};
MOOR_DESCRIBED(Container);

struct PodSpec {
  std::vector<PodVolume> volumes = {};
  std::vector<Container> init_containers = {};
  std::vector<Container> containers = {};
  std::string restart_policy = {};
  std::optional<std::int64_t> termination_grace_period_seconds = {};
  std::map<std::string, std::string> node_selector = {};
  std::string service_account_name = {};
  std::string node_name = {};
  bool host_network = false;
  std::string scheduler_name = {};
  Json extra = {};
};
MOOR_DESCRIBED(PodSpec);

struct PodCondition {
  std::string type = {};
  std::string status = {};
  std::optional<Time> last_probe_time = {};
  std::optional<Time> last_transition_time = {};
  std::string reason = {};
  std::string message = {};
  Json extra = {};
};
MOOR_DESCRIBED(PodCondition);

struct ContainerStatus {
  std::string name = {};
  bool ready = false;
  std::int32_t restart_count = 0;
  std::string image = {};
  std::string image_id = {};
  std::optional<bool> started = {};
  Json state = {};
  Json extra = {};
};
MOOR_DESCRIBED(ContainerStatus);

// The hand-shake of the attach/detach design: the controller says when a volume may be mounted, the node when
// it may be detached.
struct PodVolumeStatus {
  std::string name = {};
  bool safe_to_mount = false;
  bool safe_to_detach = false;
  bool operator==(const PodVolumeStatus&) const = default;
};
MOOR_DESCRIBED(PodVolumeStatus);

struct PodStatus {
  std::string phase = {};  // Pending, Running, Succeeded, Failed, Unknown
  std::vector<PodCondition> conditions = {};
  std::string message = {};
  std::string reason = {};
  std::string nominated_node_name = {};
  std::string host_ip = {};
  std::string pod_ip = {};
  std::optional<Time> start_time = {};
  std::vector<ContainerStatus> container_statuses = {};
  std::vector<PodVolumeStatus> volume_statuses = {};
  Json extra = {};
};
MOOR_DESCRIBED(PodStatus);

struct Pod {
  ObjectMeta metadata = {};
  PodSpec spec = {};
  PodStatus status = {};

  bool has_ended() const { return status.phase == "Succeeded" || status.phase == "Failed"; }
};
MOOR_DESCRIBED_KIND(Pod);

// What a pod wants cannot change once it exists, except where it runs, if it did not run anywhere yet.
Causes validate_pod_update(const Pod& before, const Pod& after);

}  // namespace moor::model::core
