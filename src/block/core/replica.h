// A replica as a step machine without I/O: who may use it, and what each request does to its store. Events
// come in by the functions below (and as completions of Disk commands); what follows from them goes out
// through ReplicaSink and as new Disk commands. After each batch of events the driver calls run(). One
// thread; the same events in the same order have the same effects.
//
// Fencing (data-plane.md, "The grant"; S4): the floor is the newest (epoch, engine, session) that said HELLO.
// A HELLO below it is refused. One above it first stops every older connection (requests that arrive on it
// from then on are ignored), waits until what these had under way has ended, stores the floor durably, closes
// them, and only then is answered: nothing older can take effect after the answer.
//
// A plain NBD client (no HELLO) may use a replica that was created without a token, while no engine holds it:
// for trying things out. An engine's HELLO fences plain clients like everyone else. Nobody keeps the copies
// of a volume equal when one of them is written this way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "block/core/buffer.h"
#include "block/core/peer.h"
#include "block/core/replica_store.h"
#include "block/core/task_sync.h"

namespace moor::block {

using PeerId = std::uint64_t;  // a connection; the driver never uses one twice

// Called from within Replica's functions. None of these may call back into the Replica.
class ReplicaSink {
 public:
  // The store is open, or cannot be: then the process ends, saying why.
  virtual void opened(const Result<void>& outcome) = 0;
  virtual void accept(PeerId peer, const HelloAnswer& answer) = 0;
  // Instead of accept; the connection is of no further use.
  virtual void refuse(PeerId peer, PeerRefusal reason, const std::string& why) = 0;
  virtual void reply(PeerId peer, PeerReply reply, Slice data) = 0;
  // Of an accepted connection: say why, then close. Nothing else follows for it.
  virtual void close(PeerId peer, PeerRefusal reason, const std::string& why) = 0;
  // Once. After stop(): all is drained and, on success, recorded as clean. Without it, with an error: the
  // directory is broken (a failed sync), and the process ends, for only a new one can go on.
  virtual void stopped(const Result<void>& outcome) = 0;

 protected:
  ~ReplicaSink() = default;
};

class Replica {
 public:
  Replica(Disk& disk, BufferPool& pool, ReplicaSink& sink);
  // Drops what is under way. The Disk must have forgotten its commands before.
  ~Replica();

  void open();
  void hello(PeerId peer, Hello hello);
  void plain(PeerId peer);
  // `payload`: the data of a write.
  void request(PeerId peer, PeerRequest request, Slice payload = {});
  // The connection is gone; what it has under way still ends, answered to nobody.
  void closed(PeerId peer);
  void stop();
  void run();

  const ReplicaStore& store() const { return store_; }
  // What an engine would be told now.
  HelloAnswer answer() const;
  // Nothing under way and nothing to do in the background.
  bool idle() const { return tasks_.live() <= 1 && store_.background_idle(); }
  std::size_t in_flight() const;
  // Who holds it now, for status.
  std::optional<Floor> holder() const;

 private:
  enum class Kind : std::uint8_t { entering, active, inspect, plain };
  struct Connection {
    Kind kind = Kind::entering;
    Floor identity;
    std::uint32_t in_flight = 0;
    bool fenced = false;  // hears and says nothing new
    bool gone = false;
  };
  struct Refusal {
    PeerRefusal reason;
    std::string why;
  };

  Task<void> open_store();
  Task<void> admit(PeerId peer, Hello hello);
  Task<void> serve(PeerId peer, PeerRequest request, Slice payload);
  Task<Result<void>> perform(const PeerRequest& request, Slice payload, Epoch epoch, PeerReply& reply,
                             Slice& data);
  Task<Result<void>> perform_private(const PeerRequest& request, Epoch epoch, PeerReply& reply);
  Task<void> stop_all();
  std::optional<Refusal> check(const Hello& hello) const;
  std::optional<Error> check_right(Kind kind, const PeerRequest& request) const;
  bool is_drained(PeerId except) const;
  void fence_all_but(PeerId peer);
  void close_fenced(const Floor& winner);
  void drop_if_done(PeerId peer);
  void refuse(PeerId peer, PeerRefusal reason, const std::string& why);
  void tell_stopped(const Result<void>& outcome);

  ReplicaSink& sink_;
  Runner tasks_;
  ReplicaStore store_;
  Signal drained_;
  std::map<PeerId, Connection> connections_;
  Floor promised_;    // newest HELLO, perhaps not yet durable: nothing older is let in meanwhile
  Epoch served_ = 0;  // memory only: 0 after every start
  std::uint32_t entering_ = 0;
  bool opened_ = false;
  bool stopping_ = false;
  bool told_broken_ = false;
  bool told_stopped_ = false;
};

}  // namespace moor::block
