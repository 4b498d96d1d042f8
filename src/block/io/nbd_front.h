// Serves NBD on listening sockets: connections, machines, back-pressure and TLS are here; what an export is
// and what a request does is the backend's. One loop; the backend outlives the front.
//
// A backend answers through front.server(connection): at once or later, in any order. The pointer is null
// when the connection has gone meanwhile; the answer is then for nobody. Never keep the pointer across turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "block/core/nbd_server.h"
#include "block/io/address.h"
#include "block/io/loop.h"

namespace moor::block::io {

class Acceptor;
class TlsContext;
using ConnectionId = std::uint64_t;  // never used twice in a process

class NbdBackend {
 public:
  virtual std::vector<nbd::Server::ListedExport> list() = 0;
  // Answer with accept() or refuse().
  virtual void open(ConnectionId connection, const nbd::OpenRequested& request) = 0;
  // Answer with one of the reply functions.
  virtual void request(ConnectionId connection, nbd::Request request) = 0;
  virtual void closed(ConnectionId connection) = 0;
  // False: it holds enough, nothing more is read from anybody. When that changes it calls NbdFront::stir().
  virtual bool wants_requests() const { return true; }

 protected:
  ~NbdBackend() = default;
};

struct NbdFrontOptions {
  const TlsContext* tls = nullptr;  // TCP: required when given. Unix sockets: offered.
  nbd::ServerLimits limits;
  std::size_t max_connections = 1024;
  std::chrono::seconds handshake_timeout{60};
};

class NbdFront {
 public:
  NbdFront(Loop& loop, BufferPool& pool, NbdBackend& backend, NbdFrontOptions options = {});
  ~NbdFront();

  // The address as bound, with the port the kernel chose.
  Result<Address> listen(const Address& address);
  void stop_listening();
  nbd::Server* server(ConnectionId connection);
  // Looks at all connections again: the backend wants requests once more.
  void stir();
  // Says why (see nbd::Server::farewell) and closes; requests in flight are answered to nobody.
  void drop(ConnectionId connection, std::string_view farewell);
  // Ends a connection without a word.
  void cut(ConnectionId connection);
  std::size_t connections() const { return links_.size(); }

 private:
  class Link;
  void accepted(Descriptor socket, bool is_unix);
  void ended(ConnectionId connection);

  Loop& loop_;
  BufferPool& pool_;
  NbdBackend& backend_;
  NbdFrontOptions options_;
  ConnectionId next_ = 1;
  std::unordered_map<ConnectionId, std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

}  // namespace moor::block::io
