// Client requests: admission, order, fan-out, completion, acknowledgement.
#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/plant.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {

// What must not be acknowledged while the member set is in doubt.
bool needs_all(ClientOp op) {
  return changes(op) || (op == ClientOp::flush && !MOOR_PLANT("engine-flush-on-one"));
}

}  // namespace

PeerRequest peer_request(const Operation& operation) {
  PeerRequest request;
  request.id = operation.id;
  request.fua = operation.client.fua;
  request.no_hole = operation.client.no_hole;
  request.offset = operation.client.offset;
  request.length = operation.client.length;
  switch (operation.client.op) {
    case ClientOp::read: request.op = PeerOp::read; break;
    case ClientOp::write: request.op = PeerOp::write; break;
    case ClientOp::flush: request.op = PeerOp::flush; break;
    case ClientOp::trim: request.op = PeerOp::trim; break;
    case ClientOp::write_zeroes: request.op = PeerOp::write_zeroes; break;
    case ClientOp::block_status: request.op = PeerOp::block_status; break;
  }
  return request;
}

void Machine::handle(ClientRequested&& event) {
  if (stage_ == Stage::standby) return standby_request(std::move(event.request));
  if (held(event.request)) {
    if (held_requests_.size() >= config_.max_operations) return reply(event.request, ENOMEM);
    payload_bytes_ += held_bytes(event.request);
    held_requests_.push_back(std::move(event.request));
    return;
  }
  admit(std::move(event.request));
}

void Machine::handle(ClientClosed&& event) {
  operations_.each([&](Operation& operation) {
    const bool of_client = operation.kind == OpKind::client || operation.kind == OpKind::forward;
    if (of_client && operation.client.connection == event.connection && !operation.client.forwarded) {
      operation.client.connection = 0;
    }
  });
  std::erase_if(held_requests_, [&](const ClientRequest& request) {
    if (request.connection != event.connection || request.forwarded) return false;
    payload_bytes_ -= held_bytes(request);
    return true;
  });
}

bool Machine::held(const ClientRequest& request) const {
  if (stage_ != Stage::serving) return true;
  if ((hold_ & kHoldChainReads) != 0) return true;
  return (hold_ & (kHoldCommand | kHoldChain)) != 0 && needs_all(request.op);
}

// Reads of a frozen volume pass the writes held before them: they cannot depend on a write that nobody has
// seen.
void Machine::admit_held() {
  if (stage_ != Stage::serving || held_requests_.empty() || hold_ == held_under_) return;
  held_under_ = hold_;
  std::deque<ClientRequest> still;
  while (!held_requests_.empty()) {
    ClientRequest request = std::move(held_requests_.front());
    held_requests_.pop_front();
    if (held(request)) {
      still.push_back(std::move(request));
    } else {
      payload_bytes_ -= held_bytes(request);
      admit(std::move(request));
    }
  }
  held_requests_ = std::move(still);
}

std::uint32_t Machine::refusal(const ClientRequest& request) const {
  if (shutting_down_) return ESHUTDOWN;
  if (request.op == ClientOp::flush) return 0;
  if (request.length > size_ || request.offset > size_ - request.length) {
    return changes(request.op) ? ENOSPC : EINVAL;
  }
  if (request.op == ClientOp::write && request.payload.size() != request.length) return EINVAL;
  // Zeroing without a hole means writing zeros: no faster than a write, and FAST_ZERO asks to be told so.
  if (request.op == ClientOp::write_zeroes && request.fast_zero && request.no_hole) return ENOTSUP;
  return operations_.in_use() >= config_.max_operations ? ENOMEM : 0;
}

void Machine::admit(ClientRequest request) {
  if (const std::uint32_t error = refusal(request); error != 0) return reply(request, error);
  if (request.length == 0 && request.op != ClientOp::flush) return reply(request, 0);
  Operation& operation = operations_.open(OpKind::client, now_);
  operation.client = std::move(request);
  operation.changes_data = changes(operation.client.op);
  payload_bytes_ += held_bytes(operation.client);
  if (operation.client.op == ClientOp::flush) operation.client.length = 0;
  if (needs_all(operation.client.op)) ++changes_in_flight_;
  if (operation.changes_data) {
    // From here on, not from the dispatch: a region with a write in the queue must not be cleared.
    recent_.insert_range(operation.client.offset, operation.client.length);
    dirty_.insert_range(operation.client.offset, operation.client.length);
  }
  operations_.order(operation);
  if (operation.blockers == 0) {
    runnable_.push_back(&operation);
  } else {
    ++stats_.waits_for_overlap;
  }
}

void Machine::dispatch(Operation& operation) {
  MOOR_ASSERT(operation.in_use && operation.blockers == 0 && operation.outstanding == 0);
  operation.sent = now_;
  operation.dispatched = true;
  if (!needs_all(operation.client.op)) return dispatch_read(operation);
  operation.outstanding = writers() & ~(operation.succeeded | operation.failed);
  MOOR_ASSERT(operation.outstanding != 0, "serving without a member");
  const PeerRequest request = peer_request(operation);
  each(operation.outstanding, [&](MemberIndex index) { send(index, request, operation.client.payload); });
}

