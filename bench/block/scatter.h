// Many small writes at given places, all in flight at once, through libnbd: fio would need a process per
// snapshot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct nbd_handle;

namespace moor::bench {

class Scatter {
 public:
  explicit Scatter(const std::string& uri);
  ~Scatter();
  Scatter(const Scatter&) = delete;
  Scatter& operator=(const Scatter&) = delete;
  // 4 KiB of `fill` at each of these offsets; returns when all are acknowledged. Asserts on any error.
  void write(const std::vector<std::uint64_t>& offsets, std::uint8_t fill);

 private:
  nbd_handle* handle_;
};

}  // namespace moor::bench
