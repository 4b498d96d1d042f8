// A replica's directory on the loop: reads, writes, syncs and punches go through the ring; what is rare
// (names, sizes) blocks for a moment and completes at the end of the turn. O_DIRECT where the file system has
// it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "block/core/disk.h"
#include "block/io/loop.h"
#include "block/store/directory.h"

namespace moor::block {

class UringDisk final : public Disk, private io::TurnTask {
 public:
  // `progressed` is called after completions, for the machine to go on. Loop and directory outlive the disk,
  // and the disk outlives its commands.
  UringDisk(io::Loop& loop, Directory& directory, std::function<void()> progressed);
  ~UringDisk() override;

  void submit(DiskCommand& command) override;

 private:
  class Operation;
  void on_turn_end() override;
  Operation& take_operation();
  void finished(Operation& operation, DiskCommand& command, std::int64_t result);

  io::Loop& loop_;
  Directory& directory_;
  std::function<void()> progressed_;
  std::vector<std::unique_ptr<Operation>> all_;
  std::vector<Operation*> free_;
  std::vector<DiskCommand*> blocking_;
};

}  // namespace moor::block
