#include "store/embedded/pace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace moor::store::embedded {
namespace {
// As much as a commit of many writers: the disk is busy no longer for the copy than for one of them.
constexpr std::size_t kPortion = 64 * 1024;
}  // namespace

Result<std::unique_ptr<Pace>> Pace::of(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return errno_error(errno, "open " + file.string());
  return std::unique_ptr<Pace>(new Pace(descriptor));
}

Pace::~Pace() {
  close(descriptor_);
}

void Pace::wrote(std::size_t bytes) {
  pending_ += bytes;
  if (pending_ < kPortion) return;
  pending_ = 0;
  // A failure is not ours to judge: this is a file of our own, and the copy's sync gets to know it from its.
  static_cast<void>(sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
}

}  // namespace moor::store::embedded
