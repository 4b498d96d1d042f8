#include "block/core/control_protocol.h"

#include <gtest/gtest.h>

#include <random>

#include "block/core/nbd_test_support.h"

namespace moor::block::control {
namespace {

using nbd::testing::drain;
using nbd::testing::u32;

std::string frame(std::string_view text) {
  return u32(text.size()) + std::string(text);
}

class SessionTest : public ::testing::Test {
 protected:
  void feed(const std::string& bytes, std::size_t piece = 0) {
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const auto part = piece == 0 ? rest.size() : std::min(piece, rest.size());
      const auto taken = session_.feed(as_bytes(rest.substr(0, part)));
      rest.remove_prefix(taken);
      for (auto& event : session_.take_events()) {
        if (auto* call = std::get_if<Call>(&event)) calls_.push_back(std::move(*call));
        if (auto* ended = std::get_if<Ended>(&event)) ended_ = ended->why;
      }
      if (taken < part) break;
    }
  }
  std::vector<std::variant<Reply, Event>> messages() {
    const std::string bytes = drain(session_.out());
    std::vector<std::variant<Reply, Event>> list;
    FrameReader reader;
    std::string_view rest = bytes;
    while (!rest.empty()) {
      rest.remove_prefix(reader.feed(as_bytes(rest)).value());
      if (!reader.complete()) break;
      list.push_back(decode_message(reader.take()).value());
    }
    EXPECT_TRUE(rest.empty());
    return list;
  }
  Reply reply() {
    const auto list = messages();
    EXPECT_EQ(list.size(), 1u);
    return std::get<Reply>(list.at(0));
  }
  void greet() {
    feed(frame(R"({"id":1,"op":"hello","arguments":{"version":1}})"));
    EXPECT_TRUE(reply().result);
  }

  BufferPool pool_;
  Session session_{pool_, Json::object({{"program", "test"}})};
  std::vector<Call> calls_;
  std::optional<std::string> ended_;
};

TEST_F(SessionTest, HelloTellsWhoServesAndTheVersion) {
  feed(frame(R"({"id":1,"op":"hello","arguments":{"version":1}})"), 1);
  const auto answer = reply();
  EXPECT_EQ(answer.id, 1u);
  EXPECT_EQ(answer.result.value(), Json::object({{"program", "test"}, {"version", 1}}));
}

TEST_F(SessionTest, AnotherVersionIsRefusedAndEnded) {
  feed(frame(R"({"id":1,"op":"hello","arguments":{"version":2}})"));
  EXPECT_TRUE(reply().result.is(Errc::unsupported));
  EXPECT_TRUE(ended_);
}

TEST_F(SessionTest, NothingComesBeforeHello) {
  feed(frame(R"({"id":1,"op":"status"})"));
  EXPECT_TRUE(reply().result.is(Errc::invalid));
  EXPECT_TRUE(ended_);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(SessionTest, CallsAreAnsweredInAnyOrder) {
  greet();
  feed(frame(encode_call({7, "status", Json::object()})) +
           frame(encode_call({8, "snapshot.create", Json::object({{"name", "a"}})})),
       3);
  ASSERT_EQ(calls_.size(), 2u);
  EXPECT_EQ(calls_[1].arguments.get_string("name"), "a");
  session_.reply_error(8, make_error(Errc::already_exists, "there is one"));
  session_.reply(7, Json::object({{"size", 5}}));
  const auto list = messages();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(std::get<Reply>(list[0]).result.is(Errc::already_exists));
  EXPECT_EQ(std::get<Reply>(list[1]).result.value().get_int64("size"), 5);
}

TEST_F(SessionTest, EventsGoOnlyToThoseWhoAskedAndAreNumbered) {
  greet();
  session_.event("purge", Json::object());
  EXPECT_TRUE(messages().empty());
  feed(frame(R"({"id":2,"op":"subscribe","arguments":{"events":["purge"]}})"));
  EXPECT_TRUE(reply().result);
  session_.event("purge", Json::object({{"done", 1}}));
  session_.event("member", Json::object());
  session_.event("purge", Json::object({{"done", 2}}));
  const auto list = messages();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(std::get<Event>(list[0]).number + 1, std::get<Event>(list[1]).number);
  feed(frame(R"({"id":3,"op":"unsubscribe","arguments":{"events":["purge"]}})"));
  EXPECT_TRUE(reply().result);
  session_.event("purge", Json::object());
  EXPECT_TRUE(messages().empty());
}

TEST_F(SessionTest, ASlowSubscriberIsCutOffAndToldSo) {
  greet();
  feed(frame(R"({"id":2,"op":"subscribe","arguments":{"events":["*"]}})"));
  const Json large = Json::object({{"text", std::string(1 << 20, 'x')}});
  for (int i = 0; i < 100; ++i) session_.event("flood", large);
  EXPECT_TRUE(session_.ended());
  EXPECT_LT(session_.out().bytes(), kMaxOutBytes + (2u << 20));
  EXPECT_EQ(std::get<Event>(messages().back()).name, "overrun");
}

TEST_F(SessionTest, MalformedFramesEndTheSessionWithAReason) {
  const std::string bad[] = {
      u32(kMaxFrameBytes + 1),
      frame(""),
      frame("not json"),
      frame("[]"),
      frame(R"({"op":"status"})"),
      frame(R"({"id":-1,"op":"status"})"),
      frame(R"({"id":2,"op":5})"),
      frame(R"({"id":2,"id":3,"op":"status"})"),
      frame(R"({"id":2,"op":"status","arguments":[]})"),
      frame(R"({"id":2,"op":")" + std::string(1000, 'o') + R"("})"),
      frame(std::string(100, '[')),
      frame(R"({"id":9,"op":"a"})") + frame(R"({"id":9,"op":"b"})"),
  };
  for (const auto& bytes : bad) {
    Session session(pool_, Json::object());
    session.feed(as_bytes(frame(R"({"id":1,"op":"hello","arguments":{"version":1}})")));
    session.take_events();
    session.feed(as_bytes(bytes));
    EXPECT_TRUE(session.ended()) << bytes;
  }
}

TEST_F(SessionTest, TooManyOpenCallsStopTheReading) {
  greet();
  std::string bytes;
  for (std::uint64_t id = 100; id < 300; ++id) bytes += frame(encode_call({id, "status", Json::object()}));
  feed(bytes);
  EXPECT_EQ(calls_.size(), kMaxCallsInFlight);
  EXPECT_TRUE(session_.paused());
  session_.reply(calls_[0].id, Json());
  EXPECT_FALSE(session_.paused());
}

TEST_F(SessionTest, AnAnswerTooLargeForAFrameBecomesAnError) {
  greet();
  feed(frame(encode_call({5, "status", Json::object()})));
  session_.reply(5, Json(std::string(kMaxFrameBytes, 'x')));
  const auto answer = reply();
  EXPECT_EQ(answer.id, 5u);
  EXPECT_TRUE(answer.result.is(Errc::exhausted));
}

TEST(ControlMessages, EveryErrorCodeSurvives) {
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
    const auto code = static_cast<Errc>(i);
    EXPECT_EQ(errc_of(to_string(code)), code);
  }
  EXPECT_EQ(errc_of("from the future"), Errc::internal);
}

TEST(ControlMessages, GarbageIsAnError) {
  for (const auto* text :
       {"", "{}", "[]", "null", R"({"ok":false})", R"({"ok":false,"error":{}})", R"({"ok":1})"}) {
    EXPECT_FALSE(decode_message(text).ok()) << text;
  }
}

}  // namespace
}  // namespace moor::block::control
