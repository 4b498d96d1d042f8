// What takes a device away whatever its processes do: for `--force-remove`, and for what a killed process
// left. Blocks for some seconds at most; for a program of its own, not for a loop.
#pragma once

#include <string>

#include "base/result.h"

namespace moor::block::device {

struct DeviceNames {
  std::string path;       // the link
  std::string control;    // the control socket
  std::string directory;  // where the FUSE file is mounted; what an nbd device is marked with
};

// Asks the device's process; if it does not do it in time, aborts the FUSE connection and kills it. Removing
// what is not there is no error.
Result<void> force_remove(const DeviceNames& names);
// The same without a process to ask: mount, loop or nbd device and link of one that is dead.
Result<void> remove_leftovers(const DeviceNames& names);

}  // namespace moor::block::device
