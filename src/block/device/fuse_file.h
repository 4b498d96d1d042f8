// A mounted file system with one file, the volume. Turns what the kernel asks for into requests of the
// bridge; decides nothing about them. On the loop, one thread: the FUSE descriptor is polled like a socket.
//
// This process must never touch the file itself (open, stat, a loop device on it): it would wait for its own
// answer. Such work goes through a Helper.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "block/core/bridge.h"
#include "block/io/loop.h"

namespace moor::block::device {

class FuseHandler {
 public:
  virtual void on_request(bridge::Request request) = 0;
  virtual std::uint64_t volume_size() const = 0;
  // While false nothing is read from the kernel; answer() looks again.
  virtual bool has_room() const = 0;
  // Someone opened the file or let go of it.
  virtual void on_opens(unsigned open) = 0;
  virtual bool may_open() const = 0;
  // Unmounted or aborted by someone else. The last call.
  virtual void on_gone() = 0;

 protected:
  ~FuseHandler() = default;
};

struct FuseOptions {
  std::string directory;  // made if it is missing
  std::uint32_t max_io_bytes = 1u << 20;
  bool read_only = false;
};

class FuseFile {
 public:
  static constexpr char kName[] = "volume";

  static Result<std::unique_ptr<FuseFile>> mount(io::Loop& loop, BufferPool& pool, FuseOptions options,
                                                 FuseHandler& handler);
  // Unmounts; whoever still has the file open gets errors.
  ~FuseFile();
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;

  std::string path() const;
  void answer(const bridge::Answer& answer);
  unsigned opens() const;
  // Every waiter in the kernel gets an error now, also those whose request was never read. Then on_gone().
  void abort();

 private:
  class Core;
  explicit FuseFile(std::unique_ptr<Core> core);
  Core* core_;
  io::Loop& loop_;
};

// Aborts the FUSE connection mounted there, if any, and takes the mount away, whoever served it.
void force_unmount(const std::string& directory);

}  // namespace moor::block::device
