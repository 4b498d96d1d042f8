// What an engine says to a replica and what it hears: the message level of data-plane.md ("The grant"), above
// the NBD bytes that carry it. HELLO travels in the NBD export name, its answer in an NBD_REP_INFO of a
// private type, the private commands as NBD commands of our own number range on the same connection: so each
// of them is ordered with the data and fenced with it. peer_wire.h turns these into bytes and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "block/core/types.h"

namespace moor::block {

enum class HelloMode : std::uint8_t {
  active,   // serves a volume: fences everything older
  inspect,  // reads metadata only; raises nothing, may not read or write data
  forward,  // a standby to the active engine: reads through it; replicas refuse it
};

struct Hello {
  std::string volume;
  Epoch epoch = 0;
  std::string engine;
  SessionId session = 0;
  HelloMode mode = HelloMode::active;
  std::string token;  // the volume's secret; empty only for replicas made without one
  bool operator==(const Hello&) const = default;
};

struct HelloAnswer {
  std::uint64_t size = 0;
  Generation generation = 0;
  // The epoch this process last served, kept in memory only. 0: restarted since, "discontinuous".
  Epoch served = 0;
  // The highest epoch under which a client's write came here (durable before that write).
  Epoch wrote = 0;
  bool clean = false;
  bool rebuilding = false;           // was WO when it last stopped
  std::vector<std::uint64_t> dirty;  // region numbers, ascending
  std::vector<Layer> chain;
  std::string head_id;  // identity of the head's base: changes with snapshot, revert, purge
  bool operator==(const HelloAnswer&) const = default;
};

enum class PeerOp : std::uint16_t {
  // Standard NBD commands keep their numbers.
  read = 0,
  write = 1,
  disconnect = 2,
  flush = 3,
  trim = 4,
  write_zeroes = 6,
  block_status = 7,
  // Ours. Only on a connection that said HELLO; the body is JSON-free binary, see peer_wire.h.
  store_generation = 0x8001,  // durable before answered
  mark_served = 0x8002,       // memory only: from now on this process is continuous for the session's epoch
  clear_dirty = 0x8003,       // regions clean on every RW member
  snapshot_create = 0x8004,
  snapshot_mark_removed = 0x8005,
  snapshot_purge = 0x8006,  // merge one removed layer into its child; progress by polling chain
  snapshot_revert = 0x8007,
  chain = 0x8008,           // answer: HelloAnswer as it is now
  set_rebuilding = 0x8009,  // durable: this member is WO (true) or whole again (false)
  expand = 0x800a,
  // Durable: `wrote` is at least this. A member that holds what an epoch wrote must say so, also when it got
  // it
  // by other ways than a write in that epoch.
  store_wrote = 0x800b,
  // Of an activated standby to the engine that it took over from: where may the members differ? Answered when
  // that engine knows that it is superseded.
  unsettled = 0x800c,
};

struct SnapshotCommand {
  std::string name;
  std::string
      layer_id;  // create: identity of the layer that becomes immutable; purge: new identity of the child
  std::string head_id;  // create, revert: identity of the new head
  std::string created;
  std::map<std::string, std::string> labels;
  bool user_created = false;
  Generation generation = 0;  // stored together with the change, atomically
  bool operator==(const SnapshotCommand&) const = default;
};

// Why a replica refuses or ends a connection. `superseded` tells an engine that it has been fenced for good.
enum class PeerRefusal : std::uint8_t {
  none,
  wrong_token,
  wrong_volume,
  old_epoch,
  other_engine,  // same epoch, another engine
  old_session,
  superseded,
  damaged,
  shutting_down,
};

struct PeerRequest {
  std::uint64_t id = 0;  // chosen by the engine, unique per connection while in flight
  PeerOp op = PeerOp::read;
  bool fua = false;
  bool no_hole = false;
  bool fast_zero = false;
  // A change that makes members equal and says nothing new: it leaves no `wrote` mark. Otherwise an
  // activation whose start had to resync what the source had under way could not be told from one that was
  // used.
  bool copy = false;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  // store_generation: generation; mark_served, store_wrote: epoch; set_rebuilding: 0 or 1; expand: new size
  std::uint64_t argument = 0;
  std::vector<std::uint64_t> regions;  // clear_dirty
  SnapshotCommand snapshot;            // snapshot_*
};

struct BlockStatus {
  std::uint64_t length = 0;
  bool hole = false;
  bool zero = false;
  bool operator==(const BlockStatus&) const = default;
};

// What an engine had under way when it was fenced. Members that were served in this epoch hold the same bytes
// everywhere else: what it had acknowledged is on all of them, and it has sent nothing since.
struct Unsettled {
  Epoch served = 0;
  std::vector<Extent> extents;
  bool operator==(const Unsettled&) const = default;
};

struct PeerReply {
  std::uint64_t id = 0;
  std::uint32_t error = 0;           // errno as NBD defines it; 0: done
  std::string message;               // for people, when error != 0
  std::vector<BlockStatus> extents;  // block_status
  std::optional<HelloAnswer> state;  // chain
  std::optional<Unsettled> unsettled;
};

}  // namespace moor::block
