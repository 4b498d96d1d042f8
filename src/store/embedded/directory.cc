#include "store/embedded/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace moor::store::embedded {
namespace {

std::string holder_of(int lock_file) {
  char text[32] = {};
  const ssize_t size = pread(lock_file, text, sizeof text - 1, 0);
  std::string holder(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder.empty() ? "another process" : "process " + holder;
}

Result<void> sync_path(const std::filesystem::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return errno_error(errno, "open " + path.string());
  const int failed = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (failed != 0) return errno_error(failed, "fsync " + path.string());
  return {};
}

}  // namespace

Result<DirectoryLock> DirectoryLock::acquire(const std::filesystem::path& directory, bool create_directory) {
  if (create_directory && mkdir(directory.c_str(), 0700) == 0) {
    const auto absolute = std::filesystem::absolute(directory);
    TRY_VOID(sync_directory(absolute.has_filename() ? absolute.parent_path()
                                                    : absolute.parent_path().parent_path()));
  } else if (create_directory && errno != EEXIST) {
    return errno_error(errno, "make directory " + directory.string());
  }
  const std::string path = directory / "lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno_error(errno, "open " + path);
  DirectoryLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_error(errno, "lock " + path);
    return make_error(Errc::unavailable, fmt::format("the store in {} is already open by {}",
                                                     directory.string(), holder_of(descriptor)));
  }
  // Only for the message above: on a full disk the number is missing and the lock still holds.
  const std::string number = fmt::format("{}\n", getpid());
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, number.data(), number.size(), 0) != static_cast<ssize_t>(number.size())) {
    if (errno != ENOSPC && errno != EDQUOT) return errno_error(errno, "write " + path);
  }
  return lock;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<void> sync_directory(const std::filesystem::path& directory) {
  return sync_path(directory, O_RDONLY | O_DIRECTORY);
}

Result<void> sync_file(const std::filesystem::path& file) {
  return sync_path(file, O_RDWR);
}

Result<void> make_private_file(const std::filesystem::path& file) {
  TRY_VOID(remove_file(file));
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno_error(errno, "create " + file.string());
  close(descriptor);
  return {};
}

Result<void> remove_file(const std::filesystem::path& file) {
  if (unlink(file.c_str()) != 0 && errno != ENOENT) return errno_error(errno, "remove " + file.string());
  return {};
}

}  // namespace moor::store::embedded
