#include "block/store/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/assert.h"
#include "block/io/after_kill.h"

namespace moor::block {
namespace {

std::int64_t outcome(long result) {
  return result < 0 ? -errno : result;
}

}  // namespace

Result<std::unique_ptr<Directory>> Directory::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    Error error = errno_error(errno, "open " + path);
    if (errno == ENOENT) error.code = Errc::not_found;
    return error;
  }
  auto directory = std::unique_ptr<Directory>(new Directory(path, descriptor));
  int problem = 0;
  const bool locked = io::free_after_kill([descriptor, &problem] {
    problem = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    return problem != EWOULDBLOCK;
  });
  if (!locked) return make_error(Errc::unavailable, path + " is in use by another process");
  if (problem != 0) return errno_error(problem, "lock " + path);
  return directory;
}

Result<std::unique_ptr<Directory>> Directory::create(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno_error(errno, "mkdir " + path);
  return open(path);
}

Directory::~Directory() {
  for (const int file : files_) {
    if (file >= 0) ::close(file);
  }
  ::close(directory_);
}

int Directory::descriptor_of(FileId file) const {
  MOOR_ASSERT(file >= 1 && file <= files_.size() && files_[file - 1] >= 0, "file {} is not open", file);
  return files_[file - 1];
}

std::int64_t Directory::open_file(const DiskCommand& command, bool create) {
  // 0600: volume.meta holds the volume's token.
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0);
  int descriptor = -1;
  if (command.direct) descriptor = ::openat(directory_, command.name.c_str(), flags | O_DIRECT, 0600);
  // Some file systems know no O_DIRECT; the page cache is slower there and just as right.
  if (descriptor < 0 && (!command.direct || errno == EINVAL)) {
    descriptor = ::openat(directory_, command.name.c_str(), flags, 0600);
  }
  if (descriptor < 0) return -errno;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i] >= 0) continue;
    files_[i] = descriptor;
    return static_cast<std::int64_t>(i + 1);
  }
  files_.push_back(descriptor);
  return static_cast<std::int64_t>(files_.size());
}

void Directory::give_up_direct(FileId file) {
  const int descriptor = descriptor_of(file);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) (void)::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT);
}

std::int64_t Directory::transfer(DiskCommand& command, bool writing) {
  const int file = descriptor_of(command.file);
  std::uint64_t done = 0;
  while (done < command.length) {
    const auto offset = static_cast<off_t>(command.offset + done);
    const ssize_t got = writing ? ::pwrite(file, command.data + done, command.length - done, offset)
                                : ::pread(file, command.data + done, command.length - done, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && (::fcntl(file, F_GETFL) & O_DIRECT) != 0) {
      give_up_direct(command.file);
      continue;
    }
    if (got < 0) return -errno;
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  if (writing && done < command.length) return -EIO;
  return static_cast<std::int64_t>(done);
}

std::int64_t Directory::punch(const DiskCommand& command) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return outcome(::fallocate(descriptor_of(command.file), mode, static_cast<off_t>(command.offset),
                             static_cast<off_t>(command.length)));
}

std::int64_t Directory::list(DiskCommand& command) {
  const int copy = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return -errno;
  DIR* stream = ::fdopendir(copy);
  if (stream == nullptr) {
    const int error = errno;
    ::close(copy);
    return -error;
  }
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") command.names.push_back(name);
  }
  const int error = errno;
  ::closedir(stream);
  return -error;
}

std::int64_t Directory::perform(DiskCommand& command) {
  switch (command.op) {
    case DiskOp::open: return open_file(command, false);
    case DiskOp::create: return open_file(command, true);
    case DiskOp::close: {
      const int file = descriptor_of(command.file);
      files_[command.file - 1] = -1;
      return outcome(::close(file));
    }
    case DiskOp::pread: return transfer(command, false);
    case DiskOp::pwrite: return transfer(command, true);
    case DiskOp::fdatasync: return outcome(::fdatasync(descriptor_of(command.file)));
    case DiskOp::punch: return punch(command);
    case DiskOp::truncate:
      return outcome(::ftruncate(descriptor_of(command.file), static_cast<off_t>(command.offset)));
    case DiskOp::size: {
      struct stat status {};
      if (::fstat(descriptor_of(command.file), &status) != 0) return -errno;
      return status.st_size;
    }
    case DiskOp::rename:
      return outcome(::renameat(directory_, command.name.c_str(), directory_, command.new_name.c_str()));
    case DiskOp::unlink: return outcome(::unlinkat(directory_, command.name.c_str(), 0));
    case DiskOp::sync_dir: return outcome(::fsync(directory_));
    case DiskOp::list: return list(command);
  }
  MOOR_UNREACHABLE("unknown disk command");
}

bool PlainDisk::run_one() {
  if (queue_.empty()) return false;
  DiskCommand* command = queue_.front();
  queue_.erase(queue_.begin());
  command->complete(directory_.perform(*command));
  return true;
}

}  // namespace moor::block
