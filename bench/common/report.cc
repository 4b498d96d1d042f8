#include "bench/common/report.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/assert.h"
#include "base/timestamp.h"

namespace moor::bench {
namespace {
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}
}  // namespace

Duration Latencies::quantile(double fraction) {
  if (samples_.empty()) return Duration(0);
  if (sorted_ != samples_.size()) std::sort(samples_.begin(), samples_.end());
  sorted_ = samples_.size();
  const auto index = static_cast<std::size_t>(fraction * static_cast<double>(samples_.size()));
  return samples_[std::min(index, samples_.size() - 1)];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}
double micros(Duration duration) {
  return static_cast<double>(duration.count()) / 1e3;
}

std::uint64_t resident_bytes() {
  std::istringstream fields(first_line("/proc/self/statm"));
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  fields >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void touch_memory(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  MOOR_ASSERT(memory != MAP_FAILED, "no {} bytes of memory", bytes);
  munmap(memory, bytes);
}

Duration cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

namespace {
std::uint64_t status_bytes(pid_t process, std::string_view field) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::strtoull(line.c_str() + field.size(), nullptr, 10) * 1024;
  }
  MOOR_UNREACHABLE("process {} has no {}", process, field);
}
}  // namespace

std::uint64_t resident_bytes(pid_t process) {
  return status_bytes(process, "VmRSS:");
}

std::uint64_t peak_resident_bytes(pid_t process) {
  return status_bytes(process, "VmHWM:");
}

Duration cpu_time(pid_t process) {
  // The sum that /proc/PID/stat shows in ticks of 10 ms, in nanoseconds.
  clockid_t clock{};
  timespec time{};
  MOOR_ASSERT(clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &time) == 0,
              "process {} is gone", process);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::string load_average() {
  return first_line("/proc/loadavg");
}

Report::Report(std::string directory, std::string name, std::string title) {
  std::filesystem::create_directories(directory);
  base_ = std::filesystem::path(directory) / name;
  std::ofstream(base_ + ".jsonl", std::ios::trunc).flush();
  utsname system{};
  uname(&system);
  append(fmt::format("# {}\n\n{}, {} cores ({}), Linux {}, load {} at the start.\n", title,
                     format_timestamp(RealClock().wall()), std::thread::hardware_concurrency(), processor(),
                     system.release, first_line("/proc/loadavg")));
}

Report::~Report() {
  append(fmt::format("\nLoad at the end: {}.\n", first_line("/proc/loadavg")));
  std::ofstream(base_ + ".md", std::ios::trunc) << page_;
  fmt::print("\nwritten: {0}.md, {0}.jsonl\n", base_);
}

void Report::append(const std::string& text) {
  page_ += text;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Report::raw(Json line) {
  std::ofstream(base_ + ".jsonl", std::ios::app) << to_text(line) << "\n";
}

void Report::heading(const std::string& text) {
  append("\n## " + text + "\n\n");
}

void Report::text(const std::string& paragraph) {
  append("\n" + paragraph + "\n");
}

void Report::table(const std::vector<std::string>& columns,
                   const std::vector<std::vector<std::string>>& rows) {
  std::string text = fmt::format("| {} |\n|", fmt::join(columns, " | "));
  for (std::size_t i = 0; i < columns.size(); ++i) text += "---|";
  text += "\n";
  for (const auto& row : rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  append(text);
}

}  // namespace moor::bench
