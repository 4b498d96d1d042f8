// What benches fill stores and disks with, and where they do it.
#pragma once

#include <cstddef>
#include <string>

namespace moor::bench {

// Letters up to `size`, not one repeated byte: nothing below may win by compressing them.
void append_noise(std::string& text, std::size_t seed, std::size_t size);
// An object of about so many bytes, different for each number.
std::string object_value(std::size_t number, std::size_t bytes);

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
