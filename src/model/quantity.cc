#include "model/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace moor::model {
namespace {

struct Suffix {
  std::string_view text;
  int base;
  int exponent;
};
constexpr Suffix kSuffixes[] = {
    {"n", 10, -9}, {"u", 10, -6}, {"m", 10, -3}, {"", 10, 0},   {"k", 10, 3},  {"M", 10, 6},
    {"G", 10, 9},  {"T", 10, 12}, {"P", 10, 15}, {"E", 10, 18}, {"Ki", 2, 10}, {"Mi", 2, 20},
    {"Gi", 2, 30}, {"Ti", 2, 40}, {"Pi", 2, 50}, {"Ei", 2, 60},
};

struct Parsed {
  long double number = 0;
  long double scale = 1;
};

std::optional<Parsed> parse(std::string_view text) {
  std::size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++at;
  long double number = 0, divisor = 1;
  bool digits = false, point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !point) {
      point = true;
    } else if (text[at] >= '0' && text[at] <= '9') {
      digits = true;
      number = number * 10 + (text[at] - '0');
      if (point) divisor *= 10;
    } else {
      break;
    }
  }
  if (!digits) return std::nullopt;
  Parsed parsed{(negative ? -number : number) / divisor, 1};
  const std::string_view rest = text.substr(at);
  // "1e3" and "1E3" are exponents; a bare "E" is the suffix exa.
  if (rest.size() > 1 && (rest[0] == 'e' || rest[0] == 'E')) {
    const char* first = rest.data() + (rest[1] == '+' ? 2 : 1);
    int exponent = 0;
    const auto [end, error] = std::from_chars(first, rest.data() + rest.size(), exponent);
    if (error != std::errc{} || end != rest.data() + rest.size() || std::abs(exponent) > 60)
      return std::nullopt;
    parsed.scale = std::pow(10.0L, exponent);
    return parsed;
  }
  for (const Suffix& suffix : kSuffixes) {
    if (rest != suffix.text) continue;
    parsed.scale = std::pow(static_cast<long double>(suffix.base), suffix.exponent);
    return parsed;
  }
  return std::nullopt;
}

}  // namespace

bool is_quantity(std::string_view text) {
  return parse(text).has_value();
}

std::optional<std::int64_t> Quantity::value() const {
  const auto parsed = parse(text);
  if (!parsed) return std::nullopt;
  const long double value = std::ceil(parsed->number * parsed->scale);
  if (!(value >= -9.2e18L && value <= 9.2e18L)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Quantity quantity_of_bytes(std::int64_t bytes) {
  static constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return {fmt::format("{}{}", bytes, kUnits[unit])};
}

}  // namespace moor::model
