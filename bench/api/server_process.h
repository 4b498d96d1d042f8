// A real `moord server` on the embedded store, in a directory of its own: what is measured is what people
// run, with TLS, and without it where a peer goes without. Asserts on anything unexpected: a bench of errors
// says nothing.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/loop.h"
#include "bench/common/content.h"
#include "http/client.h"

namespace moor::bench {

enum class Wire { tls, plain };

class ServerProcess {
 public:
  // Answers when the server has said that it is ready.
  ServerProcess(const std::string& program, const std::string& scratch, Wire wire = Wire::tls);
  ~ServerProcess();  // asks it to stop, waits
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t process() const { return process_; }
  // The way in of the kubeconfig's administrator: with TLS by a client certificate; one kept connection.
  http::ClientOptions client_options() const;

 private:
  Scratch scratch_;
  Wire wire_;
  pid_t process_ = -1;
  http::Url url_;
};

}  // namespace moor::bench
