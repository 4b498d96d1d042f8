// What benchmarks share: latencies with percentiles, and results as raw JSON lines beside a table written by
// the tool.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace moor::bench {

class Latencies {
 public:
  void add(Duration latency) { samples_.push_back(latency); }
  void add_all(const std::vector<Duration>& samples) {
    samples_.insert(samples_.end(), samples.begin(), samples.end());
  }
  std::size_t count() const { return samples_.size(); }
  // 0.5 is the median. 0 when there are no samples.
  Duration quantile(double fraction);

 private:
  std::vector<Duration> samples_;
  std::size_t sorted_ = 0;
};

double median(std::vector<double> values);
double seconds(Duration duration);
double micros(Duration duration);
// Resident memory of this process in bytes.
std::uint64_t resident_bytes();
// CPU time (user and system) of this process so far.
Duration cpu_time();

// Lets a virtual machine's host provide so much memory, for whoever is measured after this. Its first use
// otherwise costs a fault of the host per page: up to 40 % of a writer's time was that (clear_page).
void touch_memory(std::size_t bytes);

// The same of another process, all its threads; a bench's server is one. Asserts when it is gone.
std::uint64_t resident_bytes(pid_t process);
std::uint64_t peak_resident_bytes(pid_t process);
Duration cpu_time(pid_t process);
std::string load_average();

// One benchmark run: every measurement becomes a line of raw JSON, every table a part of the page.
class Report {
 public:
  // Results go to <directory>/<name>.{jsonl,md}; the page starts with machine, load and date.
  Report(std::string directory, std::string name, std::string title);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void raw(Json line);
  void heading(const std::string& text);
  void table(const std::vector<std::string>& columns, const std::vector<std::vector<std::string>>& rows);
  void text(const std::string& paragraph);

 private:
  void append(const std::string& text);
  std::string base_;
  std::string page_;
};

}  // namespace moor::bench
