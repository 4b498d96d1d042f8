// Structured lines on stderr: one event, one line, time first, then level, message and fields.
//
//   log_info("replica started", {{"volume", name}, {"epoch", epoch}});
//   2026-01-31T12:00:00.123456Z info replica started volume=v1 epoch=7
//
// With the format `json` each line is one JSON object. Thread-safe; a line is written whole.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace moor {

enum class LogLevel { debug, info, warn, error, off };
enum class LogFormat { text, json };

struct LogField {
  std::string_view key;
  std::string text;
  bool quoted = true;  // numbers and booleans stay bare in JSON

  LogField(std::string_view name, std::string_view value) : key(name), text(value) {}
  LogField(std::string_view name, const std::string& value) : key(name), text(value) {}
  LogField(std::string_view name, const char* value) : key(name), text(value) {}
  LogField(std::string_view name, const Error& error) : key(name), text(error.message) {}
  LogField(std::string_view name, bool value) : key(name), text(value ? "true" : "false"), quoted(false) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> LogField(std::string_view name, Number value)
      : key(name), text(std::to_string(value)), quoted(false) {}
};
using LogFields = std::initializer_list<LogField>;

// Once at start-up, before threads; tests leave it at its default (warn and above, text).
void configure_log(LogLevel least, LogFormat format);
Result<LogLevel> parse_log_level(std::string_view text);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view message, LogFields fields);

inline void log_debug(std::string_view message, LogFields fields = {}) {
  if (log_enabled(LogLevel::debug)) log_line(LogLevel::debug, message, fields);
}
inline void log_info(std::string_view message, LogFields fields = {}) {
  if (log_enabled(LogLevel::info)) log_line(LogLevel::info, message, fields);
}
inline void log_warn(std::string_view message, LogFields fields = {}) {
  log_line(LogLevel::warn, message, fields);
}
inline void log_error(std::string_view message, LogFields fields = {}) {
  log_line(LogLevel::error, message, fields);
}

// While deferred, lines below `warn` wait for flush_log(), so that one system call writes many: for a program
// with a Loop, which flushes before it waits, and a server, which does before an answer leaves. A line of
// `warn` and above, or one too many, writes all of them at once.
void defer_log(bool deferred);
bool log_waits();
void flush_log();

// Exactly what log_line prints after the time, for tests and for other sinks.
std::string format_log_line(LogFormat format, LogLevel level, std::string_view message, LogFields fields);

}  // namespace moor
