// A real `moord server` in a directory of its own, on one port across its restarts, so that clients find it
// again. Everything is gone with the object, also when a test fails. Calls block: none of them from a loop's
// thread while clients are to go on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/random.h"
#include "registry/client/remote_registry.h"

namespace moor::doors::e2e {

class ServerProcess {
 public:
  // Starts the program that $MOORD names. url() is empty when it did not come up; log() says why.
  explicit ServerProcess(Random& random);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& url() const { return url_; }
  std::string log() const;
  // Ends it with this signal; its exit code, or 128 + signal.
  int end(int signal);
  bool start();  // again, at the same address
  http::ClientOptions client_options() const;

 private:
  std::string file(const std::string& name) const;

  std::filesystem::path directory_;
  std::uint16_t port_ = 0;
  std::string url_;
  pid_t pid_ = -1;
};

}  // namespace moor::doors::e2e
