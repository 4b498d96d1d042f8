// An image that lies under the blocks of volumes made from it, with copies on several disks.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/longhorn/volume.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

enum class BackingImageState {
  none,
  pending,
  starting,
  ready_for_transfer,
  ready,
  in_progress,
  failed,
  failed_and_cleanup,
  unknown,
};
MOOR_ENUM_NAMES(BackingImageState, "", "pending", "starting", "ready-for-transfer", "ready", "in-progress",
                "failed", "failed-and-cleanup", "unknown")

enum class BackingImageSource { none, download, upload, export_from_volume, restore, clone };
MOOR_ENUM_NAMES(BackingImageSource, "", "download", "upload", "export-from-volume", "restore", "clone")

struct BackingImageDiskFileSpec {
  bool eviction_requested = false;
  DataEngine data_engine = DataEngine::none;
};
MOOR_DESCRIBED(BackingImageDiskFileSpec);

struct BackingImageDiskFileStatus {
  DataEngine data_engine = DataEngine::none;
  BackingImageState state = BackingImageState::none;
  std::int32_t progress = 0;
  std::string message = {};
  std::string last_state_transition_time = {};
};
MOOR_DESCRIBED(BackingImageDiskFileStatus);

struct BackingImageSpec {
  std::map<std::string, BackingImageDiskFileSpec> disk_file_spec_map = {};
  std::string checksum = {};
  BackingImageSource source_type = BackingImageSource::none;
  std::map<std::string, std::string> source_parameters = {};
  std::int32_t min_number_of_copies = 0;
  std::vector<std::string> disk_selector = {};
  std::vector<std::string> node_selector = {};
  std::string secret = {};
  std::string secret_namespace = {};
  DataEngine data_engine = DataEngine::none;
};
MOOR_DESCRIBED(BackingImageSpec);

struct BackingImageStatus {
  std::string owner_id = {};
  std::string uuid = {};
  std::int64_t size = 0;
  std::int64_t virtual_size = 0;
  std::int64_t real_size = 0;
  std::string checksum = {};
  std::map<std::string, BackingImageDiskFileStatus> disk_file_status_map = {};
  std::map<std::string, std::string> disk_last_ref_at_map = {};
};
MOOR_DESCRIBED(BackingImageStatus);

struct BackingImage {
  ObjectMeta metadata = {};
  BackingImageSpec spec = {};
  BackingImageStatus status = {};
};
MOOR_DESCRIBED_KIND(BackingImage);

Causes validate_backing_image(const BackingImage& image);

}  // namespace moor::model::longhorn
