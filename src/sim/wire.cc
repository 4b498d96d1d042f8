#include "sim/wire.h"

namespace moor::sim {

using namespace std::chrono_literals;

namespace {

// A packet that is lost is sent again: later, not never.
Duration travel(Context& context, MachineId from, MachineId to) {
  Duration delay = context.network.delay(from, to);
  if (context.network.is_lost(from, to, Network::Role::request))
    delay += context.scheduler.between(200ms, 3s);
  return delay;
}

}  // namespace

void tell_engine_end(Context& context, const PeerWirePtr& wire, block::PeerRefusal reason,
                     const std::string& message, Duration after) {
  wire->last_to_engine = std::max(wire->last_to_engine, context.scheduler.now() + after);
  context.scheduler.at(wire->last_to_engine, [wire, reason, message] {
    const auto engine = wire->engine.lock();
    if (engine == nullptr || !wire->engine_open) return;
    engine->deliver([wire, reason, message, raw = engine.get()] {
      if (!std::exchange(wire->engine_open, false)) return;
      if (wire->answered) {
        raw->step(block::engine::PeerLost{wire->member, wire->session, reason, message});
      } else {
        raw->step(block::engine::PeerRefused{wire->member, wire->session, reason, message});
      }
    });
  });
}

void break_wire(Context& context, const PeerWirePtr& wire) {
  if (std::exchange(wire->broken, true)) return;
  tell_engine_end(context, wire, block::PeerRefusal::none, "connection timed out",
                  context.scheduler.between(500ms, 30s));
  context.scheduler.after(context.scheduler.between(500ms, 60s), [wire] {
    const auto replica = wire->replica.lock();
    if (replica != nullptr) replica->deliver([wire, raw = replica.get()] { raw->closed(wire); });
    const auto source = wire->source.lock();
    if (source != nullptr) source->deliver([wire, raw = source.get()] { raw->forward_closed(wire); });
  });
}

void close_far_end(Context& context, const PeerWirePtr& wire, block::PeerRefusal reason,
                   const std::string& why) {
  wire->replica_open = false;
  if (!context.network.reaches(wire->replica_machine, wire->engine_machine)) return break_wire(context, wire);
  const bool heard = context.scheduler.random().chance(3, 4);
  tell_engine_end(context, wire, heard ? reason : block::PeerRefusal::none, why,
                  context.network.delay(wire->replica_machine, wire->engine_machine));
}

void lose_far_end(Context& context, const PeerWirePtr& wire, bool has_power) {
  wire->replica_open = false;
  if (!has_power || !context.network.reaches(wire->replica_machine, wire->engine_machine))
    return break_wire(context, wire);
  tell_engine_end(context, wire, block::PeerRefusal::none, "connection reset",
                  context.network.delay(wire->replica_machine, wire->engine_machine));
}

namespace {

// The network keeps this packet. Its sender gives the connection up long before it arrives; the far end,
// whose process has heard of no end, takes it for what it was.
template <class Far>
void keep_back(Context& context, const PeerWirePtr& wire, std::weak_ptr<Far> PeerWire::*far, Duration late,
               std::function<void(Far&)> deliver, std::function<void(Far&)> close) {
  wire->kept = true;
  tell_engine_end(context, wire, block::PeerRefusal::none, "connection timed out",
                  context.scheduler.between(500ms, 30s));
  wire->last_to_replica = std::max(wire->last_to_replica, context.scheduler.now()) + late;
  context.scheduler.at(wire->last_to_replica,
                       [wire, far, deliver = std::move(deliver), close = std::move(close)] {
                         const auto process = ((*wire).*far).lock();
                         if (process == nullptr) return;
                         process->deliver([deliver, close, raw = process.get()] {
                           deliver(*raw);
                           close(*raw);
                         });
                       });
}

void close_at(ReplicaProcess& replica, const PeerWirePtr& wire) {
  replica.closed(wire);
}
void close_at(EngineProcess& source, const PeerWirePtr& wire) {
  source.forward_closed(wire);
}

template <class Far>
bool to_far_end(Context& context, const PeerWirePtr& wire, std::weak_ptr<Far> PeerWire::*far,
                std::function<void(Far&)> deliver) {
  if (wire->broken || wire->kept) return false;
  ++context.counts.messages;
  if (!context.network.reaches(wire->engine_machine, wire->replica_machine)) {
    ++context.counts.messages_lost;
    break_wire(context, wire);
    return false;
  }
  if (const Duration late = context.network.lateness(wire->engine_machine, wire->replica_machine);
      late > Duration::zero()) {
    keep_back<Far>(context, wire, far, late, std::move(deliver), [wire](Far& end) { close_at(end, wire); });
    return false;
  }
  const Duration delay = travel(context, wire->engine_machine, wire->replica_machine);
  wire->last_to_replica = std::max(wire->last_to_replica, context.scheduler.now() + delay);
  context.scheduler.at(wire->last_to_replica, [&context, wire, far, deliver = std::move(deliver)] {
    const auto process = ((*wire).*far).lock();
    if (wire->broken || process == nullptr) return;
    if (!context.network.reaches(wire->engine_machine, wire->replica_machine)) {
      ++context.counts.messages_lost;
      return break_wire(context, wire);
    }
    process->deliver([deliver, raw = process.get()] { deliver(*raw); });
  });
  return true;
}

}  // namespace

bool to_replica(Context& context, const PeerWirePtr& wire, std::function<void(ReplicaProcess&)> deliver) {
  return to_far_end(context, wire, &PeerWire::replica, std::move(deliver));
}

bool to_source(Context& context, const PeerWirePtr& wire, std::function<void(EngineProcess&)> deliver) {
  return to_far_end(context, wire, &PeerWire::source, std::move(deliver));
}

bool to_engine(Context& context, const PeerWirePtr& wire, std::function<void(EngineProcess&)> deliver) {
  if (wire->broken || !wire->engine_open) return false;
  ++context.counts.messages;
  if (!context.network.reaches(wire->replica_machine, wire->engine_machine)) {
    ++context.counts.messages_lost;
    break_wire(context, wire);
    return false;
  }
  const Duration delay = travel(context, wire->replica_machine, wire->engine_machine);
  wire->last_to_engine = std::max(wire->last_to_engine, context.scheduler.now() + delay);
  context.scheduler.at(wire->last_to_engine, [&context, wire, deliver = std::move(deliver)] {
    const auto engine = wire->engine.lock();
    if (wire->broken || engine == nullptr || !wire->engine_open) return;
    if (!context.network.reaches(wire->replica_machine, wire->engine_machine)) {
      ++context.counts.messages_lost;
      return break_wire(context, wire);
    }
    engine->deliver([wire, deliver, raw = engine.get()] {
      if (wire->engine_open) deliver(*raw);
    });
  });
  return true;
}

}  // namespace moor::sim
