#include "bench/block/ram_disk.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "base/assert.h"
#include "bench/common/process.h"

namespace moor::bench {

void enter_own_mounts() {
  MOOR_ASSERT(geteuid() == 0, "the block benchmark mounts file systems: run it as root");
  MOOR_ASSERT(unshare(CLONE_NEWNS) == 0, "no mount namespace of our own");
  MOOR_ASSERT(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "cannot keep mounts private");
}

RamDisk::RamDisk(const std::string& mount_point, std::uint64_t bytes) : path_(mount_point) {
  const std::string image = fmt::format("/dev/shm/moor-bench-{}.img", getpid());
  run_or_die({"truncate", "-s", std::to_string(bytes), image});
  std::string device = run_or_die({"losetup", "--find", "--show", "--direct-io=on", image});
  device.pop_back();
  std::filesystem::remove(image);
  // Without lazy initialisation: it would write in the background of the first measurements.
  run_or_die({"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device});
  std::filesystem::create_directories(path_);
  run_or_die({"mount", device, path_});
  run_or_die({"losetup", "--detach", device});  // takes effect when the mount goes
}

RamDisk::~RamDisk() {
  run({"umount", path_});
}

}  // namespace moor::bench
