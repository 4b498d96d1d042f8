// The directory of an embedded store: who may use it, and making names in it safe.
//
//   D/store.db (+ -wal)   the store            D/lock   held by the process that has it open, with its number
//   D/store.db.new              a store being made; has no meaning until it is renamed
#pragma once

#include <filesystem>
#include <utility>

#include "base/result.h"

namespace moor::store::embedded {

inline constexpr const char* kFileName = "store.db";

// Held as long as the store is open. The kernel lets it go when the process dies, however it dies. A second
// open, also in the same process, gets Errc::unavailable with the number of the process that holds it.
class DirectoryLock {
 public:
  // Makes the directory when it is missing (mode 0700: there are secrets inside); its parent must exist.
  static Result<DirectoryLock> acquire(const std::filesystem::path& directory, bool create_directory);
  DirectoryLock(DirectoryLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Names made, renamed or removed in this directory survive a power loss from here on.
Result<void> sync_directory(const std::filesystem::path& directory);
Result<void> sync_file(const std::filesystem::path& file);
// An empty file with mode 0600, replacing what is there.
Result<void> make_private_file(const std::filesystem::path& file);
// A file that is not there is no error.
Result<void> remove_file(const std::filesystem::path& file);

}  // namespace moor::store::embedded
