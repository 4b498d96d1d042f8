#include "base/timestamp.h"

#include <fmt/format.h>

#include <charconv>

namespace moor {
namespace {
using namespace std::chrono;  // NOLINT(google-build-using-namespace): calendar types, this file only

std::string format_seconds(sys_seconds seconds) {
  const auto day = floor<days>(seconds);
  const year_month_day date{day};
  const hh_mm_ss time{seconds - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

// Eats exactly `digits` digits and, when given, the character after them.
struct Cursor {
  std::string_view rest;
  bool good = true;

  int number(std::size_t digits, char after = 0) {
    int value = 0;
    if (rest.size() < digits) return fail();
    const auto end = std::from_chars(rest.data(), rest.data() + digits, value);
    if (end.ptr != rest.data() + digits || end.ec != std::errc() || value < 0) return fail();
    rest.remove_prefix(digits);
    if (after != 0 && !take(after)) return fail();
    return value;
  }
  bool take(char c) {
    if (rest.empty() || (rest.front() != c && rest.front() != c + 32)) return false;
    rest.remove_prefix(1);
    return true;
  }
  int fail() {
    good = false;
    return 0;
  }
};

microseconds fraction(Cursor& cursor) {
  std::int64_t micros = 0;
  int digits = 0;
  while (!cursor.rest.empty() && cursor.rest.front() >= '0' && cursor.rest.front() <= '9') {
    if (digits < 6) micros = micros * 10 + (cursor.rest.front() - '0');
    ++digits;
    cursor.rest.remove_prefix(1);
  }
  if (digits == 0) cursor.fail();
  for (; digits < 6; ++digits) micros *= 10;
  return microseconds(micros);
}

minutes offset(Cursor& cursor) {
  if (cursor.take('Z')) return minutes(0);
  const bool ahead = cursor.take('+');
  if (!ahead && !cursor.take('-')) cursor.fail();
  const int hour = cursor.number(2, ':');
  const int minute = cursor.number(2);
  if (hour > 23 || minute > 59) cursor.fail();
  const minutes total(hour * 60 + minute);
  return ahead ? total : -total;
}
}  // namespace

std::string format_timestamp(WallTime time) {
  return format_seconds(floor<seconds>(sys_time<microseconds>(time.since_epoch))) + "Z";
}

std::string format_timestamp_micro(WallTime time) {
  const sys_time<microseconds> point(time.since_epoch);
  const auto whole = floor<seconds>(point);
  return fmt::format("{}.{:06}Z", format_seconds(whole), (point - whole).count());
}

Result<WallTime> parse_timestamp(std::string_view text) {
  Cursor cursor{text};
  const int year_number = cursor.number(4, '-');
  const int month_number = cursor.number(2, '-');
  const int day_number = cursor.number(2, 'T');
  const int hour = cursor.number(2, ':');
  const int minute = cursor.number(2, ':');
  const int second = cursor.number(2);
  const microseconds micros = cursor.good && cursor.take('.') ? fraction(cursor) : microseconds(0);
  const minutes ahead = cursor.good ? offset(cursor) : minutes(0);
  const year_month_day date{year(year_number), month(static_cast<unsigned>(month_number)),
                            day(static_cast<unsigned>(day_number))};
  // 60: a leap second is accepted and counts as the first of the next minute.
  if (!cursor.good || !cursor.rest.empty() || !date.ok() || hour > 23 || minute > 59 || second > 60)
    return make_error(Errc::invalid,
                      fmt::format("'{}' is no time like 2026-01-31T12:00:00Z", text.substr(0, 64)));
  const auto point = sys_days(date) + hours(hour) + minutes(minute) + seconds(second) + micros - ahead;
  return WallTime{point.time_since_epoch()};
}

}  // namespace moor
