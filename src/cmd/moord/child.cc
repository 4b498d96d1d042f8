#include "cmd/moord/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "base/completion.h"
#include "base/log.h"

namespace moor::cmd {
namespace {

constexpr int kCannotStart = 127;

struct Descriptors {
  int out = -1;
  int err = -1;
  int network = -1;
};

// Between fork and exec in a program with threads: system calls only.
[[noreturn]] void become(char* const* arguments, const Descriptors& descriptors, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kCannotStart);  // it died before the line above
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  // Only the network changes: mounts and devices that an agent makes stay visible to the whole machine.
  // (`ip netns exec` would give it mounts of its own.)
  if (descriptors.network >= 0 && setns(descriptors.network, CLONE_NEWNET) != 0) _exit(kCannotStart);
  dup2(descriptors.out, STDOUT_FILENO);
  dup2(descriptors.err, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(kCannotStart);
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void reset(int number = -1) {
    if (number_ >= 0) close(number_);
    number_ = number;
  }

 private:
  int number_;
};

std::vector<char*> words_of(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  return words;
}

Result<pid_t> start(const ChildSpec& spec, const Descriptors& descriptors) {
  const std::vector<std::string> arguments = spec.arguments();
  const std::vector<char*> words = words_of(arguments);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return errno_error(errno, "fork");
  if (pid == 0) become(words.data(), descriptors, parent);
  return pid;
}

// Reads lines until the other end closes.
void read_lines(int descriptor, const std::function<void(std::string)>& give) {
  std::string rest;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t size = read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    rest.append(buffer.data(), static_cast<std::size_t>(size));
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      give(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == kCannotStart) return "it could not be started";
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

std::string tail_of(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string line;
  std::string last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last;
}

// One life of a child: from its start to its end.
class Life {
 public:
  Life(Executor& executor, const ChildSpec& spec) : executor_(executor), spec_(spec), ended_(executor) {}
  ~Life() {
    if (thread_.joinable()) thread_.join();
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  Result<void> begin() {
    const Descriptor log(open(spec_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (log.get() < 0) return errno_error(errno, "open " + spec_.log.string());
    Descriptor network;
    if (!spec_.network.empty()) {
      network.reset(open(("/run/netns/" + spec_.network).c_str(), O_RDONLY | O_CLOEXEC));
      if (network.get() < 0) return errno_error(errno, "open network namespace " + spec_.network);
    }
    std::array<int, 2> ends{-1, -1};
    if (spec_.on_line && pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
    const Descriptor ours(ends[0]);
    const Descriptor theirs(ends[1]);
    TRY(pid_, start(spec_, {spec_.on_line ? ends[1] : log.get(), log.get(), network.get()}));
    // Not waited for yet, so the number is still this child's; from now on the descriptor is.
    handle_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    const int reading = spec_.on_line ? dup(ours.get()) : -1;
    thread_ = std::thread([this, reading] { watch(reading); });
    return {};
  }

  void signal(int number) const { syscall(SYS_pidfd_send_signal, handle_.get(), number, nullptr, 0); }
  const Completion<int>& ended() const { return ended_; }
  bool spoke() const { return spoke_; }  // on the executor's thread

 private:
  void watch(int reading) {
    if (reading >= 0) {
      read_lines(reading, [this](std::string line) {
        executor_.post([this, line = std::move(line)] {
          spoke_ = true;
          spec_.on_line(line);
        });
      });
      close(reading);
    }
    ended_.set(wait_for(pid_));
  }

  Executor& executor_;
  const ChildSpec& spec_;
  Completion<int> ended_;
  std::thread thread_;
  pid_t pid_ = -1;
  Descriptor handle_;
  bool spoke_ = false;
};

}  // namespace

Task<Result<void>> supervise(Executor& executor, ChildSpec spec, Supervision how, CancelToken token) {
  Duration pause = how.shortest_pause;
  bool spoke_once = false;
  while (true) {
    CO_TRY_VOID(token.check());
    Life life(executor, spec);
    const TimePoint born = executor.clock().now();
    CO_TRY_VOID(life.begin());
    bool stopping = false;
    Executor::TimerId timer = 0;
    std::function<void()> stop = [&] {
      stopping = true;
      life.signal(SIGTERM);
      timer = executor.start_timer(executor.clock().now() + how.stop_grace, [&] { life.signal(SIGKILL); });
    };
    int status = 0;
    {
      const CancelCallback on_cancel(token, stop);
      status = co_await life.ended();
    }
    const Completion<bool> turn(executor);  // its last lines are in the queue before this
    executor.post([turn] { turn.set(true); });
    (void)co_await turn;
    if (timer != 0) executor.stop_timer(timer);
    if (stopping) co_return Result<void>();
    spoke_once = spoke_once || life.spoke();
    if (!how.may_fail_first && !spoke_once)
      co_return make_error(Errc::unavailable, fmt::format("{} did not start ({}): {}", spec.name,
                                                          describe(status), tail_of(spec.log)));
    if (executor.clock().now() - born >= how.long_life) pause = how.shortest_pause;
    log_warn("a part ended and is started again",
             {{"part", spec.name}, {"reason", describe(status)}, {"last", tail_of(spec.log)}});
    CO_TRY_VOID(co_await sleep_for(executor, pause, token));
    pause = std::min(pause * 2, how.longest_pause);
  }
}

Result<std::string> run_program(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  const Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const std::vector<char*> words = words_of(arguments);
  const pid_t pid = fork();
  if (pid < 0) return errno_error(errno, "fork");
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execvp(words[0], words.data());
    _exit(kCannotStart);
  }
  theirs.reset();
  std::string output;
  read_lines(ours.get(), [&](const std::string& line) { output += line + "\n"; });
  const int status = wait_for(pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  const std::string command = fmt::format("{}", fmt::join(arguments, " "));
  return make_error(Errc::internal, fmt::format("{}: {}: {}", command, describe(status), output));
}

}  // namespace moor::cmd
