// moor volume create | list | show | delete | device. Arguments are checked whole before the first write, so
// that a mistake changes nothing.
#pragma once

#include <string>

#include "cli/context.h"
#include "cli/outcome.h"
#include "model/longhorn/engine.h"

namespace moor::cli {

struct CreateVolume {
  std::string name;
  std::string size;
  int replicas = 3;
  std::string access_mode = "rwo";
  bool migratable = false;
  bool wait = false;
  Duration timeout{};
};
Task<Outcome<void>> create_volume(Context& context, CreateVolume wanted);

Task<Outcome<void>> list_volumes(Context& context);
Task<Outcome<void>> show_volume(Context& context, std::string name);

struct DeleteVolume {
  std::string name;
  bool wait = false;
  bool force = false;  // also while a ticket asks for it on a node
  Duration timeout{};
};
Task<Outcome<void>> delete_volume(Context& context, DeleteVolume which);

// Where an attached volume can be used: the block device on its node (absent without a front end) and the NBD
// export of its engine.
struct VolumeDevice {
  std::string device;
  std::string nbd;
};
VolumeDevice device_of(const model::longhorn::Engine& engine);
Task<Outcome<void>> show_device(Context& context, std::string name);

}  // namespace moor::cli
