// Volumes and their attachments as clients of the familiar REST see them: flat objects with `links` and
// `actions`, lists as collections. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::doors::longhorn {

// Everything that one volume's resource is made of.
struct VolumeParts {
  model::longhorn::Volume volume;
  std::optional<model::longhorn::VolumeAttachment> attachment;
  std::vector<model::longhorn::Engine> engines;
  std::vector<model::longhorn::Replica> replicas;
};

// `base` is where the client reaches this door: "https://host:6440/v1".
Json root_resource(const std::string& base);
Json volume_resource(const VolumeParts& parts, const std::string& base);
Json attachment_resource(const model::longhorn::VolumeAttachment& attachment, const std::string& base);
Json collection(std::string_view resource_type, std::vector<Json> items, const std::string& self);

}  // namespace moor::doors::longhorn
