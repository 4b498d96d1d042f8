// Child processes of a benchmark: started quietly, measured from /proc, gone with their object.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace moor::bench {

struct MemoryUse {
  std::uint64_t resident = 0;      // all of it, libraries shared with others too
  std::uint64_t proportional = 0;  // shared pages divided among those who share them
  std::uint64_t anonymous = 0;     // its own heap and stacks
};

class Process {
 public:
  Process() = default;
  // Looked up in the PATH; its output goes to `log` (appended), or nowhere. Asserts when it cannot be
  // started. Dies with us.
  explicit Process(std::vector<std::string> command, const std::string& log = "/dev/null");
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills it, unless ended

  pid_t id() const { return id_; }
  bool is_running();
  // User and system time of all its threads so far.
  Duration cpu() const;
  MemoryUse memory() const;
  // SIGTERM, then waits, at most ten seconds before it is killed.
  void end();

 private:
  pid_t id_ = -1;
};

struct Outcome {
  int code = -1;
  std::string output;  // standard output; errors too when the command failed
};
// Runs to its end. Asserts on nothing: the caller judges.
Outcome run(const std::vector<std::string>& command);
// As run(), but a failure ends the benchmark with the command's own words: numbers without it mean nothing.
std::string run_or_die(const std::vector<std::string>& command);
// Polls until it holds; asserts after the limit.
void wait_for_path(const std::string& path, Process& owner, Duration limit);

}  // namespace moor::bench
