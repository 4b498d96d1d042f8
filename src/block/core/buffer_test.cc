#include "block/core/buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "block/core/nbd_test_support.h"

namespace moor::block {
namespace {

using nbd::testing::drain;

TEST(Buffer, BlocksAreAlignedForDirectIo) {
  BufferPool pool;
  for (const std::size_t size : {1u, 512u, 4096u, 5000u, 3u << 20}) {
    const Slice slice = pool.allocate(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slice.data()) % 4096, 0u);
    EXPECT_EQ(slice.size(), size);
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(Buffer, AFreedBlockIsUsedAgain) {
  BufferPool pool;
  const std::byte* first = pool.allocate(4096).data();
  EXPECT_EQ(pool.allocate(4000).data(), first);
}

TEST(Buffer, NothingIsKeptBeyondTheBound) {
  BufferPool pool(8192);
  {
    std::vector<Slice> held;
    for (int i = 0; i < 10; ++i) held.push_back(pool.allocate(4096));
    EXPECT_EQ(pool.outstanding(), 10u);
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(Buffer, APoolFullOfOneSizeKeepsTheSizeThatIsAskedForNow) {
  constexpr std::size_t kLarge = 128u << 10;
  BufferPool pool(4 * kLarge);
  {
    std::vector<Slice> burst;
    for (int i = 0; i < 1000; ++i) burst.push_back(pool.allocate(4096));
  }
  // A mapping that is kept holds what was written; a new one holds zeros.
  pool.allocate(kLarge).data()[0] = std::byte{7};
  EXPECT_EQ(pool.allocate(kLarge).data()[0], std::byte{7});
  std::vector<Slice> large;
  for (int i = 0; i < 4; ++i) large.push_back(pool.allocate(kLarge));
  for (Slice& slice : large) slice.data()[0] = std::byte{9};
  large.clear();
  for (int i = 0; i < 4; ++i) large.push_back(pool.allocate(kLarge));
  for (const Slice& slice : large) EXPECT_EQ(slice.data()[0], std::byte{9});
}

TEST(Buffer, SlicesOutliveTheirPool) {
  Slice slice;
  {
    BufferPool pool;
    slice = pool.copy_of(as_bytes("still here"));
  }
  EXPECT_EQ(slice.text(), "still here");
}

TEST(Buffer, APartSharesTheBlock) {
  BufferPool pool;
  Slice whole = pool.copy_of(as_bytes("abcdef"));
  Slice part = whole.part(2, 3);
  whole = {};
  EXPECT_EQ(part.text(), "cde");
  EXPECT_EQ(pool.outstanding(), 1u);
  part = {};
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(OutQueue, KeepsOrderAcrossHeadersPayloadsAndZeros) {
  BufferPool pool;
  OutQueue out(pool);
  const std::string payload(5000, 'p');
  out.put_text("head");
  out.put_slice(pool.copy_of(as_bytes(payload)));
  out.put_text("tail");
  out.put_zeroes(70'000);
  EXPECT_EQ(out.bytes(), 4 + 5000 + 4 + 70'000u);
  EXPECT_EQ(drain(out), "head" + payload + "tail" + std::string(70'000, '\0'));
  EXPECT_EQ(pool.outstanding(), 0u) << "an empty queue holds no memory";
}

TEST(OutQueue, HeadersInARowAreOnePiece) {
  BufferPool pool;
  OutQueue out(pool);
  for (int i = 0; i < 10; ++i) out.put_text("0123456789");
  iovec pieces[8];
  EXPECT_EQ(out.gather(pieces, 8), 1u);
}

TEST(OutQueue, MovesPiecesWithoutLosingBytes) {
  BufferPool pool;
  OutQueue from(pool);
  OutQueue to(pool);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string payload(300 + i, static_cast<char>('a' + i));
    from.put_text("h");
    from.put_slice(pool.copy_of(as_bytes(payload)));
    expected += "h" + payload;
  }
  std::string got;
  int rounds = 0;
  while (!from.empty()) {
    from.move_to(to, 1000, 3);
    from.put_bytes({});
    got += drain(to);
    ASSERT_LT(++rounds, 100);
  }
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace moor::block
