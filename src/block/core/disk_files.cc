#include "block/core/disk_files.h"

#include <cerrno>
#include <cstring>

namespace moor::block {
namespace {

DiskCommand named(DiskOp op, std::string name, bool direct = false) {
  DiskCommand command;
  command.op = op;
  command.name = std::move(name);
  command.direct = direct;
  return command;
}

DiskCommand on_file(DiskOp op, FileId file, std::uint64_t offset = 0) {
  DiskCommand command;
  command.op = op;
  command.file = file;
  command.offset = offset;
  return command;
}

}  // namespace

Error disk_error(std::int64_t result, std::string_view what) {
  const int number = static_cast<int>(-result);
  Error error = errno_error(number, what);
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: error.code = Errc::exhausted; break;
    case ENOENT: error.code = Errc::not_found; break;
    default: error.code = Errc::internal;
  }
  return error;
}

Task<Result<FileId>> DiskFiles::open(std::string name, bool direct) {
  DiskCommand command = named(DiskOp::open, name, direct);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "open " + name);
  co_return static_cast<FileId>(command.result);
}

Task<Result<FileId>> DiskFiles::create(std::string name, bool direct) {
  DiskCommand command = named(DiskOp::create, name, direct);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "create " + name);
  co_return static_cast<FileId>(command.result);
}

Task<void> DiskFiles::close(FileId file) {
  if (file == 0) co_return;
  DiskCommand command = on_file(DiskOp::close, file);
  co_await DiskBatch(disk_, runner_, {&command, 1});
}

Task<Result<std::uint64_t>> DiskFiles::read(FileId file, std::uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) co_return std::uint64_t{0};
  DiskCommand command = on_file(DiskOp::pread, file, offset);
  command.data = into.data();
  command.length = into.size();
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "read");
  const auto got = static_cast<std::uint64_t>(command.result);
  std::memset(into.data() + got, 0, into.size() - got);
  co_return got;
}

Task<Result<void>> DiskFiles::write(FileId file, std::uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) co_return Result<void>{};
  DiskCommand command = on_file(DiskOp::pwrite, file, offset);
  command.data = const_cast<std::byte*>(from.data());
  command.length = from.size();
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "write");
  co_return Result<void>{};
}

Task<Result<void>> DiskFiles::sync(FileId file) {
  if (broken()) co_return broken_error();
  DiskCommand command = on_file(DiskOp::fdatasync, file);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) {
    Error error = disk_error(command.result, "fdatasync");
    set_broken(error.message);
    co_return error;
  }
  // Another sync failed meanwhile: what this one covered may depend on that.
  if (broken()) co_return broken_error();
  co_return Result<void>{};
}

Task<Result<void>> DiskFiles::sync_dir() {
  if (broken()) co_return broken_error();
  DiskCommand command = on_file(DiskOp::sync_dir, 0);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) {
    Error error = disk_error(command.result, "fsync of the directory");
    set_broken(error.message);
    co_return error;
  }
  co_return Result<void>{};
}

Task<Result<void>> DiskFiles::truncate(FileId file, std::uint64_t size) {
  DiskCommand command = on_file(DiskOp::truncate, file, size);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "truncate");
  co_return Result<void>{};
}

Task<Result<std::uint64_t>> DiskFiles::size(FileId file) {
  DiskCommand command = on_file(DiskOp::size, file);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "size");
  co_return static_cast<std::uint64_t>(command.result);
}

Task<Result<void>> DiskFiles::rename(std::string from, std::string to) {
  DiskCommand command = named(DiskOp::rename, from);
  command.new_name = to;
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "rename " + from);
  co_return Result<void>{};
}

Task<Result<void>> DiskFiles::unlink(std::string name) {
  DiskCommand command = named(DiskOp::unlink, name);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "unlink " + name);
  co_return Result<void>{};
}

Task<Result<std::vector<std::string>>> DiskFiles::list() {
  DiskCommand command = on_file(DiskOp::list, 0);
  co_await DiskBatch(disk_, runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "list the directory");
  co_return std::move(command.names);
}

Task<Result<void>> DiskFiles::replace(std::string name, std::span<const std::byte> contents) {
  if (broken()) co_return broken_error();
  const std::string temp = name + std::string(kTempSuffix);
  CO_TRY(const FileId file, co_await create(temp));
  Result<void> done = co_await write(file, 0, contents);
  if (done.ok()) done = co_await sync(file);
  co_await close(file);
  if (done.ok()) done = co_await rename(temp, name);
  if (!done.ok()) {
    // The old file stands as it was; the temporary one is only waste, and goes at the next open if not now.
    (void)co_await unlink(temp);
    co_return done;
  }
  co_return co_await sync_dir();
}

Task<Result<std::vector<std::byte>>> DiskFiles::read_all(std::string name, std::uint64_t limit) {
  CO_TRY(const FileId file, co_await open(name));
  Result<std::uint64_t> length = co_await size(file);
  Result<std::vector<std::byte>> contents = std::vector<std::byte>{};
  if (!length.ok()) {
    contents = std::move(length).error();
  } else if (*length > limit) {
    contents = make_error(Errc::corrupt, name + " is larger than any such file can be");
  } else {
    std::vector<std::byte> bytes(*length);
    Result<std::uint64_t> got = co_await read(file, 0, bytes);
    if (got.ok()) {
      contents = std::move(bytes);
    } else {
      contents = std::move(got).error();
    }
  }
  co_await close(file);
  co_return contents;
}

}  // namespace moor::block
