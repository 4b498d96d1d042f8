#include "block/device/link.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

namespace moor::block::device {

Result<void> make_link(const std::string& path, const std::string& target) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISLNK(found.st_mode)) {
    return make_error(Errc::already_exists, path + " exists and is no link");
  }
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0) return errno_error(errno, "symlink " + fresh);
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    return errno_error(error, "rename " + fresh);
  }
  return {};
}

std::string read_link(const std::string& path) {
  char target[PATH_MAX];
  const auto size = ::readlink(path.c_str(), target, sizeof target);
  return size > 0 ? std::string(target, static_cast<std::size_t>(size)) : std::string();
}

void remove_link(const std::string& path, const std::vector<std::string>& targets) {
  const std::string target = read_link(path);
  if (target.empty()) return;
  if (!targets.empty() && std::find(targets.begin(), targets.end(), target) == targets.end()) return;
  ::unlink(path.c_str());
}

}  // namespace moor::block::device
