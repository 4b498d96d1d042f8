// For tests of durability: a file system of its own on a loop device that can lose its power. Call
// private_mounts() first: the mounts then belong to this process and its children, and nothing stays however
// the test ends.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace moor::testing_support {

// False where the root is no mount point (a chroot).
inline bool private_mounts() {
  return unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

class LoopFileSystem {
 public:
  // `type`: ext4 or xfs.
  LoopFileSystem(const std::filesystem::path& place, std::string type)
      : image_(place / "image"), mounted_(place / "mounted"), type_(std::move(type)) {}
  ~LoopFileSystem() {
    if (is_mounted_) umount2(mounted_.c_str(), MNT_DETACH);
  }
  LoopFileSystem(const LoopFileSystem&) = delete;
  LoopFileSystem& operator=(const LoopFileSystem&) = delete;
  const std::filesystem::path& path() const { return mounted_; }

  bool make() {
    std::filesystem::create_directory(mounted_);
    return run(fmt::format("truncate -s 400M '{0}' && mkfs.{1} -q {2} '{0}'", image_.string(), type_,
                           type_ == "ext4" ? "-F" : "-f"));
  }
  bool mount() {
    is_mounted_ =
        run(fmt::format("mount -t {} -o loop '{}' '{}'", type_, image_.string(), mounted_.string()));
    return is_mounted_;
  }
  // The power is gone: nothing that was not synced reaches the device any more.
  bool shut_down() {
    constexpr unsigned long kShutdown = _IOR('X', 125, std::uint32_t);  // the same for ext4 and xfs
    std::uint32_t without_flushing_the_log = 2;
    const int descriptor = open(mounted_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = descriptor >= 0 && ioctl(descriptor, kShutdown, &without_flushing_the_log) == 0;
    if (descriptor >= 0) close(descriptor);
    return done;
  }
  bool unmount() {
    // The kernel lets go of what a killed process had under way a moment after the process is gone.
    for (int tries = 0; tries < 500; ++tries) {
      is_mounted_ = umount2(mounted_.c_str(), 0) != 0;
      if (!is_mounted_ || errno != EBUSY) break;
      ::poll(nullptr, 0, 20);
    }
    return !is_mounted_;
  }

 private:
  static bool run(const std::string& command) { return std::system(command.c_str()) == 0; }
  std::filesystem::path image_;
  std::filesystem::path mounted_;
  std::string type_;
  bool is_mounted_ = false;
};

}  // namespace moor::testing_support
