// What a PeerWire does with a message: keeps the order, loses nothing while packets pass, and tells both
// ends, some time later, when they do not.
#pragma once

#include "sim/block_process.h"

namespace moor::sim {

// `deliver` runs at the other end. False: the connection is broken by now.
bool to_replica(Context& context, const PeerWirePtr& wire, std::function<void(ReplicaProcess&)> deliver);
bool to_source(Context& context, const PeerWirePtr& wire, std::function<void(EngineProcess&)> deliver);
bool to_engine(Context& context, const PeerWirePtr& wire, std::function<void(EngineProcess&)> deliver);
// The far end closes: its last word may be lost with the connection.
void close_far_end(Context& context, const PeerWirePtr& wire, block::PeerRefusal reason,
                   const std::string& why);
// The far end's process is gone; `has_power`: its kernel says so.
void lose_far_end(Context& context, const PeerWirePtr& wire, bool has_power);
// Packets do not pass any more: each end finds out by itself.
void break_wire(Context& context, const PeerWirePtr& wire);
// The engine's end hears that it is over, behind everything sent to it.
void tell_engine_end(Context& context, const PeerWirePtr& wire, block::PeerRefusal reason,
                     const std::string& message, Duration after);

}  // namespace moor::sim
