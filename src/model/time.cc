#include "model/time.h"

#include <fmt/format.h>

#include <cstdint>

namespace moor::model {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// Reads exactly `digits` decimal digits and moves past them.
bool take_number(std::string_view& text, std::size_t digits, int& out) {
  if (text.size() < digits) return false;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (text[i] - '0');
  }
  out = value;
  text.remove_prefix(digits);
  return true;
}

bool take_char(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

// ".123456789" -> microseconds; absent fraction is zero.
bool take_fraction(std::string_view& text, std::int64_t& micros) {
  micros = 0;
  if (!take_char(text, '.')) return true;
  std::int64_t unit = 100'000;
  std::size_t digits = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    micros += (text.front() - '0') * unit;
    unit /= 10;
    text.remove_prefix(1);
    ++digits;
  }
  return digits > 0;
}

bool take_offset(std::string_view& text, std::int64_t& offset_seconds) {
  offset_seconds = 0;
  if (text == "Z" || text == "z") {
    text = {};
    return true;
  }
  const bool plus = take_char(text, '+');
  if (!plus && !take_char(text, '-')) return false;
  int hours = 0;
  int minutes = 0;
  if (!take_number(text, 2, hours) || !take_char(text, ':') || !take_number(text, 2, minutes)) return false;
  if (hours > 23 || minutes > 59) return false;
  offset_seconds = (hours * 3600 + minutes * 60) * (plus ? 1 : -1);
  return true;
}

std::string date_and_clock(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{std::chrono::floor<seconds>(time) - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::optional<Time> parse_rfc3339(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  std::int64_t micros = 0, offset = 0;
  if (!take_number(text, 4, year) || !take_char(text, '-') || !take_number(text, 2, month) ||
      !take_char(text, '-') || !take_number(text, 2, day))
    return std::nullopt;
  if (!take_char(text, 'T') && !take_char(text, 't')) return std::nullopt;
  if (!take_number(text, 2, hour) || !take_char(text, ':') || !take_number(text, 2, minute) ||
      !take_char(text, ':') || !take_number(text, 2, second))
    return std::nullopt;
  if (!take_fraction(text, micros) || !take_offset(text, offset) || !text.empty()) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         seconds{second} + microseconds{micros} - seconds{offset};
}

std::string format_rfc3339(Time time) {
  return date_and_clock(time) + "Z";
}

std::string format_rfc3339_micro(Time time) {
  const auto fraction = time - std::chrono::floor<seconds>(time);
  return fmt::format("{}.{:06}Z", date_and_clock(time), fraction.count());
}

std::string human_duration(microseconds age) {
  const std::int64_t s = std::chrono::duration_cast<seconds>(age).count();
  if (s < -1) return "<invalid>";
  if (s < 0) return "0s";
  const std::int64_t m = s / 60, h = s / 3600, d = h / 24, y = d / 365;
  // The second unit is dropped when it is zero: 4h, not 4h0m.
  const auto two = [](std::int64_t a, char a_unit, std::int64_t b, char b_unit) {
    return b == 0 ? fmt::format("{}{}", a, a_unit) : fmt::format("{}{}{}{}", a, a_unit, b, b_unit);
  };
  if (s < 120) return fmt::format("{}s", s);
  if (m < 10) return two(m, 'm', s % 60, 's');
  if (m < 180) return fmt::format("{}m", m);
  if (h < 8) return two(h, 'h', m % 60, 'm');
  if (h < 48) return fmt::format("{}h", h);
  if (d < 8) return two(d, 'd', h % 24, 'h');
  if (d < 365 * 2) return fmt::format("{}d", d);
  if (d < 365 * 8) return two(y, 'y', d % 365, 'd');
  return fmt::format("{}y", y);
}

std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double nanoseconds;
  };
  static constexpr Unit kUnits[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                                    {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  if (text == "0") return std::chrono::nanoseconds{0};
  const bool negative = take_char(text, '-');
  if (!negative) take_char(text, '+');
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    double value = 0, scale = 1;
    bool digits = false, point = false;
    for (; !text.empty(); text.remove_prefix(1)) {
      const char c = text.front();
      if (c == '.' && !point) {
        point = true;
      } else if (c >= '0' && c <= '9') {
        digits = true;
        value = value * 10 + (c - '0');
        if (point) scale *= 10;
      } else {
        break;
      }
    }
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits)
      if (candidate.name == text.substr(0, letters)) unit = &candidate;
    if (!digits || unit == nullptr) return std::nullopt;
    total += value / scale * unit->nanoseconds;
    if (total > 9.2e18) return std::nullopt;
    text.remove_prefix(letters);
  }
  return std::chrono::nanoseconds{static_cast<std::int64_t>(negative ? -total : total)};
}

}  // namespace moor::model
