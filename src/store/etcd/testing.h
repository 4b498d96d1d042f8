// For tests and benches: Debian's etcd in the foreground, in a directory of its own, on free ports. It dies
// with the test, also when that crashes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace moor::store::etcd {

bool etcd_is_installed();

struct ServerTls {
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
};

struct ServerOptions {
  int members = 1;
  std::vector<std::string> flags;  // for every member
  ServerTls tls;                   // clients must present a certificate of this CA
};

// One etcd, or a cluster of them.
class EtcdServer {
 public:
  // Started, but not waited for: opening a store waits. Errc::internal when etcd cannot be started.
  static Result<std::unique_ptr<EtcdServer>> start(ServerOptions options = {});
  ~EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::vector<std::string> endpoints() const;
  const std::string& directory() const { return directory_; }
  // kill -9 and wait for the end.
  void kill(std::size_t member);
  // After kill(): the same data, the same ports.
  Result<void> restart(std::size_t member);
  // SIGSTOP, and waits until it stands still; SIGCONT.
  void freeze(std::size_t member);
  void thaw(std::size_t member);
  bool is_running(std::size_t member) const { return members_[member].pid > 0; }
  std::size_t size() const { return members_.size(); }
  // The end of a member's log, for failures.
  std::string log_of(std::size_t member) const;

 private:
  struct Member {
    std::string name;
    int client_port = 0;
    int peer_port = 0;
    pid_t pid = 0;
  };
  explicit EtcdServer(ServerOptions options) : options_(std::move(options)) {}
  Result<void> run(Member& member);

  ServerOptions options_;
  std::string directory_;
  std::vector<Member> members_;
};

// A CA with a server certificate for localhost and 127.0.0.1 and a client certificate, made by the openssl
// program.
struct TestCertificates {
  std::string directory;
  std::string file(const std::string& name) const { return directory + "/" + name; }
  std::string text(const std::string& name) const;
};
Result<TestCertificates> make_test_certificates(const std::string& directory);

}  // namespace moor::store::etcd
