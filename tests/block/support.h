// Helpers for end-to-end tests of moorblk: a temporary directory, a server process, commands with a bound.
#pragma once

#include <string>
#include <vector>

namespace moor::block::e2e {

// Removed with everything in it.
class TemporaryDirectory {
 public:
  // In `parent`; by default where temporary files are.
  explicit TemporaryDirectory(const std::string& parent = "");
  ~TemporaryDirectory();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A child process that prints a line "ready …" on its standard output. Killed, if need be, with this object.
class Server {
 public:
  // Waits for that line, or leaves it to await_ready(): several can then begin at once.
  explicit Server(std::vector<std::string> command, bool wait_for_it = true);
  ~Server();
  void await_ready();
  // What stood behind "ready "; empty if it ended instead.
  const std::string& ready() const { return ready_; }
  int pid() const { return pid_; }
  // Neither ended nor waited for.
  bool is_alive();
  void signal(int number) const;
  // The exit code, or 128 + the signal. -1: still running after ten seconds.
  int wait();

 private:
  int pid_ = -1;
  int status_ = -1;
  int output_ = -1;
  std::string ready_;
};

struct Output {
  int code = -1;
  std::string text;  // standard output and error
};
// By the shell, ended after `seconds`.
Output run(const std::string& command, int seconds = 60);
std::string moorblk();

}  // namespace moor::block::e2e
