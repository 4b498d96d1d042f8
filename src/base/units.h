// Sizes and durations as people type them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace moor {

// "1073741824", "512Ki", "1Gi", "1.5Ti" (powers of 1024), "10k", "1M", "2G" (powers of 1000).
Result<std::uint64_t> parse_size(std::string_view text);
// The largest binary unit that divides evenly, else bytes: 1Gi, 1536Mi, 1000.
std::string format_size(std::uint64_t bytes);

// "250ms", "30s", "5m", "2h", "1h30m"; a bare number is refused because nobody knows its unit.
Result<Duration> parse_duration(std::string_view text);

}  // namespace moor
