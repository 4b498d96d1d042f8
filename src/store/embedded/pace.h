// Pace: lets a long copy into a file reach the disk in small portions while it goes on. One sync of
// everything at its end would hold the disk for milliseconds, and with it every commit that syncs the log
// meanwhile.
//
// A Pace promises nothing about safety: the sync at the end does, and finds little left to do. It belongs to
// the thread that copies.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "base/result.h"

namespace moor::store::embedded {

class Pace {
 public:
  // Must outlive every SQLite connection to this file: by closing any descriptor of a file, a process gives
  // up all its locks on it.
  static Result<std::unique_ptr<Pace>> of(const std::filesystem::path& file);
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;
  ~Pace();

  // After each write: waits, now and then, until the disk has taken what was written.
  void wrote(std::size_t bytes);

 private:
  explicit Pace(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  std::size_t pending_ = 0;  // bytes
};

}  // namespace moor::store::embedded
