#include "block/io/memory_backend.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace moor::block::io {

namespace {

std::uint64_t round_up(std::uint64_t value) {
  return (value + kBlockSize - 1) / kBlockSize * kBlockSize;
}

}  // namespace

Result<std::unique_ptr<MemoryBackend>> MemoryBackend::create(std::uint64_t size, std::string name) {
  if (size == 0) return make_error(Errc::invalid, "a size above 0 is needed");
  void* memory = ::mmap(nullptr, round_up(size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return make_error(Errc::exhausted, fmt::format("no room for {} bytes", size));
  return std::unique_ptr<MemoryBackend>(
      new MemoryBackend(static_cast<std::byte*>(memory), size, std::move(name)));
}

MemoryBackend::MemoryBackend(std::byte* memory, std::uint64_t size, std::string name)
    : memory_(memory), size_(size), name_(std::move(name)), allocated_(round_up(size) / kBlockSize) {}

MemoryBackend::~MemoryBackend() {
  ::munmap(memory_, round_up(size_));
}

std::uint64_t MemoryBackend::allocated_bytes() const {
  return static_cast<std::uint64_t>(std::count(allocated_.begin(), allocated_.end(), true)) * kBlockSize;
}

std::vector<nbd::Server::ListedExport> MemoryBackend::list() {
  return {{name_, "memory of this process"}};
}

void MemoryBackend::open(ConnectionId connection, const nbd::OpenRequested& request) {
  auto* server = front_->server(connection);
  MOOR_ASSERT(server != nullptr);
  // The empty name asks for the default export.
  if (!request.name.empty() && request.name != name_) {
    return server->refuse(nbd::OptionReply::error_unknown, "no export of that name");
  }
  nbd::ExportDescription description;
  description.size = size_;
  description.name = name_;
  description.description = "memory of this process";
  description.export_id = export_id_;
  description.fast_zero = true;
  server->accept(std::move(description));
}

void MemoryBackend::request(ConnectionId connection, nbd::Request request) {
  ++requests_;
  auto* server = front_->server(connection);
  MOOR_ASSERT(server != nullptr);
  switch (static_cast<nbd::Command>(request.command)) {
    case nbd::Command::read:
      // Sent from where it lies: a write that overlaps a read in flight may show in it, as NBD allows.
      return server->reply_read(request.tag, Slice::of_static({memory_ + request.offset, request.length}));
    case nbd::Command::write: write(request); break;
    case nbd::Command::flush: break;  // nothing here outlives the process, and nobody is told otherwise
    case nbd::Command::trim: discard(request.offset, request.length); break;
    case nbd::Command::write_zeroes:
      if (const auto error = write_zeroes(request); error != 0) {
        return server->reply_error(request.tag, error, "no faster than writing");
      }
      break;
    case nbd::Command::block_status:
      return server->reply_block_status(request.tag, status(request.offset, request.length));
    default: return server->reply_error(request.tag, nbd::kErrInvalid, "unknown command");
  }
  server->reply_done(request.tag);
}

void MemoryBackend::write(const nbd::Request& request) {
  std::memcpy(memory_ + request.offset, request.payload.data(), request.length);
  const auto end = (request.offset + request.length - 1) / kBlockSize;
  for (auto block = request.offset / kBlockSize; block <= end; ++block) allocated_[block] = true;
}

std::uint32_t MemoryBackend::write_zeroes(const nbd::Request& request) {
  if (!request.has(nbd::kFlagNoHole)) {
    discard(request.offset, request.length);
    return 0;
  }
  if (request.has(nbd::kFlagFastZero)) return nbd::kErrNotSupported;
  std::memset(memory_ + request.offset, 0, request.length);
  const auto end = (request.offset + request.length - 1) / kBlockSize;
  for (auto block = request.offset / kBlockSize; block <= end; ++block) allocated_[block] = true;
  return 0;
}

// Zeros the range; whole blocks in it go back to the system.
void MemoryBackend::discard(std::uint64_t offset, std::uint64_t length) {
  const auto end = offset + length;
  const auto first = round_up(offset);
  const auto last = end == size_ ? round_up(end) : end / kBlockSize * kBlockSize;
  if (first >= last) {
    std::memset(memory_ + offset, 0, length);
    return;
  }
  std::memset(memory_ + offset, 0, first - offset);
  if (end > last) std::memset(memory_ + last, 0, end - last);
  const int result = ::madvise(memory_ + first, last - first, MADV_DONTNEED);
  MOOR_ASSERT(result == 0, "madvise: {}", errno);
  std::fill(allocated_.begin() + static_cast<std::ptrdiff_t>(first / kBlockSize),
            allocated_.begin() + static_cast<std::ptrdiff_t>(last / kBlockSize), false);
}

std::vector<BlockStatus> MemoryBackend::status(std::uint64_t offset, std::uint32_t length) const {
  std::vector<BlockStatus> extents;
  const auto end = offset + length;
  while (offset < end) {
    const bool hole = !allocated_[offset / kBlockSize];
    const auto next = std::min(end, (offset / kBlockSize + 1) * kBlockSize);
    if (!extents.empty() && extents.back().hole == hole) {
      extents.back().length += next - offset;
    } else {
      extents.push_back({next - offset, hole, hole});
    }
    offset = next;
  }
  return extents;
}

}  // namespace moor::block::io
