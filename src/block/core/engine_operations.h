// What the engine has in flight: client requests and its own messages to members, in one bounded table. It
// also orders client requests: an operation that overlaps an earlier one, where either changes data, waits
// for it, so replicas cannot end with different orders and no reader sees a value that is not acknowledged
// yet. One thread; pointers to operations stay valid until release().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "block/core/engine.h"

namespace moor::block::engine {

using MemberMask = std::uint32_t;
inline MemberMask bit(MemberIndex member) {
  return MemberMask{1} << member;
}

enum class OpKind : std::uint8_t {
  client,
  flush_all,  // of the engine itself: start, freeze, shutdown, before clearing regions
  store_generation,
  mark_served,
  set_rebuilding,
  clear_dirty,
  chain_change,  // snapshot commands to all members
  chain_repair,  // at the start, to one member
  chain_state,   // asks one member what the chain is now
  resync_read,
  resync_write,
  forward,       // a standby's client: a read sent to the active engine
  source_state,  // a standby asks the active engine for its chain
  handover,      // an activated standby asks the engine it took over from what is unsettled
};

enum class FlushFor : std::uint8_t { start, chain, freeze, clearing, shutdown };

struct Operation {
  std::uint64_t id = 0;  // slot and use count: a late reply to an earlier use is told apart
  OpKind kind = OpKind::client;
  bool in_use = false;
  bool changes_data = false;
  bool ordered = false;  // takes part in the ordering by range
  bool dispatched = false;
  bool parked = false;  // done on all members, waits for the Grant
  std::uint32_t blockers = 0;
  MemberMask outstanding = 0;
  MemberMask succeeded = 0;
  MemberMask failed = 0;  // answered with an error
  std::uint32_t error = 0;
  std::string message;
  Instant arrived{0};
  Instant sent{0};
  ClientRequest client;                // connection 0: nobody waits for the reply any more
  std::vector<std::uint64_t> regions;  // clear_dirty, ascending
  std::vector<BlockStatus> extents;
  std::uint32_t chunk = 0;  // resync_*
  FlushFor flush_for = FlushFor::start;
  std::optional<HelloAnswer> state;  // chain_state
};

// What a request keeps in memory until it is answered.
inline std::uint64_t held_bytes(const ClientRequest& request) {
  return request.op == ClientOp::read ? request.length : request.payload.size();
}
inline bool changes(ClientOp op) {
  return op == ClientOp::write || op == ClientOp::trim || op == ClientOp::write_zeroes;
}
// A client's operation in the words of a member; engine_io.cc.
PeerRequest peer_request(const Operation& operation);

class Operations {
 public:
  // One more is in use until release().
  Operation& open(OpKind kind, Instant now);
  // The operation a reply belongs to, if it is still waited for.
  Operation* find(std::uint64_t id);
  void release(Operation& operation);

  // Puts it behind all earlier ones; sets blockers.
  void order(Operation& operation);
  // Takes it out of the order; those that waited only for it are appended to `freed`, oldest first.
  void unorder(Operation& operation, std::vector<Operation*>& freed);

  std::size_t in_use() const { return in_use_; }
  std::size_t count(OpKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  // Every operation in use, by slot. The callback must not open new ones.
  template <class F>
  void each(F&& callback) {
    for (Operation& operation : slots_) {
      if (operation.in_use) callback(operation);
    }
  }

 private:
  static bool conflict(const Operation& a, const Operation& b);

  std::deque<Operation> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Operation*> order_;  // arrival order
  std::size_t in_use_ = 0;
  std::array<std::size_t, 16> counts_{};
};

}  // namespace moor::block::engine
