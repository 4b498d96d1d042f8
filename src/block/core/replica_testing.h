// For tests: a Replica on a SimDisk, with everything it says kept for the test to look at.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "block/core/replica.h"
#include "block/core/sim_disk.h"

namespace moor::block {

struct HeardReply {
  PeerReply reply;
  std::vector<std::byte> data;
};

class SimReplica final : public ReplicaSink {
 public:
  explicit SimReplica(SimDisk& disk) : disk_(disk) {}
  ~SimReplica() { drop(); }

  static Result<void> create(SimDisk& disk, ReplicaCreate options) {
    Runner runner;
    DiskFiles files(disk, runner);
    std::optional<Result<void>> outcome;
    runner.spawn(run_create(files, std::move(options), outcome));
    do {
      runner.run();
    } while (disk.step());
    runner.run();
    if (!outcome) disk.power_loss();
    return outcome.value_or(make_error(Errc::cancelled, "stopped"));
  }

  // Opens; an outcome of `cancelled` means that the disk stopped meanwhile.
  Result<void> start() {
    drop();
    outcome_.reset();
    replica_ = std::make_unique<Replica>(disk_, pool_, *this);
    replica_->open();
    pump_until([&] { return outcome_.has_value(); });
    return outcome_.value_or(make_error(Errc::cancelled, "stopped"));
  }

  // As if the power failed (or only the process): then start() again.
  void crash(bool power = true) {
    if (power) {
      disk_.power_loss();
    } else {
      disk_.process_crash();
    }
    drop();
  }

  Result<void> stop() {
    outcome_.reset();
    replica_->stop();
    pump_until([&] { return outcome_.has_value(); });
    return outcome_.value_or(make_error(Errc::cancelled, "stopped"));
  }

  template <class Done>
  bool pump_until(Done done) {
    for (;;) {
      replica_->run();
      if (done()) return true;
      if (!disk_.step()) {
        replica_->run();
        return done();
      }
    }
  }
  void pump() {
    pump_until([] { return false; });
  }
  // A few steps, so that others can come in between.
  void pump_steps(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      replica_->run();
      if (!disk_.step()) break;
    }
    replica_->run();
  }

  PeerId begin_hello(const Hello& hello) {
    const PeerId peer = next_peer_++;
    replica_->hello(peer, hello);
    replica_->run();
    return peer;
  }
  PeerId connect(Epoch epoch, std::string engine = "e1", SessionId session = 1) {
    const PeerId peer = begin_hello(hello_of(epoch, std::move(engine), session));
    pump_until([&] { return accepted.contains(peer) || refused.contains(peer); });
    return peer;
  }
  PeerId connect_plain() {
    const PeerId peer = next_peer_++;
    replica_->plain(peer);
    return peer;
  }
  static Hello hello_of(Epoch epoch, std::string engine = "e1", SessionId session = 1) {
    Hello hello;
    hello.epoch = epoch;
    hello.engine = std::move(engine);
    hello.session = session;
    return hello;
  }

  // Submits; the reply appears in replies[id].
  std::uint64_t submit(PeerId peer, PeerRequest request, std::span<const std::byte> payload = {}) {
    request.id = next_id_++;
    Slice slice = payload.empty() ? Slice{} : pool_.copy_of(payload);
    replica_->request(peer, request, std::move(slice));
    return request.id;
  }
  // nothing: the disk stopped before the answer.
  std::optional<HeardReply> call(PeerId peer, PeerRequest request, std::span<const std::byte> payload = {}) {
    const std::uint64_t id = submit(peer, std::move(request), payload);
    pump_until([&] { return replies.contains(id); });
    const auto found = replies.find(id);
    if (found == replies.end()) return {};
    HeardReply heard = std::move(found->second);
    replies.erase(found);
    return heard;
  }
  std::uint32_t write(PeerId peer, std::uint64_t offset, const std::vector<std::byte>& data,
                      bool fua = false) {
    PeerRequest request = request_of(PeerOp::write, {offset, data.size()});
    request.fua = fua;
    return call(peer, request, data)->reply.error;
  }
  std::vector<std::byte> read(PeerId peer, std::uint64_t offset, std::uint32_t length) {
    return call(peer, request_of(PeerOp::read, {offset, length}))->data;
  }
  std::uint32_t flush(PeerId peer) { return call(peer, request_of(PeerOp::flush, {}))->reply.error; }
  static PeerRequest request_of(PeerOp op, Extent extent) {
    PeerRequest request;
    request.op = op;
    request.offset = extent.offset;
    request.length = static_cast<std::uint32_t>(extent.length);
    return request;
  }
  // Each command brings new identities, as an engine's do.
  PeerRequest snapshot_of(PeerOp op, const std::string& name) {
    PeerRequest request;
    request.op = op;
    request.snapshot.name = name;
    request.snapshot.layer_id = "layer-" + std::to_string(next_identity_);
    request.snapshot.head_id = "head-" + std::to_string(next_identity_++);
    return request;
  }
  PeerReply snapshot(PeerId peer, PeerOp op, const std::string& name) {
    return call(peer, snapshot_of(op, name))->reply;
  }

  // ReplicaSink.
  void opened(const Result<void>& outcome) override { outcome_ = outcome; }
  void accept(PeerId peer, const HelloAnswer& answer) override { accepted[peer] = answer; }
  void refuse(PeerId peer, PeerRefusal reason, const std::string& why) override {
    refused[peer] = reason;
    last_why = why;
  }
  void reply(PeerId, PeerReply reply, Slice data) override {
    const std::uint64_t id = reply.id;
    replies[id] = HeardReply{std::move(reply), {data.span().begin(), data.span().end()}};
  }
  void close(PeerId peer, PeerRefusal reason, const std::string& why) override {
    closed[peer] = reason;
    last_why = why;
  }
  void stopped(const Result<void>& outcome) override { outcome_ = outcome; }

  Replica& replica() { return *replica_; }
  SimDisk& disk() { return disk_; }

  std::map<PeerId, HelloAnswer> accepted;
  std::map<PeerId, PeerRefusal> refused;
  std::map<PeerId, PeerRefusal> closed;
  std::map<std::uint64_t, HeardReply> replies;
  std::string last_why;

 private:
  static Task<void> run_create(DiskFiles& files, ReplicaCreate options,
                               std::optional<Result<void>>& outcome) {
    outcome = co_await ReplicaStore::create(files, std::move(options));
  }
  void drop() {
    if (replica_ != nullptr && !disk_.idle()) disk_.process_crash();
    replica_.reset();
    replies.clear();
  }

  SimDisk& disk_;
  BufferPool pool_;
  std::unique_ptr<Replica> replica_;
  std::optional<Result<void>> outcome_;
  PeerId next_peer_ = 1;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_identity_ = 1;
};

inline std::vector<std::byte> pattern(std::size_t size, std::uint8_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 7 + i / 512) | 1);
  return bytes;
}

}  // namespace moor::block
