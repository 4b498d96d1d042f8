#include "bench/attach/cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>

namespace moor::bench {
namespace {

constexpr std::string_view kReady = "ready ";

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The first line that says ready, or the end.
bool read_ready(int descriptor) {
  std::string text;
  std::array<char, 512> buffer{};
  while (text.find('\n') == std::string::npos) {
    const ssize_t size = read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return text.starts_with(kReady);
}

int run_to_end(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Result<Duration> cpu_of(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0)
    return make_error(Errc::internal, "the CPU time of a process cannot be read");
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::start(const ClusterOptions& options) {
  std::unique_ptr<Cluster> cluster(new Cluster(options));
  TRY_VOID(cluster->begin());
  return cluster;
}

Result<void> Cluster::begin() {
  std::string name = options_.directory + "/moor-bench-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return errno_error(errno, "mkdtemp " + name);
  directory_ = name;
  // The cluster that `moor` finds stays the user's own.
  setenv("XDG_STATE_HOME", (directory_ / "note").c_str(), 1);
  const std::string nodes = std::to_string(options_.nodes);
  if (!options_.hollow)
    return launch({options_.program, "dev", "--dir", directory_, "--nodes", nodes, "--listen", "127.0.0.1:0",
                   "--log-level", "warn"},
                  true);
  TRY_VOID(launch(
      {options_.program, "server", "--dir", directory_, "--listen", "127.0.0.1:0", "--log-level", "warn"},
      true));
  return launch({options_.program, "hollow", "--kubeconfig", kubeconfig(), "--nodes", nodes}, false);
}

Result<void> Cluster::launch(const std::vector<std::string>& arguments, bool wait_ready) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return errno_error(errno, "fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    execv(words[0], words.data());
    _exit(127);
  }
  children_.push_back(pid);
  close(ends[1]);
  const bool ready = !wait_ready || read_ready(ends[0]);
  close(ends[0]);
  if (!ready) return make_error(Errc::unavailable, fmt::format("{} {} did not start", words[0], words[1]));
  return {};
}

Cluster::~Cluster() {
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
    kill(*child, SIGTERM);
    int status = 0;
    while (waitpid(*child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (!options_.hollow && !directory_.empty())
    run_to_end({options_.program, "dev", "--dir", directory_, "--down", "--force"});
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<pid_t> Cluster::server_process() const {
  if (options_.hollow) return children_.front();
  const pid_t dev = children_.front();
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", dev));
  for (pid_t child = 0; list >> child;) {
    const std::string words = file_text(fmt::format("/proc/{}/cmdline", child));
    if (words.find(std::string("\0server\0", 8)) != std::string::npos) return child;
  }
  return make_error(Errc::not_found, "the server process is not there");
}

Result<Duration> Cluster::server_cpu() const {
  TRY(const pid_t process, server_process());
  return cpu_of(process);
}

Result<Duration> Cluster::agents_cpu() const {
  if (!options_.hollow) return Duration::zero();
  return cpu_of(children_.back());
}

}  // namespace moor::bench
