// The small things of base: times, sizes, ids, random numbers, log lines.
#include <set>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/timestamp.h"
#include "base/units.h"

namespace moor {
namespace {
using namespace std::chrono_literals;

TEST(Timestamp, RoundTripsAndUnderstandsOffsets) {
  const WallTime time = *parse_timestamp("2026-02-28T23:59:59.123456Z");
  EXPECT_EQ(format_timestamp(time), "2026-02-28T23:59:59Z");
  EXPECT_EQ(format_timestamp_micro(time), "2026-02-28T23:59:59.123456Z");
  EXPECT_EQ(*parse_timestamp("2026-03-01T01:29:59.1234569+01:30"), time);
  EXPECT_EQ(parse_timestamp("1970-01-01T00:00:00Z")->since_epoch, 0us);
  EXPECT_EQ(format_timestamp(WallTime{-1s}), "1969-12-31T23:59:59Z");
}

TEST(Timestamp, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Zx", "2026-1-01T00:00:00Z", "+026-01-01T00:00:00Z"})
    EXPECT_TRUE(parse_timestamp(bad).is(Errc::invalid)) << bad;
}

TEST(Units, SizesAsPeopleTypeThem) {
  EXPECT_EQ(*parse_size("1Gi"), 1ull << 30);
  EXPECT_EQ(*parse_size("1.5Gi"), 3ull << 29);
  EXPECT_EQ(*parse_size("10G"), 10'000'000'000u);
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(format_size(3ull << 29), "1536Mi");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(0), "0");
  for (const char* bad : {"", "Gi", "1gi", "-1", "1.5", "1 Gi", "16Ei", "1..5Gi", "0x10"})
    EXPECT_TRUE(parse_size(bad).is(Errc::invalid)) << bad;
}

TEST(Units, DurationsNeedAUnit) {
  EXPECT_EQ(*parse_duration("250ms"), 250ms);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  for (const char* bad : {"", "10", "s", "10x", "1h30", "-1s", "9999999999h"})
    EXPECT_TRUE(parse_duration(bad).is(Errc::invalid)) << bad;
}

TEST(Random, ASeedGivesTheSameNumbersEverywhere) {
  SeededRandom random(42);
  // Computed once by hand from the published algorithms; a change here would break every recorded seed.
  EXPECT_EQ(random.next(), 1546998764402558742u);
  EXPECT_EQ(random.next(), 6990951692964543102u);
  SeededRandom other(43);
  EXPECT_NE(other.next(), 1546998764402558742u);
}

TEST(Random, StaysWithinItsBounds) {
  SeededRandom random(1);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(7), 7u);
    seen.insert(random.between(-2, 2));
  }
  EXPECT_THAT(seen, testing::ElementsAre(-2, -1, 0, 1, 2));
  random.between(INT64_MIN, INT64_MAX);
}

TEST(Ids, UuidsAreVersionFourAndDistinct) {
  SeededRandom random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = make_uuid(random);
    EXPECT_TRUE(is_uuid(uuid)) << uuid;
    EXPECT_EQ(uuid[14], '4');
    EXPECT_TRUE(std::string_view("89ab").find(uuid[19]) != std::string_view::npos);
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(is_uuid("6F9619FF-8B86-4011-B42D-00C04FC964FF"));
  EXPECT_EQ(make_suffix(random).size(), 5u);
}

TEST(Log, LinesWaitForTheFlushAndKeepTheirOrder) {
  configure_log(LogLevel::info, LogFormat::text);
  defer_log(true);
  testing::internal::CaptureStderr();
  log_info("first");
  log_info("second");
  EXPECT_TRUE(log_waits());
  flush_log();
  EXPECT_FALSE(log_waits());
  log_info("third");
  log_warn("fourth");  // waits for nobody, nor do those before it
  EXPECT_FALSE(log_waits());
  log_info(std::string(20'000, 'x'));  // too much to wait
  EXPECT_FALSE(log_waits());
  defer_log(false);
  log_info("fifth");
  EXPECT_FALSE(log_waits());
  const std::string text = testing::internal::GetCapturedStderr();
  configure_log(LogLevel::warn, LogFormat::text);
  std::size_t at = 0;
  for (const char* line :
       {" info first\n", " info second\n", " info third\n", " warn fourth\n", "x\n", " info fifth\n"}) {
    at = text.find(line, at);
    ASSERT_NE(at, std::string::npos) << line << text;
  }
}

TEST(Log, FieldsAreQuotedWhereNeeded) {
  EXPECT_EQ(format_log_line(LogFormat::text, LogLevel::info, "started",
                            {{"volume", "v1"}, {"epoch", 7}, {"why", "a b\n"}, {"e", ""}}),
            R"(info started volume=v1 epoch=7 why="a b\n" e="")");
  const std::string json =
      "{" +
      format_log_line(LogFormat::json, LogLevel::warn, "say \"x\"", {{"on", true}, {"n", 1.5}, {"s", "1"}}) +
      "}";
  const auto parsed = parse_json(json);
  ASSERT_TRUE(parsed.ok()) << json;
  EXPECT_EQ(parsed->get_string("message"), "say \"x\"");
  EXPECT_EQ(parsed->get_bool("on"), true);
  EXPECT_EQ(parsed->get_string("s"), "1");
}

}  // namespace
}  // namespace moor
