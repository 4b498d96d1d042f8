// A directory of a test's own, removed with all in it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/assert.h"

namespace moor::store::embedded {

class TemporaryDirectory {
 public:
  // `parent` when it is a directory that can be written to, else the system's place for such things.
  explicit TemporaryDirectory(const std::filesystem::path& parent = {}) {
    const bool usable = !parent.empty() && access(parent.c_str(), W_OK | X_OK) == 0;
    std::string name =
        ((usable ? parent : std::filesystem::temp_directory_path()) / "moor-store-XXXXXX").string();
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
