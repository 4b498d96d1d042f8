// Looking at the machine: disks, who uses a device, small files. Blocks; for threads of a pool.
#pragma once

#include <string>
#include <vector>

#include "agent/core/node_plan.h"
#include "base/result.h"

namespace moor::agent {

// The identity of a disk is a file on it, DISK/mooring-disk.json. With `fresh_uuid` a directory without one
// gets it (and is made if need be); without, its absence is a problem.
DiskFacts inspect_disk(const std::string& path, const std::string& fresh_uuid);
// "mounted at /mnt", "pid 4711 (fio)", "held by dm-0". Processes of other users are seen by root only.
std::vector<std::string> find_users(const std::string& device);
// The new name, and its content, survive a power cut.
Result<void> rename_durably(const std::string& from, const std::string& to);
Result<std::string> first_line(const std::string& path);
std::string last_line(const std::string& path);  // empty: none

}  // namespace moor::agent
