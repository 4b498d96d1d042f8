#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace moor {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array kSizes = {
    Unit{"", 1},
    Unit{"Ki", 1ull << 10},
    Unit{"Mi", 1ull << 20},
    Unit{"Gi", 1ull << 30},
    Unit{"Ti", 1ull << 40},
    Unit{"Pi", 1ull << 50},
    Unit{"Ei", 1ull << 60},
    Unit{"k", 1000},
    Unit{"M", 1000'000},
    Unit{"G", 1000'000'000},
    Unit{"T", 1000'000'000'000},
    Unit{"P", 1000'000'000'000'000},
    Unit{"E", 1000'000'000'000'000'000},
};
constexpr std::array kTimes = {
    Unit{"ns", 1},           Unit{"us", 1000},          Unit{"ms", 1000'000},
    Unit{"s", 1000'000'000}, Unit{"m", 60'000'000'000}, Unit{"h", 3600'000'000'000},
};

// The number at the front of `text`, and what follows it.
struct Amount {
  std::uint64_t whole = 0;
  double fraction = 0;
  std::string_view rest;
};

bool read_amount(std::string_view text, Amount& amount) {
  const char* const end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, amount.whole);
  if (parsed.ec != std::errc()) return false;
  if (parsed.ptr != end && *parsed.ptr == '.') {
    double step = 0.1;
    const char* digit = parsed.ptr + 1;
    for (; digit != end && *digit >= '0' && *digit <= '9'; ++digit, step /= 10)
      amount.fraction += (*digit - '0') * step;
    if (digit == parsed.ptr + 1) return false;
    parsed.ptr = digit;
  }
  amount.rest = {parsed.ptr, static_cast<std::size_t>(end - parsed.ptr)};
  return true;
}

bool scale(const Amount& amount, std::uint64_t factor, std::uint64_t& result) {
  if (__builtin_mul_overflow(amount.whole, factor, &result)) return false;
  const auto part = static_cast<std::uint64_t>(std::llround(amount.fraction * static_cast<double>(factor)));
  return !__builtin_add_overflow(result, part, &result);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  Amount amount;
  std::uint64_t bytes = 0;
  if (read_amount(text, amount)) {
    for (const Unit& unit : kSizes) {
      if (unit.name == amount.rest && (amount.fraction == 0 || unit.factor > 1) &&
          scale(amount, unit.factor, bytes))
        return bytes;
    }
  }
  return make_error(Errc::invalid,
                    fmt::format("'{}' is no size: write it like 512Mi, 10Gi or 1073741824", text));
}

std::string format_size(std::uint64_t bytes) {
  for (std::size_t i = 6; i > 0 && bytes > 0; --i) {
    if (bytes % kSizes[i].factor == 0) return fmt::format("{}{}", bytes / kSizes[i].factor, kSizes[i].name);
  }
  return fmt::format("{}", bytes);
}

Result<Duration> parse_duration(std::string_view text) {
  const Error refused =
      make_error(Errc::invalid, fmt::format("'{}' is no duration: write it like 250ms, 30s or 1h30m", text));
  std::uint64_t total = 0;
  std::string_view rest = text;
  if (rest.empty()) return refused;
  while (!rest.empty()) {
    Amount amount;
    if (!read_amount(rest, amount)) return refused;
    const std::size_t name_length = std::min(amount.rest.find_first_of("0123456789"), amount.rest.size());
    const std::string_view name = amount.rest.substr(0, name_length);
    std::uint64_t part = 0;
    bool known = false;
    for (const Unit& unit : kTimes) known = known || (unit.name == name && scale(amount, unit.factor, part));
    if (!known || __builtin_add_overflow(total, part, &total) || total > INT64_MAX) return refused;
    rest = amount.rest.substr(name_length);
  }
  return Duration(static_cast<std::int64_t>(total));
}

}  // namespace moor
