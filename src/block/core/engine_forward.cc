// The source's side of a move: a standby reads through this engine, so that what it shows its clients is
// never stale. Such a session cannot write and is no client: it keeps nobody from leaving.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>

#include "base/plant.h"
#include "base/secret.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {
constexpr std::size_t kMaxForwards = 16;  // one standby, and connections of it that are not yet known as lost
}  // namespace

// Of the volume, not of one member: no dirty regions, nothing served or written.
HelloAnswer Machine::forward_answer() const {
  HelloAnswer answer;
  answer.size = size_;
  answer.generation = membership_.generation;
  answer.chain = chain_;
  answer.head_id = head_id_;
  return answer;
}

void Machine::handle(ForwardOpened&& event) {
  const Hello& hello = event.hello;
  const auto refuse = [&](PeerRefusal reason, std::string why) {
    act(ForwardRefuse{event.connection, reason, std::move(why)});
  };
  if (!is_same_secret(hello.token, config_.token)) {
    return refuse(PeerRefusal::wrong_token, "the token is not this volume's");
  }
  if (hello.volume != config_.volume) {
    return refuse(PeerRefusal::wrong_volume, "this engine serves volume " + config_.volume);
  }
  if (hello.mode != HelloMode::forward) return refuse(PeerRefusal::none, "this is an engine and no replica");
  if (stage_ == Stage::superseded) return refuse(PeerRefusal::superseded, "another engine holds the volume");
  if (stage_ != Stage::serving || shutting_down_) {
    return refuse(PeerRefusal::shutting_down, fmt::format("not serving: {}", detail()));
  }
  if (forwards_.size() >= kMaxForwards) return refuse(PeerRefusal::none, "too many standbys");
  forwards_[event.connection] = hello.epoch;
  note(false, fmt::format("engine {} with epoch {} reads through us", hello.engine, hello.epoch));
  act(ForwardAccept{event.connection, forward_answer(), membership_.export_id});
}

void Machine::handle(ForwardRequested&& event) {
  if (!forwards_.contains(event.connection)) return;
  PeerRequest& peer = event.request;
  if (peer.op == PeerOp::chain) {
    ForwardReply reply;
    reply.connection = event.connection;
    reply.op = peer.op;
    reply.reply.id = peer.id;
    reply.reply.error = stage_ == Stage::superseded ? ESHUTDOWN : 0;
    if (stage_ != Stage::superseded) reply.reply.state = forward_answer();
    return act(std::move(reply));
  }
  if (peer.op == PeerOp::unsettled) {
    if (stage_ == Stage::superseded) return tell_unsettled(event.connection, peer.id);
    unsettled_asked_[event.connection] = peer.id;
    return;
  }
  if (peer.op != PeerOp::read && peer.op != PeerOp::block_status) {
    ForwardReply reply;
    reply.connection = event.connection;
    reply.op = peer.op;
    reply.reply.id = peer.id;
    reply.reply.error = EPERM;
    reply.reply.message = "a forwarding session cannot change anything";
    return act(std::move(reply));
  }
  ClientRequest request;
  request.connection = event.connection;
  request.cookie = peer.id;
  request.op = peer.op == PeerOp::read ? ClientOp::read : ClientOp::block_status;
  request.forwarded = true;
  request.offset = peer.offset;
  request.length = peer.length;
  if (stage_ == Stage::superseded) return reply(request, ESHUTDOWN);
  handle(ClientRequested{std::move(request)});
}

// From here on nothing is sent to a member and nothing is acknowledged. So what has no acknowledgement now is
// all that members can differ in, if they agreed when this engine began to serve. Standbys stay connected:
// the one that took over asks for this; what they read they must ask elsewhere.
void Machine::hand_over() {
  unsettled_.reset();
  if (stage_ == Stage::serving || stage_ == Stage::asking) unsettled_ = Unsettled{config_.epoch, {}};
  operations_.each([&](Operation& operation) {
    if (operation.kind != OpKind::client) return;
    if (unsettled_ && operation.changes_data && !MOOR_PLANT("engine-hands-over-nothing")) {
      unsettled_->extents.push_back({operation.client.offset, operation.client.length});
    }
    if (!operation.client.forwarded) return;
    reply(operation.client, ESHUTDOWN);
    operation.client.connection = 0;
  });
  if (unsettled_) {
    std::sort(unsettled_->extents.begin(), unsettled_->extents.end(),
              [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  }
  std::erase_if(held_requests_, [&](const ClientRequest& request) {
    if (!request.forwarded) return false;
    reply(request, ESHUTDOWN);
    payload_bytes_ -= held_bytes(request);
    return true;
  });
  for (const auto& [connection, request] : std::exchange(unsettled_asked_, {})) {
    tell_unsettled(connection, request);
  }
}

void Machine::tell_unsettled(std::uint64_t connection, std::uint64_t request) {
  ForwardReply reply;
  reply.connection = connection;
  reply.op = PeerOp::unsettled;
  reply.reply.id = request;
  reply.reply.unsettled = unsettled_;
  if (!unsettled_) {
    reply.reply.error = EINVAL;
    reply.reply.message = "this engine did not serve when it was superseded";
  }
  act(std::move(reply));
}

void Machine::handle(ForwardClosed&& event) {
  forget_forward(event.connection);
}

void Machine::forget_forward(std::uint64_t connection) {
  forwards_.erase(connection);
  unsettled_asked_.erase(connection);
  operations_.each([&](Operation& operation) {
    if (operation.client.forwarded && operation.client.connection == connection) {
      operation.client.connection = 0;
    }
  });
  std::erase_if(held_requests_, [&](const ClientRequest& request) {
    if (!request.forwarded || request.connection != connection) return false;
    payload_bytes_ -= held_bytes(request);
    return true;
  });
}

void Machine::end_forwards(PeerRefusal reason, const std::string& why) {
  while (!forwards_.empty()) {
    const std::uint64_t connection = forwards_.begin()->first;
    act(ForwardEnd{connection, reason, why});
    forget_forward(connection);
  }
}

}  // namespace moor::block::engine
