// What a replica asks of the file system, and how it hears the outcome. A Disk is one directory. Commands are
// submitted and complete later, in any order, on the thread of the machine's driver, never inside submit().
// The io_uring program, a plain blocking one and the simulator implement it.
//
// - pread and pwrite finish short transfers themselves: the result is the whole length, less only for a pread
// that
//   meets the end of the file; else -errno. What two commands under way at once do to the same bytes is
//   undefined.
// - Nothing is durable before fdatasync (contents) or sync_dir (names) has completed without error. A failed
// sync
//   means that some of it may be lost for good and a later sync may falsely succeed: the caller gives up the
//   file.
// - Names are plain file names in the directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "block/core/task.h"

namespace moor::block {

enum class DiskOp : std::uint8_t {
  open,    // name -> file; -ENOENT when absent. direct: without the page cache where that is possible
  create,  // name -> file, empty; an old one of that name loses its contents
  close,
  pread,
  pwrite,
  fdatasync,
  punch,     // deallocates [offset, offset + length): it reads as zeros; the size stays
  truncate,  // sets the size to offset
  size,      // -> the file's size
  rename,    // name -> new_name, replacing it
  unlink,
  sync_dir,
  list,  // -> names
};

// A handle of an open file; 0 is none.
using FileId = std::uint32_t;

class DiskBatch;

struct DiskCommand {
  DiskOp op = DiskOp::sync_dir;
  bool direct = false;
  FileId file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::byte* data = nullptr;  // pwrite only reads it
  std::string name;
  std::string new_name;

  std::int64_t result = 0;  // open, create: the FileId
  std::vector<std::string> names;

  // Called once by the Disk, when the command is done. The command may be gone when this returns.
  void complete(std::int64_t outcome);

 private:
  friend class DiskBatch;
  DiskBatch* batch_ = nullptr;
};

class Disk {
 public:
  virtual ~Disk() = default;
  // The command stays where it is, with the memory it points to, until it is complete.
  virtual void submit(DiskCommand& command) = 0;
};

// co_await DiskBatch(disk, runner, commands): submits them all and goes on when the last is done.
class DiskBatch {
 public:
  DiskBatch(Disk& disk, Runner& runner, std::span<DiskCommand> commands)
      : disk_(disk), runner_(runner), commands_(commands) {}

  bool await_ready() const { return commands_.empty(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    left_ = commands_.size();
    for (DiskCommand& command : commands_) {
      command.batch_ = this;
      disk_.submit(command);
    }
  }
  void await_resume() const {}

 private:
  friend struct DiskCommand;
  Disk& disk_;
  Runner& runner_;
  std::span<DiskCommand> commands_;
  std::coroutine_handle<> waiter_;
  std::size_t left_ = 0;
};

inline void DiskCommand::complete(std::int64_t outcome) {
  result = outcome;
  if (--batch_->left_ == 0) batch_->runner_.post(batch_->waiter_);
}

}  // namespace moor::block
