// Wall time as text: RFC 3339 in UTC, as Kubernetes objects carry it.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace moor {

std::string format_timestamp(WallTime time);        // 2026-01-31T12:00:00Z
std::string format_timestamp_micro(WallTime time);  // 2026-01-31T12:00:00.123456Z
// Takes any RFC 3339 time; an offset is turned into UTC, digits below the microsecond are dropped.
Result<WallTime> parse_timestamp(std::string_view text);

}  // namespace moor
