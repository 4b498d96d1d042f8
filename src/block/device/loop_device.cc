#include "block/device/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "block/io/address.h"

namespace moor::block::device {

namespace {

constexpr int kAttachTries = 64;  // another process may take a free device first

Result<io::Descriptor> open_file(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + path);
  return io::Descriptor(fd);
}

}  // namespace

Result<std::string> attach_loop(const LoopOptions& options) {
  const int access = options.read_only ? O_RDONLY : O_RDWR;
  TRY(const auto file, open_file(options.file, access | O_DIRECT));
  TRY(const auto control, open_file("/dev/loop-control", O_RDWR));
  loop_config config{};
  config.fd = static_cast<__u32>(file.get());
  config.block_size = 512;  // clients may write single sectors; the engine takes any alignment
  config.info.lo_flags = LO_FLAGS_DIRECT_IO;
  if (options.read_only) config.info.lo_flags |= LO_FLAGS_READ_ONLY;
  std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), options.file.c_str(), LO_NAME_SIZE - 1);
  for (int i = 0; i < kAttachTries; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return errno_error(errno, "LOOP_CTL_GET_FREE");
    std::string path = fmt::format("/dev/loop{}", number);
    TRY(const auto device, open_file(path, access));
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) != 0) {
      if (errno == EBUSY) continue;
      return errno_error(errno, "LOOP_CONFIGURE " + path);
    }
    loop_info64 info{};
    const bool direct =
        ::ioctl(device.get(), LOOP_GET_STATUS64, &info) == 0 && (info.lo_flags & LO_FLAGS_DIRECT_IO) != 0;
    if (!direct) {
      ::ioctl(device.get(), LOOP_CLR_FD);
      return make_error(Errc::unsupported, path + " does not do direct I/O");
    }
    return path;
  }
  return make_error(Errc::exhausted, "every free loop device was taken by someone else");
}

Result<void> resize_loop(const std::string& device, const std::string& file) {
  struct stat attributes {
  };  // makes the kernel ask for the size; the loop driver only looks at what is known
  if (::stat(file.c_str(), &attributes) != 0) return errno_error(errno, "stat " + file);
  TRY(const auto loop, open_file(device, O_RDONLY));
  if (::ioctl(loop.get(), LOOP_SET_CAPACITY) != 0) return errno_error(errno, "LOOP_SET_CAPACITY " + device);
  return {};
}

// Not BLKFLSBUF: that first writes what is dirty and waits, and here nothing is answered until we are done.
Result<void> drop_pages(const std::string& device) {
  TRY(const auto loop, open_file(device, O_RDONLY));
  if (const int error = ::posix_fadvise(loop.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    return errno_error(error, "POSIX_FADV_DONTNEED " + device);
  }
  return {};
}

Result<std::string> detach_loop(const std::string& device) {
  std::string trouble;
  const int fd = ::open(device.c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  io::Descriptor loop(fd >= 0 ? fd : -1);
  if (fd < 0 && (errno == EROFS || errno == EACCES)) {
    TRY(loop, open_file(device, O_RDONLY | O_EXCL));
  } else if (fd < 0) {
    if (errno == EBUSY) return make_error(Errc::conflict, device + " is in use");
    return errno_error(errno, "open " + device);
  }
  if (::fsync(loop.get()) != 0) trouble = errno_error(errno, "fsync " + device).message;
  if (::ioctl(loop.get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
    return errno_error(errno, "LOOP_CLR_FD " + device);
  }
  return trouble;
}

Result<void> detach_loop_lazily(const std::string& device) {
  TRY(const auto loop, open_file(device, O_RDONLY));
  if (::ioctl(loop.get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
    return errno_error(errno, "LOOP_CLR_FD " + device);
  }
  return {};
}

std::vector<std::string> loops_below(const std::string& directory) {
  std::vector<std::string> devices;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", failed)) {
    const std::string name = entry.path().filename();
    std::ifstream backing(entry.path() / "loop/backing_file");
    std::string file;
    if (!name.starts_with("loop") || !std::getline(backing, file)) continue;
    if (file.starts_with(directory + "/")) devices.push_back("/dev/" + name);
  }
  return devices;
}

}  // namespace moor::block::device
