// File systems on devices of this node: made if there is none, mounted, taken away with proof. For whoever
// needs a volume as a directory (shares, instances, CSI): nothing here looks at objects.
//
// Every call may be repeated: what is already so is no error. A device that holds anything is never
// formatted.
#pragma once

#include <string>
#include <vector>

#include "agent/host.h"

namespace moor::agent {

struct FormatRequest {
  std::string device;
  std::string filesystem = "ext4";  // or xfs
};

struct MountRequest {
  std::string device;
  std::string target;
  std::string filesystem = "ext4";
  std::vector<std::string> options = {};  // noatime, ro, …
};

// Nothing of the device is mounted at the target any more, and the kernel has written what it held.
struct UnmountProof {
  std::string target;
  std::string device;  // empty: nothing was mounted there
};

// The file system on a device; empty: none. conflict: it holds something that is none.
Task<Result<std::string>> find_filesystem(Host& host, std::string device);
// conflict: it has another file system, or data without one.
Task<Result<void>> format_if_empty(Host& host, FormatRequest request);
// conflict: something else is mounted there.
Task<Result<void>> mount_device(Host& host, MountRequest request);
// conflict: somebody uses it; the message says what the kernel said.
Task<Result<UnmountProof>> unmount_device(Host& host, std::string target);

}  // namespace moor::agent
