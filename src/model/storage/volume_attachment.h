// Kubernetes' own request to attach a PersistentVolume to a node, which a CSI attacher serves. Not to be
// confused with longhorn.io's book of tickets.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/storage/group.h"

namespace moor::model::storage {

struct VolumeAttachmentSource {
  std::optional<std::string> persistent_volume_name = {};
  Json inline_volume_spec = {};
};
MOOR_DESCRIBED(VolumeAttachmentSource);

struct VolumeAttachmentSpec {
  std::string attacher = {};
  VolumeAttachmentSource source = {};
  std::string node_name = {};
};
MOOR_DESCRIBED(VolumeAttachmentSpec);

struct VolumeError {
  std::optional<Time> time = {};
  std::string message = {};
  std::optional<std::int32_t> error_code = {};
};
MOOR_DESCRIBED(VolumeError);

struct VolumeAttachmentStatus {
  bool attached = false;
  std::map<std::string, std::string> attachment_metadata = {};
  std::optional<VolumeError> attach_error = {};
  std::optional<VolumeError> detach_error = {};
  Json extra = {};
};
MOOR_DESCRIBED(VolumeAttachmentStatus);

struct VolumeAttachment {
  ObjectMeta metadata = {};
  VolumeAttachmentSpec spec = {};
  VolumeAttachmentStatus status = {};
};
MOOR_DESCRIBED_KIND(VolumeAttachment);

Causes validate_volume_attachment(const VolumeAttachment& attachment);

}  // namespace moor::model::storage
