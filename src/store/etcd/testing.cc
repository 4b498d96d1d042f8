#include "store/etcd/testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/assert.h"

namespace moor::store::etcd {
namespace {
constexpr const char* kEtcd = "/usr/bin/etcd";

// A port that was free a moment ago. Two sockets are held until all ports of a cluster are chosen.
class PortFinder {
 public:
  ~PortFinder() {
    for (const int socket : sockets_) ::close(socket);
  }
  Result<int> next() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno_error(errno, "socket");
    sockets_.push_back(socket);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0) return errno_error(errno, "bind");
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      return errno_error(errno, "getsockname");
    return ntohs(address.sin_port);
  }

 private:
  std::vector<int> sockets_;
};

Result<pid_t> spawn(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, "fork");
  if (pid == 0) {
    // Only calls that are safe after fork in a process with threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (output >= 0) {
      ::dup2(output, 1);
      ::dup2(output, 2);
    }
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return pid;
}

Result<void> run_and_wait(std::vector<std::string> command, const std::string& log) {
  TRY(const pid_t pid, spawn(command, log));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return errno_error(errno, "waitpid");
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return make_error(Errc::internal, fmt::format("{} failed, see {}", command[0], log));
  return {};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
}  // namespace

bool etcd_is_installed() {
  return ::access(kEtcd, X_OK) == 0;
}

Result<std::unique_ptr<EtcdServer>> EtcdServer::start(ServerOptions options) {
  std::unique_ptr<EtcdServer> server(new EtcdServer(std::move(options)));
  std::string pattern = (std::filesystem::temp_directory_path() / "moor-etcd-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return errno_error(errno, "mkdtemp");
  server->directory_ = pattern;
  {
    PortFinder ports;
    for (int i = 0; i < server->options_.members; ++i) {
      Member member;
      member.name = "m" + std::to_string(i);
      TRY(member.client_port, ports.next());
      TRY(member.peer_port, ports.next());
      server->members_.push_back(std::move(member));
    }
  }
  for (Member& member : server->members_) TRY_VOID(server->run(member));
  return server;
}

Result<void> EtcdServer::run(Member& member) {
  MOOR_ASSERT(member.pid == 0);
  const bool tls = !options_.tls.ca_file.empty();
  const std::string client = fmt::format("{}://127.0.0.1:{}", tls ? "https" : "http", member.client_port);
  const std::string peer = fmt::format("http://127.0.0.1:{}", member.peer_port);
  std::string cluster;
  for (const Member& other : members_)
    cluster +=
        fmt::format("{}{}=http://127.0.0.1:{}", cluster.empty() ? "" : ",", other.name, other.peer_port);
  std::vector<std::string> command{kEtcd,
                                   "--name=" + member.name,
                                   "--data-dir=" + directory_ + "/" + member.name,
                                   "--listen-client-urls=" + client,
                                   "--advertise-client-urls=" + client,
                                   "--listen-peer-urls=" + peer,
                                   "--initial-advertise-peer-urls=" + peer,
                                   "--initial-cluster=" + cluster,
                                   "--logger=zap",
                                   "--log-level=warn"};
  if (tls) {
    command.push_back("--client-cert-auth");
    command.push_back("--trusted-ca-file=" + options_.tls.ca_file);
    command.push_back("--cert-file=" + options_.tls.certificate_file);
    command.push_back("--key-file=" + options_.tls.key_file);
  }
  command.insert(command.end(), options_.flags.begin(), options_.flags.end());
  TRY(member.pid, spawn(command, directory_ + "/" + member.name + ".log"));
  return {};
}

EtcdServer::~EtcdServer() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].pid > 0) kill(i);
  }
  std::error_code ignored;  // a directory left behind harms nobody
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

std::vector<std::string> EtcdServer::endpoints() const {
  std::vector<std::string> result;
  for (const Member& member : members_)
    result.push_back(fmt::format("{}://127.0.0.1:{}", options_.tls.ca_file.empty() ? "http" : "https",
                                 member.client_port));
  return result;
}

void EtcdServer::kill(std::size_t member) {
  MOOR_ASSERT(members_[member].pid > 0);
  ::kill(members_[member].pid, SIGKILL);
  int status = 0;
  while (::waitpid(members_[member].pid, &status, 0) < 0 && errno == EINTR) {
  }
  members_[member].pid = 0;
}

Result<void> EtcdServer::restart(std::size_t member) {
  return run(members_[member]);
}

void EtcdServer::freeze(std::size_t member) {
  MOOR_ASSERT(members_[member].pid > 0);
  ::kill(members_[member].pid, SIGSTOP);
  int status = 0;
  while (::waitpid(members_[member].pid, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
}

void EtcdServer::thaw(std::size_t member) {
  MOOR_ASSERT(members_[member].pid > 0);
  ::kill(members_[member].pid, SIGCONT);
}

std::string EtcdServer::log_of(std::size_t member) const {
  const std::string text = read_file(directory_ + "/" + members_[member].name + ".log");
  return text.substr(text.size() > 4000 ? text.size() - 4000 : 0);
}

std::string TestCertificates::text(const std::string& name) const {
  return read_file(file(name));
}

Result<TestCertificates> make_test_certificates(const std::string& directory) {
  const TestCertificates made{directory};
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return make_error(Errc::internal, "make " + directory + ": " + error.message());
  const std::string log = made.file("openssl.log");
  TRY_VOID(run_and_wait({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                         "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=moor test CA",
                         "-keyout", made.file("ca.key"), "-out", made.file("ca.crt")},
                        log));
  for (const std::string name : {"server", "client"}) {
    TRY_VOID(run_and_wait(
        {"/usr/bin/openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
         "/CN=" + name, "-keyout", made.file(name + ".key"), "-out", made.file(name + ".csr")},
        log));
    std::ofstream(made.file(name + ".ext")) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
                                            << "extendedKeyUsage=serverAuth,clientAuth\n";
    TRY_VOID(run_and_wait({"/usr/bin/openssl", "x509", "-req", "-in", made.file(name + ".csr"), "-CA",
                           made.file("ca.crt"), "-CAkey", made.file("ca.key"), "-CAcreateserial", "-days",
                           "2", "-extfile", made.file(name + ".ext"), "-out", made.file(name + ".crt")},
                          log));
  }
  return made;
}

}  // namespace moor::store::etcd
