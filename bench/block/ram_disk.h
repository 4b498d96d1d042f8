// ext4 on a loop device on a file in memory: a disk without seeks, so that the programs are measured and not
// the machine's storage. Needs root.
//
// The mount lives in a mount namespace of this process alone, the loop device clears itself and the file has
// no name: however the benchmark ends, the kernel cleans up.
#pragma once

#include <cstdint>
#include <string>

namespace moor::bench {

// Once, at the start: mounts made from here on are ours.
void enter_own_mounts();

class RamDisk {
 public:
  RamDisk(const std::string& mount_point, std::uint64_t bytes);
  ~RamDisk();
  RamDisk(const RamDisk&) = delete;
  RamDisk& operator=(const RamDisk&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace moor::bench
