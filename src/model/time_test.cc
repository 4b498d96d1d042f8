#include "model/time.h"

#include <gtest/gtest.h>

namespace moor::model {
namespace {

using namespace std::chrono_literals;

TEST(Time, ReadsEveryFormOfRfc3339AndWritesOne) {
  const struct {
    const char* text;
    const char* utc;
  } cases[] = {
      {"2026-11-15T22:03:41Z", "2026-11-15T22:03:41.000000Z"},
      {"2026-11-15T22:03:41.5Z", "2026-11-15T22:03:41.500000Z"},
      {"2026-11-15T22:03:41.123456789Z", "2026-11-15T22:03:41.123456Z"},
      {"2026-11-16T00:03:41+02:00", "2026-11-15T22:03:41.000000Z"},
      {"2026-11-15T16:33:41-05:30", "2026-11-15T22:03:41.000000Z"},
      {"2024-02-29T00:00:00z", "2024-02-29T00:00:00.000000Z"},
      {"1969-12-31T23:59:59Z", "1969-12-31T23:59:59.000000Z"},
  };
  for (const auto& one : cases) {
    const auto time = parse_rfc3339(one.text);
    ASSERT_TRUE(time) << one.text;
    EXPECT_EQ(format_rfc3339_micro(*time), one.utc);
  }
  EXPECT_EQ(format_rfc3339(*parse_rfc3339("2026-11-15T22:03:41.9Z")), "2026-11-15T22:03:41Z");
}

TEST(Time, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2026-11-15", "2026-11-15T22:03:41", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-11-15T24:00:00Z", "2026-11-15T22:60:00Z", "2026-11-15 22:03:41Z", "2026-11-15T22:03:41.Z",
        "2026-11-15T22:03:41+25:00", "2026-11-15T22:03:41Zx", "26-11-15T22:03:41Z"})
    EXPECT_FALSE(parse_rfc3339(text)) << text;
}

// The table follows the documented behaviour of kubectl: two units only while the first is small.
TEST(Time, AgesReadAsKubectlPrintsThem) {
  constexpr auto kDay = 24h;
  const struct {
    std::chrono::microseconds age;
    const char* text;
  } cases[] = {
      {0s, "0s"},
      {5s, "5s"},
      {119s, "119s"},
      {120s, "2m"},
      {182s, "3m2s"},
      {599s, "9m59s"},
      {600s, "10m"},
      {179min + 59s, "179m"},
      {3h, "3h"},
      {3h + 5min, "3h5m"},
      {7h + 59min, "7h59m"},
      {8h, "8h"},
      {47h + 59min, "47h"},
      {48h, "2d"},
      {2 * kDay + 3h, "2d3h"},
      {7 * kDay + 23h, "7d23h"},
      {8 * kDay, "8d"},
      {12 * kDay + 5h, "12d"},
      {729 * kDay, "729d"},
      {730 * kDay, "2y"},
      {731 * kDay, "2y1d"},
      {8 * 365 * kDay + 40 * kDay, "8y"},
      {-1s, "0s"},
      {-1999ms, "0s"},
      {-2s, "<invalid>"},
      {1999ms, "1s"},
  };
  for (const auto& one : cases) EXPECT_EQ(human_duration(one.age), one.text);
}

TEST(Time, ReadsDurationsOfGo) {
  EXPECT_EQ(parse_go_duration("5m0s"), 300s);
  EXPECT_EQ(parse_go_duration("1h30m"), 90min);
  EXPECT_EQ(parse_go_duration("300ms"), 300ms);
  EXPECT_EQ(parse_go_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_go_duration("-2s"), -2s);
  EXPECT_EQ(parse_go_duration("0"), 0s);
  for (const char* text : {"", "5", "5 m", "m", "5x", "-", "1h-2m", "99999999999999h"})
    EXPECT_FALSE(parse_go_duration(text)) << text;
}

}  // namespace
}  // namespace moor::model
