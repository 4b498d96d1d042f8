// A replica on the loop: NBD connections and control calls in front of the Replica machine, its directory
// behind it. Owns neither loop nor pool; both outlive it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/json.h"
#include "base/result.h"
#include "block/core/replica.h"
#include "block/io/control_server.h"
#include "block/io/nbd_front.h"
#include "block/store/uring_disk.h"

namespace moor::block {

class ReplicaServer final : private io::NbdBackend, private ReplicaSink {
 public:
  // Called once each: when the store is open (or cannot be), and when all has ended.
  struct Events {
    std::function<void(const Result<void>&)> opened;
    std::function<void(const Result<void>&)> stopped;
  };

  ReplicaServer(io::Loop& loop, BufferPool& pool, Directory& directory, io::NbdFrontOptions options,
                Events events);
  ~ReplicaServer();

  void open();
  Result<io::Address> listen(const io::Address& address);
  // status, stats, snapshot.list, shutdown.
  void register_control(io::ControlServer& control);
  // Drains, flushes, records a clean stop. Twice is once.
  void stop();

 private:
  struct Waiting {
    io::ConnectionId connection;
    nbd::Request request;
  };
  struct Counters {
    std::uint64_t reads = 0;
    std::uint64_t writes = 0;
    std::uint64_t zeroes = 0;
    std::uint64_t flushes = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t errors = 0;
    std::uint64_t refusals = 0;
  };

  // io::NbdBackend.
  std::vector<nbd::Server::ListedExport> list() override;
  void open(io::ConnectionId connection, const nbd::OpenRequested& request) override;
  void request(io::ConnectionId connection, nbd::Request request) override;
  void closed(io::ConnectionId connection) override;

  // ReplicaSink.
  void opened(const Result<void>& outcome) override;
  void accept(PeerId peer, const HelloAnswer& answer) override;
  void refuse(PeerId peer, PeerRefusal reason, const std::string& why) override;
  void reply(PeerId peer, PeerReply reply, Slice data) override;
  void close(PeerId peer, PeerRefusal reason, const std::string& why) override;
  void stopped(const Result<void>& outcome) override;

  void count(const PeerRequest& request);
  Json stats() const;

  UringDisk disk_;
  Replica replica_;
  io::NbdFront front_;
  Events events_;
  std::unordered_map<std::uint64_t, Waiting> waiting_;
  std::unordered_map<io::ConnectionId, bool> said_hello_;
  std::uint64_t next_request_ = 1;
  Counters counters_;
};

}  // namespace moor::block
