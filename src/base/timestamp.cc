#include "base/timestamp.h"

#include <fmt/format.h>

#include <charconv>

namespace moor {
namespace {
using namespace std::chrono;  // NOLINT(google-build-using-namespace): calendar types, this file only

// By hand: every write of an object and every line of the log has one.
char* put_digits(char* out, unsigned value, int digits) {
  for (int i = digits - 1; i >= 0; --i, value /= 10) out[i] = static_cast<char>('0' + value % 10);
  return out + digits;
}

constexpr std::size_t kSecondsSize = sizeof("2026-01-31T12:00:00") - 1;

char* put_seconds(char* out, sys_seconds seconds) {
  const auto day = floor<days>(seconds);
  const year_month_day date{day};
  const hh_mm_ss time{seconds - day};
  const auto number = [](auto count) { return static_cast<unsigned>(count); };
  out = put_digits(out, number(static_cast<int>(date.year())), 4);
  *out++ = '-';
  out = put_digits(out, number(date.month()), 2);
  *out++ = '-';
  out = put_digits(out, number(date.day()), 2);
  *out++ = 'T';
  out = put_digits(out, number(time.hours().count()), 2);
  *out++ = ':';
  out = put_digits(out, number(time.minutes().count()), 2);
  *out++ = ':';
  return put_digits(out, number(time.seconds().count()), 2);
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
  std::string text(kSecondsSize + 1, 'Z');
  put_seconds(text.data(), floor<seconds>(sys_time<microseconds>(time.since_epoch)));
  return text;
}

std::string format_timestamp_micro(WallTime time) {
  const sys_time<microseconds> point(time.since_epoch);
  const auto whole = floor<seconds>(point);
  std::string text(kSecondsSize + 8, 'Z');
  char* out = put_seconds(text.data(), whole);
  *out++ = '.';
  put_digits(out, static_cast<unsigned>((point - whole).count()), 6);
  return text;
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
