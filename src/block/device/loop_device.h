// The kernel's loop devices. Every call here may block on the file below: in a Helper, never on the loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace moor::block::device {

struct LoopOptions {
  std::string file;
  bool read_only = false;
};

// "/dev/loop7", with direct I/O on the file: nothing is cached twice, and what was written has left this
// host's page cache when it is answered.
Result<std::string> attach_loop(const LoopOptions& options);
// The file has grown.
Result<void> resize_loop(const std::string& device, const std::string& file);
// The kernel forgets what it has read of the device and not changed. Never waits for changes to be written.
Result<void> drop_pages(const std::string& device);
// conflict: it is mounted or otherwise held. What is cached is written first; a failure of that is in the
// result's text, and the device is let go all the same, as the kernel has dropped those pages.
Result<std::string> detach_loop(const std::string& device);
// Detaches now or, if it is open somewhere, as soon as it is closed.
Result<void> detach_loop_lazily(const std::string& device);
// Devices on files below this directory. Looks only at sysfs and never blocks.
std::vector<std::string> loops_below(const std::string& directory);

}  // namespace moor::block::device
