// An NBD client on the loop: connects, negotiates, then carries requests. One attempt: whoever wants to try
// again makes a new link, because what was in flight on the old one needs a decision first.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "block/core/nbd_client.h"
#include "block/io/address.h"
#include "block/io/loop.h"

namespace moor::block::io {

class TlsContext;

class NbdLinkHandler {
 public:
  virtual void on_event(nbd::ClientEvent event) = 0;
  // The last call. Requests without a reply may or may not have happened.
  virtual void on_closed(std::optional<Error> why) = 0;

 protected:
  ~NbdLinkHandler() = default;
};

struct NbdLinkOptions {
  nbd::ClientOptions client;
  const TlsContext* tls = nullptr;  // with client.tls
  std::string tls_host;
  std::chrono::milliseconds connect_timeout{10'000};  // until Ready, or Refused
};

// May be destroyed at any time, also inside a callback.
class NbdLink {
 public:
  NbdLink(Loop& loop, BufferPool& pool, const Address& address, NbdLinkOptions options,
          NbdLinkHandler& handler);
  ~NbdLink();
  NbdLink(const NbdLink&) = delete;
  NbdLink& operator=(const NbdLink&) = delete;

  bool can_send() const;
  void send(nbd::ClientRequest request);
  // Says goodbye, sends what is queued, closes; on_closed() follows.
  void disconnect();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace moor::block::io
