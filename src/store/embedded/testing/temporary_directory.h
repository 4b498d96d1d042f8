// A directory of a test's own, removed with all in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/assert.h"

namespace moor::store::embedded {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "moor-store-XXXXXX").string();
    MOOR_ASSERT(mkdtemp(name.data()) != nullptr, "mkdtemp {}", name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;  // a test's leftovers are no reason to abort
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace moor::store::embedded
