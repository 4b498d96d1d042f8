// Where the standby of a move connects to the active engine: HELLO in the export name (mode forward), then
// reads. Carries messages between such connections and the engine core, which decides everything. One thread.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "block/core/engine.h"
#include "block/io/nbd_front.h"

namespace moor::block {

class ForwardFront final : public io::NbdBackend {
 public:
  using OnEvent = std::function<void(engine::Event)>;

  ForwardFront(io::Loop& loop, BufferPool& pool, std::string volume, OnEvent on_event,
               std::function<bool()> wants_requests);

  Result<io::Address> listen(const io::Address& address) { return front_.listen(address); }
  void stir() { front_.stir(); }

  void accept(engine::ForwardAccept& action);
  void refuse(const engine::ForwardRefuse& action);
  void reply(engine::ForwardReply& action);
  void end(const engine::ForwardEnd& action);

 private:
  std::vector<nbd::Server::ListedExport> list() override { return {}; }
  void open(io::ConnectionId connection, const nbd::OpenRequested& request) override;
  void request(io::ConnectionId connection, nbd::Request request) override;
  void closed(io::ConnectionId connection) override;
  bool wants_requests() const override { return wants_requests_(); }

  struct Waiting {
    io::ConnectionId connection = 0;
    nbd::Request request;
  };

  std::string volume_;
  OnEvent report_;
  std::function<bool()> wants_requests_;
  std::unordered_map<std::uint64_t, Waiting> waiting_;  // by the id that the engine was told
  std::uint64_t last_request_ = 0;
  io::NbdFront front_;
};

}  // namespace moor::block
