#include <fmt/format.h>

#include <algorithm>

#include "sim/machine.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace bridge = block::bridge;

namespace {
constexpr Duration kFirstRetry = 20ms;
constexpr Duration kLastRetry = 1s;
constexpr std::uint64_t kLastFlush = 0;
}  // namespace

DeviceProcess::DeviceProcess(Machine& machine, agent::ProcessSpec spec, int pid)
    : BlockProcess(machine, std::move(spec), pid) {}

void DeviceProcess::begin() {
  listen();
  give_up_at_ = context().scheduler.now() + 30s;
  connect();
}

void DeviceProcess::step(bridge::Event event) {
  bridge::Actions actions;
  bridge_.step(std::move(event), actions);
  for (bridge::Action& action : actions) perform(action);
}

void DeviceProcess::perform(bridge::Action& action) {
  if (auto* send = std::get_if<bridge::Send>(&action)) {
    if (wire_ == nullptr || !wire_->open) return;
    const NbdWirePtr wire = wire_;
    wire->last_to_engine =
        std::max(wire->last_to_engine,
                 context().scheduler.now() + context().network.delay(machine_.id(), machine_.id()));
    context().scheduler.at(wire->last_to_engine, [wire, request = std::move(send->request)] {
      if (const auto engine = wire->engine.lock())
        engine->deliver([wire, request, raw = engine.get()] { raw->request(wire, request); });
    });
  } else if (auto* answer = std::get_if<bridge::Answer>(&action)) {
    if (answer->id == kLastFlush) return finish();
    auto node = open_.extract(answer->id);
    if (!node.empty()) node.mapped()(*answer, answering_epoch_);
  } else if (std::holds_alternative<bridge::DropConnection>(action)) {
    const NbdWirePtr wire = wire_;
    context().scheduler.soon([self = shared_from_this(), this, wire] {
      deliver([this, wire] {
        if (wire != nullptr && wire == wire_) lost(wire);
      });
    });
  } else if (const auto* ended = std::get_if<bridge::Ended>(&action)) {
    context().trace(machine_.name(), "io", "the device of " + link() + " has ended: " + ended->why);
    publish("state", status());
  }
}

void DeviceProcess::connect() {
  if (phase_ == Phase::gone || bridge_.state() == bridge::State::ended) return;
  if (phase_ == Phase::connecting && context().scheduler.now() >= give_up_at_) {
    last_words = "no engine";
    return end({1, std::nullopt});
  }
  const auto engine = machine_.find_engine(option("--connect"));
  if (engine == nullptr) return retry();
  auto wire = std::make_shared<NbdWire>();
  wire->device = std::static_pointer_cast<DeviceProcess>(shared_from_this());
  wire->engine = engine;
  wire->device_connection = ++connection_;
  wire_ = wire;
  Context& world = context();
  const MachineId here = machine_.id();
  world.scheduler.after(world.network.delay(here, here), [&world, here, wire, engine] {
    engine->deliver([&world, here, wire, raw = engine.get()] {
      auto remote = raw->open(wire);
      world.scheduler.after(world.network.delay(here, here), [wire, remote] {
        const auto device = wire->device.lock();
        if (device == nullptr) return;
        device->deliver([wire, remote, raw = device.get()] {
          if (raw->wire_ != wire) return;
          if (remote && wire->open) return raw->up(wire, *remote);
          raw->wire_.reset();
          raw->retry();
        });
      });
    });
    // One that is paused answers late; one that dies meanwhile, never.
    if (!engine->is_alive()) {
      if (const auto device = wire->device.lock())
        device->deliver([wire, raw = device.get()] { raw->lost(wire); });
    }
  });
}

void DeviceProcess::retry() {
  retry_after_ = std::clamp(retry_after_ * 2, kFirstRetry, kLastRetry);
  deliver_later(retry_after_, [this] {
    if (wire_ == nullptr) connect();
  });
}

// The first engine after a standby that is none gets nothing until the kernel has dropped what was read
// through the standby.
void DeviceProcess::up(const NbdWirePtr& wire, block::nbd::RemoteExport remote) {
  retry_after_ = {};
  const bool drop = over_standby_ && !remote.standby && !device_.empty();
  if (!drop) {
    over_standby_ = remote.standby;
    return came_up(wire, std::move(remote));
  }
  deliver_later(context().scheduler.between(1ms, 20ms), [this, wire, remote = std::move(remote)] {
    over_standby_ = false;
    if (wire == wire_ && wire->open) came_up(wire, remote);
  });
}