void Machine::dispatch_read(Operation& operation) {
  const MemberMask usable = readers() & ~operation.failed;
  if (usable == 0) return finish(operation, operation.error != 0 ? operation.error : EIO);
  const MemberIndex reader = choose_reader(usable);
  operation.outstanding = bit(reader);
  ++members_[reader].reads_in_flight;
  send(reader, peer_request(operation), {});
}

MemberIndex Machine::choose_reader(MemberMask from) {
  MemberIndex best = kMaxMembers;
  ++read_turn_;
  const auto count = static_cast<MemberIndex>(members_.size());
  for (MemberIndex step = 0; step < count; ++step) {
    const MemberIndex index = (read_turn_ + step) % count;
    if ((from & bit(index)) == 0) continue;
    if (members_[index].config.local) return index;
    if (best == kMaxMembers || members_[index].reads_in_flight < members_[best].reads_in_flight) best = index;
  }
  return best;
}

void Machine::complete_client(Operation& operation) {
  if (needs_all(operation.client.op)) {
    complete_change(operation);
  } else {
    complete_read(operation);
  }
}

void Machine::complete_read(Operation& operation) {
  if (operation.succeeded != 0) return finish(operation, 0);
  dispatch_read(operation);  // another member, or the error when none is left
}

void Machine::complete_change(Operation& operation) {
  // A member that joined since the dispatch has not seen it yet.
  if ((writers() & ~(operation.succeeded | operation.failed)) != 0) return dispatch(operation);
  const MemberMask live = readers();
  std::uint32_t error = 0;
  if (operation.failed != 0 && (operation.succeeded & live) != 0 &&
      !MOOR_PLANT("engine-keeps-failed-writer")) {
    each(operation.failed, [&](MemberIndex index) { lose(index, "write failed: " + operation.message); });
  } else if (operation.failed != 0) {
    // No RW member took it: the client hears so, and nobody is to blame. What they hold now may differ.
    if (operation.changes_data) return repairs_.push_back(&operation);
    error = operation.error;
  }
  if (stage_ != Stage::serving) return;
  operation.error = error;
  operation.parked = true;
  parked_.push_back(&operation);
}

void Machine::release_parked() {
  while (acknowledging() && !parked_.empty()) {
    Operation* operation = parked_.front();
    parked_.pop_front();
    finish(*operation, operation->error);
  }
}

void Machine::finish(Operation& operation, std::uint32_t error) {
  OpStats& stats = stats_.ops[static_cast<std::size_t>(operation.client.op)];
  stats.latency.add(now_ - operation.arrived);
  stats.bytes += error == 0 ? operation.client.length : 0;
  stats.errors += error != 0 ? 1 : 0;
  payload_bytes_ -= held_bytes(operation.client);
  if (needs_all(operation.client.op)) {
    --changes_in_flight_;
    reply(operation.client, error);
  } else {
    reply(operation.client, error, error == 0 ? std::move(operation.client.payload) : Slice{},
          std::move(operation.extents));
  }
  freed_.clear();
  operations_.unorder(operation, freed_);
  runnable_.insert(runnable_.end(), freed_.begin(), freed_.end());
  operations_.release(operation);
}

void Machine::reply(const ClientRequest& request, std::uint32_t error, Slice payload,
                    std::vector<BlockStatus> extents) {
  if (request.connection == 0) return;
  if (request.forwarded) {
    ForwardReply forwarded;
    forwarded.connection = request.connection;
    forwarded.op = request.op == ClientOp::read ? PeerOp::read : PeerOp::block_status;
    forwarded.reply.id = request.cookie;
    forwarded.reply.error = error;
    forwarded.reply.extents = std::move(extents);
    forwarded.payload = std::move(payload);
    return act(std::move(forwarded));
  }
  ClientReply reply;
  reply.connection = request.connection;
  reply.cookie = request.cookie;
  reply.op = request.op;
  reply.error = error;
  reply.payload = std::move(payload);
  reply.extents = std::move(extents);
  act(ReplyClient{std::move(reply)});
}

void Machine::count_member(MemberIndex index, const Operation& operation, bool failed) {
  Member& member = members_[index];
  member.stats.errors += failed ? 1 : 0;
  const Instant latency = now_ - operation.sent;
  if (operation.kind == OpKind::flush_all) member.stats.flush.add(latency);
  if (operation.kind != OpKind::client) return;
  const ClientRequest& request = operation.client;
  if (request.op == ClientOp::flush) {
    member.stats.flush.add(latency);
  } else if (needs_all(request.op)) {
    member.stats.write.add(latency);
    member.stats.write_bytes += request.length;
  } else {
    member.stats.read.add(latency);
    member.stats.read_bytes += request.length;
    if (member.reads_in_flight > 0) --member.reads_in_flight;
  }
}

}  // namespace moor::block::engine
