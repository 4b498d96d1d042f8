#include "bench/common/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/assert.h"

namespace moor::bench {
namespace {

pid_t spawn(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  MOOR_ASSERT(child >= 0, "cannot fork");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

void pause_briefly() {
  poll(nullptr, 0, 2);
}

}  // namespace

Process::Process(std::vector<std::string> command, const std::string& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  MOOR_ASSERT(output >= 0, "cannot write {}", log);
  id_ = spawn(command, output);
  close(output);
}

Process::Process(Process&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(id_, other.id_);
  return *this;
}

Process::~Process() {
  if (id_ <= 0) return;
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

bool Process::is_running() {
  if (id_ <= 0) return false;
  if (waitpid(id_, nullptr, WNOHANG) != id_) return true;
  id_ = -1;
  return false;
}

Duration Process::cpu() const {
  std::ifstream file(fmt::format("/proc/{}/stat", id_));
  std::string text;
  std::getline(file, text);
  // Behind the name, which may hold anything: state is field 3, utime 14, stime 15.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return Duration((user + system) * (1'000'000'000 / sysconf(_SC_CLK_TCK)));
}

MemoryUse Process::memory() const {
  MemoryUse use;
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", id_));
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    fields >> name >> kibibytes;
    if (name == "Rss:") use.resident = kibibytes << 10;
    if (name == "Pss:") use.proportional = kibibytes << 10;
    if (name == "Anonymous:") use.anonymous = kibibytes << 10;
  }
  return use;
}

void Process::end() {
  if (id_ <= 0) return;
  kill(id_, SIGTERM);
  const RealClock clock;
  const TimePoint limit = clock.now() + std::chrono::seconds(10);
  while (is_running() && clock.now() < limit) pause_briefly();
  if (is_running()) kill(id_, SIGKILL);
  if (id_ > 0) waitpid(id_, nullptr, 0);
  id_ = -1;
}

Outcome run(const std::vector<std::string>& command) {
  int ends[2];
  MOOR_ASSERT(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = spawn(command, ends[1]);
  close(ends[1]);
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;)
    outcome.output.append(buffer.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string run_or_die(const std::vector<std::string>& command) {
  Outcome outcome = run(command);
  MOOR_ASSERT(outcome.code == 0, "{} failed with {}: {}", fmt::join(command, " "), outcome.code,
              outcome.output);
  return std::move(outcome.output);
}

void wait_for_path(const std::string& path, Process& owner, Duration limit) {
  const RealClock clock;
  const TimePoint end = clock.now() + limit;
  while (!std::filesystem::exists(path)) {
    MOOR_ASSERT(owner.is_running(), "the process that makes {} has ended", path);
    MOOR_ASSERT(clock.now() < end, "{} does not appear", path);
    pause_briefly();
  }
}

}  // namespace moor::bench
