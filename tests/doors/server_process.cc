#include "server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace moor::doors::e2e {
namespace {

constexpr int kPortTries = 20;
constexpr auto kPatience = std::chrono::seconds(60);

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Below the ports that the kernel gives to connecting sockets: while the server is away, none of the clients
// that call it can happen to sit on its port (or even talk to itself).
std::uint16_t pick_port(Random& random) {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  std::uint64_t first = 32768;
  range >> first;
  constexpr std::uint64_t kLowest = 10'000;
  return static_cast<std::uint16_t>(kLowest + random.below(first > kLowest + 1000 ? first - kLowest : 1000));
}

std::string first_line(int descriptor) {
  std::string line;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!line.ends_with('\n') && std::chrono::steady_clock::now() < until) {
    pollfd wait{descriptor, POLLIN, 0};
    if (::poll(&wait, 1, 1000) <= 0) continue;
    char byte = 0;
    if (::read(descriptor, &byte, 1) != 1) break;
    line.push_back(byte);
  }
  return line;
}

}  // namespace

ServerProcess::ServerProcess(Random& random) {
  std::string name = std::filesystem::temp_directory_path() / "moord-crowd-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  directory_ = name;
  for (int attempt = 0; attempt < kPortTries && url_.empty(); ++attempt) {
    port_ = pick_port(random);
    start();
  }
}

ServerProcess::~ServerProcess() {
  end(SIGKILL);
  std::error_code ignored;  // a test's verdict does not hang on the cleaning
  std::filesystem::remove_all(directory_, ignored);
}

std::string ServerProcess::file(const std::string& name) const {
  return read_file(directory_ / "state" / name);
}

std::string ServerProcess::log() const {
  return read_file(directory_ / "log");
}

bool ServerProcess::start() {
  const char* program = std::getenv("MOORD");
  const std::string listen = fmt::format("127.0.0.1:{}", port_);
  const std::string state = directory_ / "state";
  const std::string log_path = directory_ / "log";
  int pipe[2];
  if (program == nullptr || ::pipe2(pipe, O_CLOEXEC) != 0) return false;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left behind if the test dies
    const int log_file = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(log_file, STDERR_FILENO);
    ::execl(program, program, "server", "--dir", state.c_str(), "--listen", listen.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  const std::string line = first_line(pipe[0]);
  ::close(pipe[0]);
  if (!line.starts_with("ready ")) {
    end(SIGKILL);
    return false;
  }
  url_ = line.substr(6, line.size() - 7);
  return true;
}

int ServerProcess::end(int signal) {
  if (pid_ <= 0) return -1;
  ::kill(pid_, signal);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

http::ClientOptions ServerProcess::client_options() const {
  http::ClientOptions options;
  options.endpoint = *http::Url::parse(url_);
  options.tls.ca_pem = file("pki/ca.crt");
  options.bearer_token = file("admin.token");
  while (options.bearer_token.ends_with('\n')) options.bearer_token.pop_back();
  options.connect_timeout = std::chrono::seconds(5);
  return options;
}

}  // namespace moor::doors::e2e
