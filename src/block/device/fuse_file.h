// A mounted file system with one file, the volume. Turns what the kernel asks for into requests of the
// bridge; decides nothing about them. On the loop, one thread: the FUSE descriptor is polled like a socket.
//
// This process must never touch the file itself (open, stat, a loop device on it): it would wait for its own
// answer. Such work goes through a Helper.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "block/device/front.h"
#include "block/io/loop.h"

namespace moor::block::device {

struct FuseOptions {
  std::string directory;  // made if it is missing
  std::uint32_t max_io_bytes = 1u << 20;
  bool read_only = false;
};

class FuseFile final : public Front {
 public:
  static constexpr char kName[] = "volume";

  static Result<std::unique_ptr<FuseFile>> mount(io::Loop& loop, BufferPool& pool, FuseOptions options,
                                                 FrontHandler& handler);
  // Unmounts; whoever still has the file open gets errors.
  ~FuseFile() override;
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;

  std::string path() const override;
  void answer(const bridge::Answer& answer) override;
  unsigned opens() const override;
  void abort() override;

 private:
  class Core;
  explicit FuseFile(std::unique_ptr<Core> core);
  Core* core_;
  io::Loop& loop_;
};

// Aborts the FUSE connection mounted there, if any, and takes the mount away, whoever served it.
void force_unmount(const std::string& directory);

}  // namespace moor::block::device
