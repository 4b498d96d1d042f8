#include "block/core/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/assert.h"

namespace moor::block {

namespace {

constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kClasses = 10;  // 4 KiB, 8 KiB, … 2 MiB; what is larger is not kept
constexpr std::size_t kLargestKept = kAlignment << (kClasses - 1);
constexpr std::size_t kMappedFrom = 64u << 10;
constexpr std::size_t kArenaBytes = 4096;
// A payload below this costs less to copy than a further piece in the send costs.
constexpr std::size_t kCopyBelow = 256;

alignas(kAlignment) constexpr std::array<std::byte, 64 * 1024> kZeroes{};

std::size_t class_of(std::size_t capacity) {
  return static_cast<std::size_t>(std::countr_zero(capacity / kAlignment));
}

}  // namespace

namespace detail {

struct PoolState {
  std::array<BufferBlock*, kClasses> free{};
  std::array<std::uint64_t, kClasses> last_asked{};  // when a block of this size was last allocated
  std::uint64_t asked = 0;
  std::size_t retained = 0;
  std::size_t retain_bytes = 0;
  std::size_t outstanding = 0;
  bool orphaned = false;
};

namespace {

// Large blocks are the kernel's own: the heap would keep their memory after a burst of large requests, split
// up by what lies between them.
std::byte* obtain(std::size_t capacity) {
  if (capacity < kMappedFrom) return static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity));
  void* mapped = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

void destroy(BufferBlock* block) {
  if (block->capacity < kMappedFrom) {
    std::free(block->data);
  } else {
    munmap(block->data, block->capacity);
  }
  delete block;
}

}  // namespace

namespace {

// Lets go of blocks of sizes that nobody has asked for since this one's was; else a burst of one size would
// fill what is kept, and every block of the size that is in use now would be mapped and unmapped again.
bool make_room(PoolState& pool, std::size_t capacity) {
  const std::uint64_t asked = pool.last_asked[class_of(capacity)];
  while (pool.retained + capacity > pool.retain_bytes) {
    std::size_t oldest = kClasses;
    for (std::size_t i = 0; i < kClasses; ++i) {
      if (pool.free[i] == nullptr || pool.last_asked[i] >= asked) continue;
      if (oldest == kClasses || pool.last_asked[i] < pool.last_asked[oldest]) oldest = i;
    }
    if (oldest == kClasses) return false;
    BufferBlock* block = std::exchange(pool.free[oldest], pool.free[oldest]->next_free);
    pool.retained -= block->capacity;
    destroy(block);
  }
  return true;
}

}  // namespace

void release(BufferBlock* block) {
  PoolState* pool = block->pool;
  --pool->outstanding;
  const bool keep = !pool->orphaned && block->capacity <= kLargestKept && make_room(*pool, block->capacity);
  if (keep) {
    auto& head = pool->free[class_of(block->capacity)];
    block->next_free = head;
    head = block;
    pool->retained += block->capacity;
    return;
  }
  destroy(block);
  if (pool->orphaned && pool->outstanding == 0) delete pool;
}

}  // namespace detail

Slice Slice::part(std::size_t offset, std::size_t size) const {
  MOOR_ASSERT(offset <= size_ && size <= size_ - offset, "part {}+{} of a slice of {}", offset, size, size_);
  if (block_ != nullptr) ++block_->references;
  return Slice(block_, data_ + offset, size);
}

BufferPool::BufferPool(std::size_t retain_bytes) : state_(new detail::PoolState) {
  state_->retain_bytes = retain_bytes;
}

BufferPool::~BufferPool() {
  for (auto* head : state_->free) {
    while (head != nullptr) detail::destroy(std::exchange(head, head->next_free));
  }
  state_->orphaned = true;
  if (state_->outstanding == 0) delete state_;
}

