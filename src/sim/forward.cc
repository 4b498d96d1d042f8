// The two ends of a standby's connection to the engine that it reads through: what moorblk's forward_front.cc
// and member_link.cc carry.
#include "sim/machine.h"
#include "sim/wire.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace engine = block::engine;

void EngineProcess::forward_hello(const PeerWirePtr& wire, block::Hello hello) {
  if (engine_ == nullptr || peer_port_ == 0)
    return tell_engine_end(context(), wire, block::PeerRefusal::none, "connection refused", 500us);
  wire->peer = next_forward_++;
  wire->replica_open = true;
  forwards_[wire->peer] = wire;
  step(engine::ForwardOpened{wire->peer, std::move(hello)});
}

void EngineProcess::forward_request(const PeerWirePtr& wire, block::PeerRequest request) {
  if (wire->replica_open) step(engine::ForwardRequested{wire->peer, std::move(request)});
}

void EngineProcess::forward_closed(const PeerWirePtr& wire) {
  if (!std::exchange(wire->replica_open, false)) return;
  forwards_.erase(wire->peer);
  step(engine::ForwardClosed{wire->peer});
}

void EngineProcess::forwarded(const PeerWirePtr& wire, block::PeerReply reply, block::Slice data,
                              std::uint64_t epoch) {
  source_epoch_ = epoch;
  step(engine::PeerReplied{wire->member, wire->session, std::move(reply), std::move(data)});
}

bool EngineProcess::perform_forward(engine::Action& action) {
  if (auto* accept = std::get_if<engine::ForwardAccept>(&action)) {
    const auto found = forwards_.find(accept->connection);
    if (found == forwards_.end()) return true;
    const PeerWirePtr wire = found->second;
    to_engine(context(), wire,
              [wire, answer = accept->answer, id = accept->export_id](EngineProcess& standby) {
                wire->answered = true;
                standby.step(engine::PeerConnected{wire->member, wire->session, answer, id});
              });
    return true;
  }
  if (auto* refuse = std::get_if<engine::ForwardRefuse>(&action)) {
    auto node = forwards_.extract(refuse->connection);
    if (node.empty()) return true;
    node.mapped()->replica_open = false;
    tell_engine_end(context(), node.mapped(), refuse->reason, refuse->message,
                    context().network.delay(node.mapped()->replica_machine, node.mapped()->engine_machine));
    return true;
  }
  if (auto* reply = std::get_if<engine::ForwardReply>(&action)) {
    const auto found = forwards_.find(reply->connection);
    if (found == forwards_.end()) return true;
    const PeerWirePtr wire = found->second;
    to_engine(context(), wire,
              [wire, reply = std::move(reply->reply), data = std::move(reply->payload),
               epoch = epoch_](EngineProcess& standby) { standby.forwarded(wire, reply, data, epoch); });
    return true;
  }
  if (auto* end = std::get_if<engine::ForwardEnd>(&action)) {
    auto node = forwards_.extract(end->connection);
    if (!node.empty()) close_far_end(context(), node.mapped(), end->reason, end->message);
    return true;
  }
  return false;
}

}  // namespace moor::sim
