#include "bench/api/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/assert.h"

namespace moor::bench {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  MOOR_ASSERT(file.good(), "cannot read {}", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

[[noreturn]] void become_server(const std::string& program, const std::string& directory, Wire wire,
                                int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string log = directory + "/log";
  const int file = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  const std::string state = directory + "/state";
  ::execl(program.c_str(), program.c_str(), "server", "--dir", state.c_str(), "--listen", "127.0.0.1:0",
          wire == Wire::plain ? "--insecure-loopback" : static_cast<char*>(nullptr),
          static_cast<char*>(nullptr));
  ::_exit(127);
}

std::string first_line(int in) {
  std::string line;
  for (char c = 0; ::read(in, &c, 1) == 1 && c != '\n';) line.push_back(c);
  return line;
}

}  // namespace

ServerProcess::ServerProcess(const std::string& program, const std::string& scratch, Wire wire)
    : scratch_(scratch), wire_(wire) {
  int ends[2];
  MOOR_ASSERT(::pipe2(ends, O_CLOEXEC) == 0);
  process_ = ::fork();
  MOOR_ASSERT(process_ >= 0);
  if (process_ == 0) become_server(program, scratch_.path(), wire, ends[1]);
  ::close(ends[1]);
  const std::string line = first_line(ends[0]);
  ::close(ends[0]);
  MOOR_ASSERT(line.starts_with("ready "), "{} did not start: '{}', see {}/log", program, line,
              scratch_.path());
  const auto url = http::Url::parse(line.substr(6));
  MOOR_ASSERT(url.ok(), "{}", url.error().message);
  url_ = *url;
}

ServerProcess::~ServerProcess() {
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
}

http::ClientOptions ServerProcess::client_options() const {
  http::ClientOptions options;
  options.endpoint = url_;
  if (wire_ == Wire::tls) {
    const std::string pki = scratch_.path() + "/state/pki/";
    options.tls.ca_pem = read_text(pki + "ca.crt");
    options.tls.certificate_pem = read_text(pki + "admin.crt");
    options.tls.key_pem = read_text(pki + "admin.key");
  }
  options.max_connections = 1;
  options.max_body_bytes = std::size_t{1} << 30;
  return options;
}

}  // namespace moor::bench
