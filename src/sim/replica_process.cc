#include <fmt/format.h>

#include <csignal>

#include "block/core/replica_report.h"
#include "sim/machine.h"
#include "sim/wire.h"

namespace moor::sim {

using namespace std::chrono_literals;

ReplicaProcess::ReplicaProcess(Machine& machine, agent::ProcessSpec spec, int pid)
    : BlockProcess(machine, std::move(spec), pid) {}

ReplicaProcess::~ReplicaProcess() = default;

void ReplicaProcess::begin() {
  const auto found = machine_.directories.find(directory());
  if (found == machine_.directories.end()) {
    last_words = directory() + " is missing";
    return end({1, std::nullopt});
  }
  found->second.replica = spec_.record.get_string("name").value_or("");
  found->second.process = std::static_pointer_cast<ReplicaProcess>(shared_from_this());
  volume_ = found->second.volume;
  disk_ = found->second.disk.get();
  replica_ =
      std::make_unique<block::Replica>(*disk_, context().pool, static_cast<block::ReplicaSink&>(*this));
  replica_->open();
  run();
}

void ReplicaProcess::opened(const Result<void>& outcome) {
  // The sink may not call back into the replica, and ending would destroy it.
  deliver_later(10us, [this, outcome] {
    if (!outcome) {
      last_words = outcome.error().message;
      context().trace(machine_.name(), "process", spec_.key + " cannot open: " + last_words);
      return end({1, std::nullopt});
    }
    open_ = true;
    const std::string listen_at = option("--listen");
    const std::string wanted = listen_at.substr(listen_at.rfind(':') + 1);
    port_ = wanted == "0" ? machine_.next_port++ : std::atoi(wanted.c_str());
    output += fmt::format("ready tcp:{}:{}\n", machine_.address(), port_);
    machine_.outputs[spec_.key] = output;
    listen();
    context().changed.processes = true;
    context().changed.touch(volume_);
  });
}

void ReplicaProcess::run() {
  if (replica_ == nullptr) return;
  replica_->run();
  context().changed.replicas = true;
  context().changed.touch(volume_);
  if (open_) {
    Directory& directory = machine_.directories.at(this->directory());
    const block::Floor& floor = replica_->store().meta().floor;
    const auto holder = replica_->holder();
    context().changed.floors |= !(floor == directory.floor) || holder != holder_;
    holder_ = holder;
    directory.floor = floor;
    directory.generation = replica_->store().meta().generation;
  }
  pump();
}

// One command of the disk per event: a crash can come between any two.
void ReplicaProcess::pump() {
  if (pumping_ || disk_ == nullptr || disk_->idle()) return;
  pumping_ = true;
  const Duration delay =
      machine_.slow_disk ? context().scheduler.between(1ms, 300ms) : context().scheduler.between(10us, 150us);
  deliver_later(delay, [this] {
    pumping_ = false;
    if (disk_ == nullptr) return;
    const CrashPoints::Verdict verdict =
        context().crash_points.is_quiet()
            ? context().crash_points.reach({})
            : context().crash_points.reach(
                  {fmt::format("replica {} on {}", spec_.key, machine_.name()), "disk"});
    if (verdict.when == CrashWhen::before) return verdict.power ? machine_.crash(true) : kill(9);
    const bool moved = disk_->step();
    if (verdict.when == CrashWhen::after) return verdict.power ? machine_.crash(true) : kill(9);
    if (moved) run();
  });
}

void ReplicaProcess::control(const std::string& op, const Json&, std::function<void(Result<Json>)> answer) {
  if (replica_ == nullptr) return answer(make_error(Errc::unavailable, "the process has ended"));
  if (op == "status") return answer(block::replica_status(*replica_));
  if (op == "snapshot.list") return answer(block::replica_snapshots(*replica_));
  if (op != "shutdown") return answer(make_error(Errc::unsupported, op));
  answer(Json::object());
  terminate();
}

void ReplicaProcess::terminate() {
  // Before it has set up anything the signal ends it as it ends every process.
  if (replica_ == nullptr) return end({std::nullopt, SIGTERM});
  if (!open_) return end({1, std::nullopt});
  replica_->stop();
  run();
}

void ReplicaProcess::stopped(const Result<void>& outcome) {
  const int code = outcome ? 0 : 1;
  if (!outcome) last_words = outcome.error().message;
  deliver_later(1ms, [this, code] { end({code, std::nullopt}); });
}

void ReplicaProcess::drop_core() {
  if (disk_ != nullptr) disk_->process_crash();
  if (disk_ != nullptr) context().changed.touch(volume_);
  disk_ = nullptr;
  replica_.reset();
  for (auto& [peer, wire] : std::exchange(peers_, {})) {
    lose_far_end(context(), wire, machine_.is_up());
  }
}

void ReplicaProcess::hello(const PeerWirePtr& wire, block::Hello hello) {
  if (!open_) {
    return tell_engine_end(context(), wire, block::PeerRefusal::none, "connection refused", 500us);
  }
  wire->peer = next_peer_++;
  wire->replica_open = true;
  peers_[wire->peer] = wire;
  if (hello.mode == block::HelloMode::active) asking_.insert(wire->peer);
  replica_->hello(wire->peer, std::move(hello));
  run();
}

void ReplicaProcess::request(const PeerWirePtr& wire, block::PeerRequest request, block::Slice payload) {
  if (!wire->replica_open) return;
  // What comes while another engine asks to be let in may be ignored, and is not waited for.
  if (asking_.empty() && wire->peer == admitted_ && request.op != block::PeerOp::disconnect)
    unanswered_.insert(request.id);
  replica_->request(wire->peer, std::move(request), std::move(payload));
  run();
}

void ReplicaProcess::closed(const PeerWirePtr& wire) {
  if (!std::exchange(wire->replica_open, false)) return;
  peers_.erase(wire->peer);
  if (wire->peer == admitted_) unanswered_.clear();
  replica_->closed(wire->peer);
  run();
}

void ReplicaProcess::accept(block::PeerId peer, const block::HelloAnswer& answer) {
  if (asking_.erase(peer) != 0) {
    admitted_ = peer;
    unfinished_ = std::exchange(unanswered_, {}).size();
    context().changed.floors = true;
    context().changed.touch(volume_);
  }
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  const PeerWirePtr wire = found->second;
  to_engine(context(), wire, [wire, answer](EngineProcess& engine) {
    wire->answered = true;
    engine.step(block::engine::PeerConnected{wire->member, wire->session, answer});
  });
}

void ReplicaProcess::refuse(block::PeerId peer, block::PeerRefusal reason, const std::string& why) {
  asking_.erase(peer);
  auto node = peers_.extract(peer);
  if (node.empty()) return;
  node.mapped()->replica_open = false;
  tell_engine_end(context(), node.mapped(), reason, why,
                  context().network.delay(node.mapped()->replica_machine, node.mapped()->engine_machine));
}

void ReplicaProcess::reply(block::PeerId peer, block::PeerReply reply, block::Slice data) {
  if (peer == admitted_) unanswered_.erase(reply.id);
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  const PeerWirePtr wire = found->second;
  to_engine(context(), wire, [wire, reply = std::move(reply), data = std::move(data)](EngineProcess& engine) {
    engine.step(block::engine::PeerReplied{wire->member, wire->session, reply, data});
  });
}

void ReplicaProcess::close(block::PeerId peer, block::PeerRefusal reason, const std::string& why) {
  auto node = peers_.extract(peer);
  if (node.empty()) return;
  close_far_end(context(), node.mapped(), reason, why);
}

}  // namespace moor::sim
