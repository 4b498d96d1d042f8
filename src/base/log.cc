#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/json.h"
#include "base/timestamp.h"

namespace moor {
namespace {

constexpr std::size_t kWaitingBytes = 16 * 1024;

// spdlog brings the sink and its lock; the line is ours, because its JSON pattern does not escape.
struct Logger {
  std::atomic<LogLevel> least{LogLevel::warn};
  std::atomic<LogFormat> format{LogFormat::text};
  RealClock clock;
  std::shared_ptr<spdlog::logger> sink;
  std::atomic<bool> deferred{false};
  std::atomic<bool> waits{false};
  std::mutex mutex;     // of what waits
  std::string waiting;  // whole lines but for the last one's end

  ~Logger() { flush(); }
  Logger() {
    sink = std::make_shared<spdlog::logger>("moor", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    sink->set_pattern("%v");
    sink->set_level(spdlog::level::trace);
  }
  void flush() {
    const std::lock_guard lock(mutex);
    if (!waiting.empty()) sink->log(spdlog::level::info, waiting);
    waiting.clear();
    waits = false;
    sink->flush();
  }
  void write(LogLevel level, std::string_view line) {
    {
      const std::lock_guard lock(mutex);
      if (!waiting.empty()) waiting.push_back('\n');
      waiting += line;
      waits = true;
      if (deferred && level < LogLevel::warn && waiting.size() < kWaitingBytes) return;
    }
    flush();
  }
};

Logger& logger() {
  static Logger instance;  // the one process-wide thing: stderr is one per process too
  return instance;
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warn";
    case LogLevel::error: return "error";
    case LogLevel::off: return "off";
  }
  return "?";
}

bool is_plain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' || c == 0x7f) return false;
  }
  return true;
}

void append_json_line(std::string& out, LogLevel level, std::string_view message, LogFields fields) {
  out += fmt::format("\"level\":\"{}\",\"message\":", name_of(level));
  append_json_string(out, message);
  for (const LogField& field : fields) {
    out.push_back(',');
    append_json_string(out, field.key);
    out.push_back(':');
    if (field.quoted) {
      append_json_string(out, field.text);
    } else {
      out += field.text;
    }
  }
}

}  // namespace

std::string format_log_line(LogFormat format, LogLevel level, std::string_view message, LogFields fields) {
  std::string out;
  if (format == LogFormat::json) {
    append_json_line(out, level, message, fields);
    return out;
  }
  out.reserve(256);
  out.append(name_of(level)).append(" ").append(message);
  for (const LogField& field : fields) {
    out.append(" ").append(field.key).append("=");
    if (is_plain(field.text)) {
      out += field.text;
    } else {
      append_json_string(out, field.text);
    }
  }
  return out;
}

void configure_log(LogLevel least, LogFormat format) {
  logger().least = least;
  logger().format = format;
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error, LogLevel::off}) {
    if (text == name_of(level)) return level;
  }
  return make_error(Errc::invalid,
                    fmt::format("'{}' is no log level: debug, info, warn, error or off", text));
}

bool log_enabled(LogLevel level) {
  return level >= logger().least.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view message, LogFields fields) {
  if (!log_enabled(level)) return;
  const LogFormat format = logger().format;
  const std::string line = format_log_line(format, level, message, fields);
  const std::string time = format_timestamp_micro(logger().clock.wall());
  const std::string whole =
      format == LogFormat::json ? fmt::format("{{\"time\":\"{}\",{}}}", time, line) : time + " " + line;
  logger().write(level, whole);
}

void defer_log(bool deferred) {
  logger().deferred = deferred;
}

bool log_waits() {
  return logger().waits.load(std::memory_order_relaxed);
}

void flush_log() {
  logger().flush();
}

}  // namespace moor
