// Disk commands as tasks with Results, and the one rule about failed syncs: after a sync has failed the page
// cache may call lost data clean, so a second try could falsely succeed. The directory is then *broken* until
// the process is started again and reads what is truly there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/disk.h"

namespace moor::block {

class DiskFiles {
 public:
  DiskFiles(Disk& disk, Runner& runner) : disk_(disk), runner_(runner) {}

  Disk& disk() { return disk_; }
  Runner& runner() { return runner_; }

  Task<Result<FileId>> open(std::string name, bool direct = false);
  Task<Result<FileId>> create(std::string name, bool direct = false);
  Task<void> close(FileId file);
  // Fills `into`; bytes beyond the end of the file are zeros. Returns how many came from the file.
  Task<Result<std::uint64_t>> read(FileId file, std::uint64_t offset, std::span<std::byte> into);
  Task<Result<void>> write(FileId file, std::uint64_t offset, std::span<const std::byte> from);
  Task<Result<void>> sync(FileId file);
  Task<Result<void>> sync_dir();
  Task<Result<void>> truncate(FileId file, std::uint64_t size);
  Task<Result<std::uint64_t>> size(FileId file);
  Task<Result<void>> rename(std::string from, std::string to);
  Task<Result<void>> unlink(std::string name);
  Task<Result<std::vector<std::string>>> list();
  // Contents and name durable, or the old file as it was: temp, fsync, rename, fsync of the directory.
  Task<Result<void>> replace(std::string name, std::span<const std::byte> contents);
  Task<Result<std::vector<std::byte>>> read_all(std::string name, std::uint64_t limit);

  bool broken() const { return !why_broken_.empty(); }
  const std::string& why_broken() const { return why_broken_; }
  void set_broken(std::string why) {
    if (why_broken_.empty()) why_broken_ = std::move(why);
  }
  Error broken_error() const { return make_error(Errc::unavailable, "replica is broken: " + why_broken_); }

 private:
  Disk& disk_;
  Runner& runner_;
  std::string why_broken_;
};

// ENOSPC keeps its meaning for the client; everything else the system reports is an I/O error.
Error disk_error(std::int64_t result, std::string_view what);

inline constexpr std::string_view kTempSuffix = ".tmp";

}  // namespace moor::block
