// A directory of a replica on a real file system: the lock that keeps a second process out, open files by
// number, and every Disk command in its blocking form. PlainDisk runs them all that way, for `create`,
// `check` and tests; UringDisk leaves reads, writes and syncs to the ring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/disk.h"

namespace moor::block {

class Directory {
 public:
  // unavailable: another process holds it. not_found: there is none.
  static Result<std::unique_ptr<Directory>> open(const std::string& path);
  // Makes it, parents not included, when it is missing; then as open().
  static Result<std::unique_ptr<Directory>> create(const std::string& path);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // Blocks. The result as Disk defines it; finishes short transfers.
  std::int64_t perform(DiskCommand& command);
  int descriptor() const { return directory_; }
  int descriptor_of(FileId file) const;
  // The file system took O_DIRECT at open and refused its use: this file goes through the page cache from now
  // on.
  void give_up_direct(FileId file);
  const std::string& path() const { return path_; }

 private:
  Directory(std::string path, int descriptor) : path_(std::move(path)), directory_(descriptor) {}
  std::int64_t open_file(const DiskCommand& command, bool create);
  std::int64_t transfer(DiskCommand& command, bool writing);
  std::int64_t punch(const DiskCommand& command);
  std::int64_t list(DiskCommand& command);

  std::string path_;
  int directory_;
  std::vector<int> files_;  // by FileId - 1; -1: closed
};

// Each command runs when the owner calls run_one(). For programs that have nothing else to do meanwhile.
class PlainDisk final : public Disk {
 public:
  explicit PlainDisk(Directory& directory) : directory_(directory) {}
  void submit(DiskCommand& command) override { queue_.push_back(&command); }
  // false: none is waiting.
  bool run_one();

 private:
  Directory& directory_;
  std::vector<DiskCommand*> queue_;
};

}  // namespace moor::block
