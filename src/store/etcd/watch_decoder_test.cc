#include "store/etcd/watch_decoder.h"

#include <gmock/gmock.h>

namespace moor::store::etcd {
namespace {
using testing::ElementsAre;

const Layout kLayout = *Layout::make("/m/");

RawEvent put(EtcdRevision at, const std::string& key, std::uint32_t index) {
  return {true, {kLayout.data(key), encode_value(index, "v"), at, at, 0}};
}
RawEvent removed(EtcdRevision at, const std::string& key) {
  return {false, {kLayout.data(key), "", 0, at, 0}};
}
RawEvent record(EtcdRevision at, std::size_t writes) {
  return {true, {kLayout.last_transaction(), encode_transaction(writes), 2, at, 0}};
}
WatchMessage message(std::vector<RawEvent> events, bool fragment = false) {
  WatchMessage result;
  result.events = std::move(events);
  result.fragment = fragment;
  return result;
}
std::vector<std::string> lines(const std::vector<DecodedTransaction>& transactions) {
  std::vector<std::string> result;
  for (const DecodedTransaction& transaction : transactions) {
    std::string line;
    for (const Event& event : transaction.events)
      line += (event.kind == Event::Kind::put ? "+" : "-") + event.entry.key + "@" +
              std::to_string(etcd_revision(event.entry.revision)) + "." +
              std::to_string(index_of(event.entry.revision)) + " ";
    result.push_back(line);
  }
  return result;
}

struct Decoding : testing::Test {
  WatchDecoder decoder{kLayout, 10};
  std::vector<DecodedTransaction> out;
};

TEST_F(Decoding, ThePlaceOfAnEventIsTheIndexOfItsWrite) {
  ASSERT_TRUE(decoder
                  .add(message({removed(11, "b"), put(11, "c", 1), removed(11, "a"), record(11, 3),
                                put(12, "a", 0), record(12, 1)}),
                       out)
                  .ok());
  EXPECT_THAT(lines(out), ElementsAre("-b@11.0 +c@11.1 -a@11.2 ", "+a@12.0 "));
  EXPECT_EQ(decoder.seen(), 12);
}

TEST_F(Decoding, WhatWasSeenIsDroppedEvenIfIncomplete) {
  ASSERT_TRUE(decoder.add(message({put(10, "x", 3), put(11, "a", 0), record(11, 1)}), out).ok());
  ASSERT_TRUE(decoder.add(message({put(11, "a", 0), record(11, 1)}), out).ok());
  EXPECT_THAT(lines(out), ElementsAre("+a@11.0 "));
}

TEST_F(Decoding, ATransactionCutByAFragmentWaitsForItsRest) {
  ASSERT_TRUE(decoder.add(message({put(11, "a", 0), record(11, 1), put(12, "b", 0)}, true), out).ok());
  EXPECT_THAT(lines(out), ElementsAre("+a@11.0 "));
  ASSERT_TRUE(decoder.add(message({put(12, "c", 1), record(12, 2)}), out).ok());
  EXPECT_THAT(lines(out), ElementsAre("+a@11.0 ", "+b@12.0 +c@12.1 "));
}

TEST_F(Decoding, AfterARestartACutTransactionComesAgainWhole) {
  ASSERT_TRUE(decoder.add(message({put(11, "b", 0)}, true), out).ok());
  decoder.restart();
  ASSERT_TRUE(decoder.add(message({put(11, "b", 0), put(11, "c", 1), record(11, 2)}), out).ok());
  EXPECT_THAT(lines(out), ElementsAre("+b@11.0 +c@11.1 "));
}

TEST_F(Decoding, RemovalsWithoutARecordAreThoseOfALease) {
  ASSERT_TRUE(decoder.add(message({removed(11, "a"), removed(11, "b")}), out).ok());
  EXPECT_THAT(lines(out), ElementsAre("-a@11.0 -b@11.1 "));
}

TEST_F(Decoding, MoreRemovalsThanARevisionHoldsExpireTheWatch) {
  std::vector<RawEvent> events;
  for (int i = 0; i < 256; ++i) events.push_back(removed(11, std::to_string(i)));
  ASSERT_TRUE(decoder.add(message(events), out).ok());
  for (RawEvent& event : events) event.kv.mod_revision = 12;
  events.push_back(removed(12, "one more"));
  EXPECT_TRUE(decoder.add(message(events), out).is(Errc::expired));
  EXPECT_EQ(out.size(), 1u);
}

TEST_F(Decoding, ForeignWritesAreCorruptAndNamed) {
  const auto check = [](std::vector<RawEvent> events, const char* named) {
    WatchDecoder fresh(kLayout, 10);
    std::vector<DecodedTransaction> none;
    const auto result = fresh.add(message(std::move(events)), none);
    ASSERT_TRUE(result.is(Errc::corrupt));
    EXPECT_THAT(result.error().message, testing::HasSubstr(named));
  };
  check({put(11, "a", 0)}, "/m/d/a");
  check({{true, {"/m/x", "v", 11, 11, 0}}}, "/m/x");
  check({{true, {"/m/d/a", "v", 11, 11, 0}}, record(11, 1)}, "/m/d/a");
  check({put(11, "a", 0), record(11, 2)}, "2 writes");
  check({put(11, "a", 1), record(11, 1)}, "/m/d/a");
  check({{true, {kLayout.marker(), "mooring-store 1", 11, 11, 0}}}, "/m/f");
  check({{false, {kLayout.last_transaction(), "", 0, 11, 0}}}, "/m/t");
}

TEST_F(Decoding, WhatCameBeforeAForeignWriteStands) {
  EXPECT_TRUE(decoder.add(message({put(11, "a", 0), record(11, 1), put(12, "b", 0)}), out).is(Errc::corrupt));
  EXPECT_THAT(lines(out), ElementsAre("+a@11.0 "));
}

}  // namespace
}  // namespace moor::store::etcd
