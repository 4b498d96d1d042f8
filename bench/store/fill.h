// Stores with content for the benches: keys and values shaped like the objects that will live there.
#pragma once

#include <cstddef>
#include <string>

#include "base/executor.h"
#include "store/store.h"

namespace moor::bench {

std::string object_key(std::size_t number);  // longhorn.io/snapshots/longhorn-system/<name>
std::string object_value(std::size_t number, std::size_t bytes);
// Puts objects [0, count) in transactions of 100, many at a time. Asserts on failure: a bench without data is
// none.
void fill(Executor& executor, store::Store& store, std::size_t count, std::size_t value_bytes);
// A directory that is removed when this goes away.
class Scratch {
 public:
  explicit Scratch(const std::string& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace moor::bench
