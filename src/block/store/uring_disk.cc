#include "block/store/uring_disk.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kMaxTransfer = 1u << 30;  // the kernel's own limit is 2 GiB less a page

}  // namespace

// One command under way, in as many pieces as the kernel makes of it.
class UringDisk::Operation final : public io::Completion {
 public:
  explicit Operation(UringDisk& disk) : disk_(disk) {}

  void start(DiskCommand& command) {
    command_ = &command;
    done_ = 0;
    tried_buffered_ = false;
    go_on();
  }

  void on_complete(int result) override {
    if (result == -EINTR || result == -EAGAIN) return go_on();
    const bool transfers = command_->op == DiskOp::pread || command_->op == DiskOp::pwrite;
    if (!transfers) return end(result);
    if (result == -EINVAL && !tried_buffered_) {
      tried_buffered_ = true;
      disk_.directory_.give_up_direct(command_->file);
      return go_on();
    }
    if (result < 0) return end(result);
    done_ += static_cast<std::uint64_t>(result);
    if (result > 0 && done_ < command_->length) return go_on();
    if (command_->op == DiskOp::pwrite && done_ < command_->length) return end(-EIO);
    end(static_cast<std::int64_t>(done_));
  }

 private:
  void end(std::int64_t result) {
    DiskCommand& command = *command_;
    command_ = nullptr;
    disk_.finished(*this, command, result);
  }

  void go_on() {
    io::Loop& loop = disk_.loop_;
    const DiskCommand& command = *command_;
    if (command.op == DiskOp::sync_dir) return loop.sync(*this, disk_.directory_.descriptor(), false);
    const int file = disk_.directory_.descriptor_of(command.file);
    const std::uint64_t length = std::min(command.length - done_, kMaxTransfer);
    switch (command.op) {
      case DiskOp::pread:
        return loop.read(*this, file, {command.data + done_, length}, command.offset + done_);
      case DiskOp::pwrite:
        return loop.write(*this, file, {command.data + done_, length}, command.offset + done_);
      case DiskOp::fdatasync: return loop.sync(*this, file, true);
      case DiskOp::punch:
        return loop.allocate(*this, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, command.offset,
                             command.length);
      default: MOOR_UNREACHABLE("not for the ring");
    }
  }

  UringDisk& disk_;
  DiskCommand* command_ = nullptr;
  std::uint64_t done_ = 0;
  bool tried_buffered_ = false;
};

UringDisk::UringDisk(io::Loop& loop, Directory& directory, std::function<void()> progressed)
    : loop_(loop), directory_(directory), progressed_(std::move(progressed)) {}

UringDisk::~UringDisk() {
  loop_.forget(*this);
}

UringDisk::Operation& UringDisk::take_operation() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Operation>(*this));
    return *all_.back();
  }
  Operation* operation = free_.back();
  free_.pop_back();
  return *operation;
}

void UringDisk::submit(DiskCommand& command) {
  switch (command.op) {
    case DiskOp::pread:
    case DiskOp::pwrite:
    case DiskOp::fdatasync:
    case DiskOp::punch:
    case DiskOp::sync_dir: return take_operation().start(command);
    default: blocking_.push_back(&command); loop_.at_turn_end(*this);
  }
}

void UringDisk::on_turn_end() {
  const auto commands = std::exchange(blocking_, {});
  for (DiskCommand* command : commands) command->complete(directory_.perform(*command));
  progressed_();
}

void UringDisk::finished(Operation& operation, DiskCommand& command, std::int64_t result) {
  free_.push_back(&operation);
  command.complete(result);
  progressed_();
}

}  // namespace moor::block
