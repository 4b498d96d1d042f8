#include "store/etcd/layout.h"

#include <gmock/gmock.h>

namespace moor::store::etcd {
namespace {

TEST(Layout, ARootEndsWithASlashSoThatNoTwoShareKeys) {
  EXPECT_EQ(Layout::make("/moor")->root(), "/moor/");
  EXPECT_EQ(Layout::make("/moor/")->root(), "/moor/");
  EXPECT_TRUE(Layout::make("").is(Errc::invalid));
  EXPECT_TRUE(Layout::make("a\nb").is(Errc::invalid));
  EXPECT_TRUE(Layout::make(std::string(kMaxRootBytes + 1, 'x')).is(Errc::invalid));
}

TEST(Layout, KeysGoInAndComeOut) {
  const Layout layout = *Layout::make("/moor/");
  EXPECT_EQ(*layout.key_of(layout.data("a/b")), "a/b");
  const auto foreign = layout.key_of("/moor/x");
  ASSERT_TRUE(foreign.is(Errc::corrupt));
  EXPECT_THAT(foreign.error().message, testing::HasSubstr("/moor/x"));
  EXPECT_TRUE(layout.key_of("/moor/d/").is(Errc::corrupt));
  EXPECT_TRUE(layout.key_of("/moor/d/a\x01").is(Errc::corrupt));
  EXPECT_TRUE(layout.key_of("/other/d/a").is(Errc::corrupt));
}

TEST(Layout, TheEndOfAPrefixIsTheFirstKeyBehindIt) {
  EXPECT_EQ(range_end_of("a/"), "a0");
  EXPECT_EQ(range_end_of("a\xff"), "b");
  EXPECT_EQ(range_end_of("\xff"), std::string(1, '\0'));
  EXPECT_EQ(range_end_of(""), std::string(1, '\0'));
}

TEST(Layout, RevisionsOrderByEtcdsRevisionThenByIndex) {
  EXPECT_LT(make_revision(7, 99), make_revision(8, 0));
  EXPECT_LT(make_revision(7, 0), make_revision(7, 1));
  EXPECT_EQ(etcd_revision(make_revision(7, 99)), 7);
  EXPECT_EQ(index_of(make_revision(7, 99)), 99u);
}

TEST(Layout, AValueKeepsItsIndexAndBytes) {
  const std::string bytes("\0\xff moor", 7);
  const auto value = decode_value("k", encode_value(42, bytes));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->index, 42u);
  EXPECT_EQ(value->bytes, bytes);
}

TEST(Layout, WhatWeDidNotWriteIsCorruptAndNamed) {
  for (const std::string& stored :
       {std::string(), std::string("hello"), std::string("hello, I am a longer value"),
        encode_value(1, "x").substr(0, 7)}) {
    const auto value = decode_value("/moor/d/key", stored);
    ASSERT_TRUE(value.is(Errc::corrupt));
    EXPECT_THAT(value.error().message, testing::HasSubstr("/moor/d/key"));
  }
  std::string damaged = encode_value(1, "x");
  damaged[4] = static_cast<char>(200);
  EXPECT_TRUE(decode_value("k", damaged).is(Errc::corrupt));
  EXPECT_TRUE(decode_transaction("t", "3").is(Errc::corrupt));
  EXPECT_EQ(*decode_transaction("t", encode_transaction(100)), 100u);
}

// What etcd will evaluate: bytes compared in order.
TEST(Layout, TheBoundsOfAnIndexHoldForItsValuesAlone) {
  for (std::uint32_t asked = 0; asked <= 255; ++asked) {
    const IndexBounds bounds = index_bounds(asked);
    for (std::uint32_t index = 0; index < kMaxWrites; ++index) {
      for (const char* bytes : {"", "x", "\xff\xff"}) {
        const std::string stored = encode_value(index, bytes);
        const bool within = stored > bounds.greater_than && stored < bounds.less_than;
        EXPECT_EQ(within, asked == index) << asked << " " << index;
      }
    }
  }
}

TEST(Layout, ANewerFormatIsRefused) {
  EXPECT_TRUE(check_marker("f", encode_marker()).ok());
  EXPECT_TRUE(check_marker("f", "mooring-store 2").is(Errc::unsupported));
  EXPECT_TRUE(check_marker("f", "mooring-store x").is(Errc::corrupt));
  EXPECT_TRUE(check_marker("f", "something else").is(Errc::corrupt));
}

}  // namespace
}  // namespace moor::store::etcd
