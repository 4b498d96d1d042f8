#include "support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace moor::block::e2e {

TemporaryDirectory::TemporaryDirectory(const std::string& parent) {
  std::string name =
      (parent.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(parent)) /
      "moorblk-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // a test's verdict does not hang on the cleaning
  std::filesystem::remove_all(path_, ignored);
}

Server::Server(std::vector<std::string> command, bool wait_for_it) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) std::abort();
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left behind if the test dies
    ::dup2(pipe[1], STDOUT_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  output_ = pipe[0];
  if (wait_for_it) await_ready();
}

void Server::await_ready() {
  if (output_ < 0) return;
  std::string line;
  char byte = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (line.find('\n') == std::string::npos && std::chrono::steady_clock::now() < until) {
    pollfd wait{output_, POLLIN, 0};
    if (::poll(&wait, 1, 1000) <= 0) continue;
    if (::read(output_, &byte, 1) != 1) break;
    line.push_back(byte);
  }
  ::close(std::exchange(output_, -1));
  if (line.starts_with("ready ")) ready_ = line.substr(6, line.size() - 7);
}

Server::~Server() {
  if (output_ >= 0) ::close(output_);
  if (status_ != -1 || pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Server::signal(int number) const {
  ::kill(pid_, number);
}

bool Server::is_alive() {
  if (status_ != -1) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int Server::wait() {
  if (status_ != -1) return status_;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) return -1;
    ::poll(nullptr, 0, 5);
  }
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

Output run(const std::string& command, int seconds) {
  Output output;
  const std::string bounded = "timeout -k 5 " + std::to_string(seconds) + " sh -c '" + command + "' 2>&1";
  FILE* pipe = ::popen(bounded.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return output;
}

std::string moorblk() {
  // A long run names a copy, so that a build beside it does not pull the program away.
  const char* named = std::getenv("MOORBLK");
  return named != nullptr ? named : MOORBLK_PROGRAM;
}

}  // namespace moor::block::e2e
