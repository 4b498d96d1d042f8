// Bytes that several parties hold at once: a payload that came in on one connection goes out on three without
// being copied. One thread only: counts are plain integers, because every moorblk process is one loop.
//
// A BufferPool hands out blocks aligned to 4096 (O_DIRECT can use them as they are) and keeps a bounded
// number of freed ones, of the sizes asked for last. Blocks may outlive their pool. Allocation failure ends
// the process (std::bad_alloc), as anywhere.
#pragma once

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>

namespace moor::block {

namespace detail {
struct PoolState;
struct BufferBlock {
  std::byte* data;
  std::size_t capacity;
  std::uint32_t references;
  PoolState* pool;
  BufferBlock* next_free;
};
void release(BufferBlock* block);
}  // namespace detail

// A counted reference to a range of a block. Empty when default made.
class Slice {
 public:
  Slice() = default;
  Slice(const Slice& other) : block_(other.block_), data_(other.data_), size_(other.size_) {
    if (block_ != nullptr) ++block_->references;
  }
  Slice(Slice&& other) noexcept : block_(other.block_), data_(other.data_), size_(other.size_) {
    other.forget();
  }
  Slice& operator=(Slice other) noexcept {
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Slice() {
    if (block_ != nullptr && --block_->references == 0) detail::release(block_);
  }

  // Bytes that live as long as the program (the shared page of zeros).
  static Slice of_static(std::span<const std::byte> bytes) {
    // Never written through: whoever shares a slice only reads it.
    return Slice(nullptr, const_cast<std::byte*>(bytes.data()), bytes.size());
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<std::byte> span() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // The range [offset, offset + size) of this one; asserts that it lies inside.
  Slice part(std::size_t offset, std::size_t size) const;
  void shrink(std::size_t size) { size_ = size < size_ ? size : size_; }

 private:
  friend class BufferPool;
  friend class OutQueue;
  Slice(detail::BufferBlock* block, std::byte* data, std::size_t size)
      : block_(block), data_(data), size_(size) {}
  void forget() {
    block_ = nullptr;
    data_ = nullptr;
    size_ = 0;
  }

  detail::BufferBlock* block_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class BufferPool {
 public:
  // `retain_bytes`: how much freed memory is kept for the next allocation.
  explicit BufferPool(std::size_t retain_bytes = 2u << 20);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Contents are unspecified. Size 0 gives an empty slice.
  Slice allocate(std::size_t size);
  Slice copy_of(std::span<const std::byte> bytes);
  std::size_t outstanding() const;

 private:
  detail::PoolState* state_;
};

// What waits to be sent: small headers are packed together, payloads are referenced.
class OutQueue {
 public:
  explicit OutQueue(BufferPool& pool) : pool_(&pool) {}

  // Room for `size` bytes (at most 4096) that the caller fills at once.
  std::span<std::byte> put(std::size_t size);
  void put_bytes(std::span<const std::byte> bytes);
  void put_text(std::string_view text);
  void put_slice(Slice slice);
  // `size` zero bytes without allocating them.
  void put_zeroes(std::uint64_t size);

  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  // Describes up to `most` pieces from the front; the pieces stay valid until consumed.
  std::size_t gather(iovec* pieces, std::size_t most) const;
  void consume(std::size_t bytes);
  // Hands pieces from the front over to `to`, until that holds about `bytes` or `most` pieces.
  void move_to(OutQueue& to, std::size_t bytes, std::size_t most);
  void clear();

 private:
  BufferPool* pool_;
  std::deque<Slice> pieces_;
  Slice arena_;  // the block that headers are packed into
  std::size_t arena_used_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace moor::block
