#include "agent/real/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "base/clock.h"

namespace moor::agent {
namespace {

constexpr off_t kLongestLog = 8 << 20;
constexpr std::size_t kMostOutput = 64 * 1024;

Handle open_process(int pid) {
  return Handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::vector<char*> as_arguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// In the child, between fork and exec: only what is safe after a fork of a process with threads.
void make_plain() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &usual, nullptr);
}

void write_number(int file, int number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  (void)!::ftruncate(file, 0);
  (void)!::pwrite(file, digits.data(), static_cast<std::size_t>(end.ptr - digits.data()), 0);
}

struct Streams {
  int lock;
  int output;
  int log;
  int trouble;  // how the parent hears that exec failed
};

[[noreturn]] void become(char* const* arguments, const Streams& streams) {
  ::setsid();
  make_plain();
  // The pid is in the file before the program runs; the lock goes with the descriptor.
  write_number(streams.lock, ::getpid());
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(streams.output, STDOUT_FILENO);
  ::dup2(streams.log, STDERR_FILENO);
  ::syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
  ::fcntl(streams.lock, F_SETFD, 0);
  ::execv(arguments[0], arguments);
  const int error = errno;
  (void)!::write(streams.trouble, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Handle::~Handle() {
  if (number_ >= 0) ::close(number_);
}

int Handle::release() {
  return std::exchange(number_, -1);
}

Result<Handle> take_lock(const std::string& path) {
  Handle lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errno_error(errno, "open " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return make_error(Errc::already_exists, path + " is held by a living process");
  return errno_error(errno, "lock " + path);
}

Result<Spawned> find_holder(const std::string& path) {
  auto lock = take_lock(path);
  if (lock) return make_error(Errc::not_found, "nobody holds " + path);
  if (lock.code() != Errc::already_exists) return lock.error();
  const Handle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> digits{};
  const auto size = file ? ::pread(file.get(), digits.data(), digits.size(), 0) : -1;
  int pid = 0;
  if (size > 0) std::from_chars(digits.data(), digits.data() + size, pid);
  if (pid <= 0) return make_error(Errc::unavailable, path + " is held, and names nobody yet");
  Spawned found{pid, open_process(pid)};
  // Still held now that we have hold of the process: so it is this one, and not a later one of the same pid.
  auto again = take_lock(path);
  if (again || !found.process) return make_error(Errc::not_found, "it has just ended");
  return found;
}

Result<Spawned> spawn_detached(const std::vector<std::string>& words, Handle lock, const SpawnFiles& files) {
  struct stat about {};
  if (::stat(files.log.c_str(), &about) == 0 && about.st_size > kLongestLog)
    (void)std::rename(files.log.c_str(), (files.log + ".1").c_str());
  const Handle output(::open(files.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const Handle log(::open(files.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::array<int, 2> pipe{};
  if (!output || !log || ::pipe2(pipe.data(), O_CLOEXEC) != 0)
    return errno_error(errno, "files of " + words[0]);
  const Handle reader(pipe[0]);
  Handle writer(pipe[1]);
  const std::vector<char*> arguments = as_arguments(words);
  const int pid = ::fork();
  if (pid == 0) become(arguments.data(), {lock.get(), output.get(), log.get(), writer.get()});
  if (pid < 0) return errno_error(errno, "fork");
  ::close(writer.release());
  int error = 0;
  if (::read(reader.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return errno_error(error, "execute " + words[0]);
  }
  return Spawned{pid, open_process(pid)};
}

Result<std::string> run_to_end(const std::vector<std::string>& words, int milliseconds) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  const Handle reader(pipe[0]);
  Handle writer(pipe[1]);
  const std::vector<char*> arguments = as_arguments(words);
  const int pid = ::fork();
  if (pid == 0) {
    make_plain();
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  if (pid < 0) return errno_error(errno, "fork");
  ::close(writer.release());
  const RealClock clock;
  const TimePoint until = clock.now() + std::chrono::milliseconds(milliseconds);
  std::string text;
  bool late = false;
  for (std::array<char, 4096> buffer{};;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock.now()).count();
    pollfd wait{reader.get(), POLLIN, 0};
    late = left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0;
    if (late) break;
    const auto got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    if (text.size() < kMostOutput) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (late) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (late) return make_error(Errc::timed_out, fmt::format("{} took too long: {}", words[0], text));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && text.empty())
    return make_error(Errc::not_found, fmt::format("cannot execute {}", words[0]));
  return make_error(Errc::internal, fmt::format("{} failed: {}", words[0], text));
}

}  // namespace moor::agent