Slice BufferPool::allocate(std::size_t size) {
  if (size == 0) return {};
  const std::size_t rounded = size <= kLargestKept ? std::bit_ceil(std::max(size, kAlignment))
                                                   : (size + kAlignment - 1) / kAlignment * kAlignment;
  ++state_->outstanding;
  if (rounded <= kLargestKept) {
    state_->last_asked[class_of(rounded)] = ++state_->asked;
    if (auto*& head = state_->free[class_of(rounded)]; head != nullptr) {
      auto* block = std::exchange(head, head->next_free);
      state_->retained -= rounded;
      block->references = 1;
      return Slice(block, block->data, size);
    }
  }
  auto* data = detail::obtain(rounded);
  if (data == nullptr) throw std::bad_alloc();
  auto* block = new detail::BufferBlock{data, rounded, 1, state_, nullptr};
  return Slice(block, data, size);
}

Slice BufferPool::copy_of(std::span<const std::byte> bytes) {
  Slice slice = allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(slice.data(), bytes.data(), bytes.size());
  return slice;
}

std::size_t BufferPool::outstanding() const {
  return state_->outstanding;
}

std::span<std::byte> OutQueue::put(std::size_t size) {
  MOOR_ASSERT(size <= kArenaBytes, "{} bytes are too many for a header", size);
  if (arena_.size() - arena_used_ < size) {
    arena_ = pool_->allocate(kArenaBytes);
    arena_used_ = 0;
  }
  std::byte* at = arena_.data() + arena_used_;
  if (!pieces_.empty() && pieces_.back().block_ == arena_.block_ &&
      pieces_.back().data_ + pieces_.back().size_ == at) {
    pieces_.back().size_ += size;
  } else if (size > 0) {
    pieces_.push_back(arena_.part(arena_used_, size));
  }
  arena_used_ += size;
  bytes_ += size;
  return {at, size};
}

void OutQueue::put_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto take = std::min(bytes.size(), kArenaBytes);
    std::memcpy(put(take).data(), bytes.data(), take);
    bytes = bytes.subspan(take);
  }
}

void OutQueue::put_text(std::string_view text) {
  put_bytes(std::as_bytes(std::span(text)));
}

void OutQueue::put_slice(Slice slice) {
  if (slice.size() < kCopyBelow) return put_bytes(slice.span());
  bytes_ += slice.size();
  pieces_.push_back(std::move(slice));
}

void OutQueue::put_zeroes(std::uint64_t size) {
  while (size > 0) {
    const auto take = std::min<std::uint64_t>(size, kZeroes.size());
    put_slice(Slice::of_static(std::span(kZeroes).first(take)));
    size -= take;
  }
}

std::size_t OutQueue::gather(iovec* pieces, std::size_t most) const {
  const std::size_t count = std::min(most, pieces_.size());
  for (std::size_t i = 0; i < count; ++i) pieces[i] = {pieces_[i].data(), pieces_[i].size()};
  return count;
}

void OutQueue::consume(std::size_t bytes) {
  MOOR_ASSERT(bytes <= bytes_, "sent {} of {} bytes", bytes, bytes_);
  bytes_ -= bytes;
  while (bytes > 0) {
    auto& front = pieces_.front();
    if (bytes < front.size_) {
      front.data_ += bytes;
      front.size_ -= bytes;
      return;
    }
    bytes -= front.size_;
    pieces_.pop_front();
  }
  if (bytes_ == 0) {
    // An idle connection keeps no header block, so a thousand idle ones cost nothing.
    arena_ = {};
    arena_used_ = 0;
  }
}

void OutQueue::move_to(OutQueue& to, std::size_t bytes, std::size_t most) {
  while (!pieces_.empty() && to.bytes_ < bytes && to.pieces_.size() < most) {
    bytes_ -= pieces_.front().size();
    to.bytes_ += pieces_.front().size();
    to.pieces_.push_back(std::move(pieces_.front()));
    pieces_.pop_front();
  }
  if (bytes_ == 0) {
    arena_ = {};
    arena_used_ = 0;
  }
}

void OutQueue::clear() {
  pieces_.clear();
  arena_ = {};
  arena_used_ = 0;
  bytes_ = 0;
}

}  // namespace moor::block