void DeviceProcess::came_up(const NbdWirePtr& wire, block::nbd::RemoteExport remote) {
  step(bridge::Up{wire->device_connection, std::move(remote)});
  if (phase_ == Phase::connecting) {
    phase_ = Phase::attaching;
    deliver_later(context().scheduler.between(5ms, 60ms), [this] {
      if (phase_ != Phase::attaching) return;
      phase_ = Phase::serving;
      device_ = fmt::format("/dev/loop{}", machine_.next_loop++);
      machine_.link_device(link(), std::static_pointer_cast<DeviceProcess>(shared_from_this()));
      publish("state", status());
      context().changed.processes = true;
    });
  }
  publish("state", status());
}

void DeviceProcess::lost(const NbdWirePtr& wire) {
  if (wire != wire_) return;
  wire_.reset();
  if (std::exchange(wire->open, false)) {
    if (const auto engine = wire->engine.lock())
      engine->deliver([wire, raw = engine.get()] { raw->closed(wire); });
  }
  step(bridge::Down{wire->device_connection});
  publish("state", status());
  if (bridge_.state() != bridge::State::ended && phase_ != Phase::gone) retry();
}

void DeviceProcess::replied(const NbdWirePtr& wire, block::nbd::ClientReply reply, std::uint64_t epoch) {
  if (wire != wire_) return;
  answering_epoch_ = epoch;
  step(bridge::Replied{wire->device_connection, std::move(reply)});
  answering_epoch_ = 0;
}

void DeviceProcess::submit(bridge::Request request, Answered answered) {
  request.id = next_request_++;
  open_[request.id] = std::move(answered);
  step(bridge::Submit{std::move(request)});
}

Json DeviceProcess::status() const {
  const auto state = [this]() -> const char* {
    if (phase_ >= Phase::flushing) return "removing";
    if (bridge_.state() == bridge::State::ended) return "ended";
    if (phase_ != Phase::serving) return "starting";
    return bridge_.state() == bridge::State::up ? "serving" : "waiting";
  };
  return Json::object({{"state", state()},
                       {"path", link()},
                       {"device", device_},
                       {"size", bridge_.remote().size},
                       {"export_id", bridge_.remote().export_id},
                       {"message", bridge_.why_ended()}});
}

void DeviceProcess::control(const std::string& op, const Json& arguments,
                            std::function<void(Result<Json>)> answer) {
  if (op == "status") return answer(status());
  if (op != "shutdown") return answer(make_error(Errc::unsupported, op));
  const bool force = arguments.get_bool("force").value_or(false);
  if (!force && !users_.empty() && phase_ == Phase::serving)
    return answer(make_error(Errc::conflict, device_ + " is in use"));
  answer(Json::object());
  if (phase_ == Phase::gone || (phase_ == Phase::flushing && !force)) return;
  const bool used = phase_ == Phase::serving && !force;
  phase_ = Phase::flushing;
  if (!used) {
    step(bridge::Abort{"removed by force"});
    return finish();
  }
  bridge::Request flush;
  flush.id = kLastFlush;
  flush.op = bridge::Op::flush;
  step(bridge::Submit{std::move(flush)});
}

void DeviceProcess::terminate() {
  control("shutdown", Json::object(), [](const Result<Json>&) {});
}

void DeviceProcess::finish() {
  if (phase_ == Phase::gone) return;
  phase_ = Phase::gone;
  machine_.unlink_device(link(), this);
  publish("stopping", Json::object());
  deliver_later(1ms, [this] { end({0, std::nullopt}); });
}

void DeviceProcess::drop_core() {
  machine_.unlink_device(link(), this);
  if (const NbdWirePtr wire = std::exchange(wire_, nullptr);
      wire != nullptr && std::exchange(wire->open, false)) {
    if (const auto engine = wire->engine.lock()) {
      context().scheduler.after(
          100us, [wire, engine] { engine->deliver([wire, raw = engine.get()] { raw->closed(wire); }); });
    }
  }
  // Whoever waits for an answer gets none: the clients find out that the device is gone.
  auto unanswered = std::exchange(open_, {});
  for (auto& [id, answered] : unanswered) answered(bridge::Answer{id, bridge::Op::read, 0, 5, {}}, 0);
  users_.clear();
}

}  // namespace moor::sim
