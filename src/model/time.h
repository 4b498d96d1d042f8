// Time as the API writes it. Values only: nothing here reads a clock, `now` always comes from the caller.
//
// A Time is microseconds since 1970 in UTC. Objects carry it as RFC 3339 text: whole seconds for ordinary
// times (metadata.creationTimestamp), six digits of a second for MicroTime (leases, events). Parsing takes
// any offset and any number of fractional digits; digits past the sixth are dropped.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace moor::model {

using Time = std::chrono::sys_time<std::chrono::microseconds>;

// A time whose text keeps its microseconds.
struct MicroTime {
  Time at;
  bool operator==(const MicroTime&) const = default;
};

std::optional<Time> parse_rfc3339(std::string_view text);
std::string format_rfc3339(Time time);        // 2026-11-15T22:03:41Z
std::string format_rfc3339_micro(Time time);  // 2026-11-15T22:03:41.000120Z

// An age as kubectl prints it: 5s, 3m2s, 4h, 12d. It shows two units only while the first one is small. A
// moment up to two seconds in the future counts as now, because clocks differ; further ahead is "<invalid>".
std::string human_duration(std::chrono::microseconds age);

// A duration as Go writes it ("5m0s", "1h30m", "300ms"); absent when the text is none.
std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

}  // namespace moor::model
