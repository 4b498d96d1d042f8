#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/timestamp.h"
#include "block/core/nbd_protocol.h"
#include "sim/machine.h"
#include "sim/wire.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace engine = block::engine;
namespace nbd = block::nbd;

namespace {

std::uint64_t number_of(const std::string& text) {
  const auto json = parse_json(text);
  return json ? static_cast<std::uint64_t>(json->to_int64().value_or(0)) : 0;
}

int exit_code(engine::ExitReason reason) {
  switch (reason) {
    case engine::ExitReason::drained:
    case engine::ExitReason::forced: return 0;
    case engine::ExitReason::superseded: return 3;
    case engine::ExitReason::faulted: return 4;
    case engine::ExitReason::refused: return 5;
  }
  return 1;
}

std::optional<engine::ClientOp> op_of(std::uint16_t command) {
  switch (static_cast<nbd::Command>(command)) {
    case nbd::Command::read: return engine::ClientOp::read;
    case nbd::Command::write: return engine::ClientOp::write;
    case nbd::Command::flush: return engine::ClientOp::flush;
    case nbd::Command::write_zeroes: return engine::ClientOp::write_zeroes;
    default: return std::nullopt;
  }
}

}  // namespace

EngineProcess::EngineProcess(Machine& machine, agent::ProcessSpec spec, int pid)
    : BlockProcess(machine, std::move(spec), pid) {}

EngineProcess::~EngineProcess() = default;

void EngineProcess::begin() {
  config_.volume = option("--volume");
  config_.epoch = number_of(option("--epoch"));
  config_.engine = option("--engine-id");
  config_.generation = number_of(option("--generation"));
  config_.export_id = option("--export-id");
  config_.fresh_export_id = fmt::format("{}-{}", config_.volume, config_.epoch);
  config_.max_operations = 8 * 1024;
  // Often, too: a region is cold for as long as its clients let it be, and some clearings meet a write.
  if (context().options.moods) {
    constexpr std::array<Duration, 3> kIntervals{500ms, 5s, 30s};
    config_.clear_interval = kIntervals[context().scheduler.random().below(kIntervals.size())];
  }
  config_.last_served = number_of(option("--last-served"));
  config_.source = option("--source");
  for (const std::string& word : spec_.arguments) {
    if (word == "--unproven") config_.in_sync = engine::InSync::highest_generation;
    if (word == "--standby") config_.standby = true;
    if (word == "--hold") config_.hold_when_superseded = true;
  }
  epoch_ = config_.epoch;
  standby_ = config_.standby;
  addresses_[std::string(engine::kSourceName)] = config_.source;
  if (!option("--peer-listen").empty()) peer_port_ = machine_.next_port++;
  const auto token = machine_.files.find(option("--token-file"));
  if (token != machine_.files.end()) config_.token = token->second.substr(0, token->second.find('\n'));
  for (const std::string& text : options("--replica")) {
    auto member = engine::parse_member(text);
    if (!member) continue;
    addresses_[member->name] = member->address;
    config_.members.push_back(*std::move(member));
  }
  if (config_.members.empty() || token == machine_.files.end()) return end({1, std::nullopt});
  engine_ = std::make_unique<engine::Engine>(config_, context().pool);
  control_ = std::make_unique<engine::Control>(config_, *engine_, driver());
  context().engines[config_.volume].push_back(this);
  ++context().counts.engine_starts;
  context().changed.processes = true;
  context().changed.touch(config_.volume);
  context().trace(machine_.name(), "process",
                  fmt::format("engine of {} starts with epoch {}{}", config_.volume, epoch_,
                              standby_ ? " as a standby" : ""));
  listen();
  step(engine::Started{});
}

engine::Control::Driver EngineProcess::driver() {
  engine::Control::Driver driver;
  driver.step = [this](engine::Event event) { step(std::move(event)); };
  driver.publish = [this](std::string_view event, const Json& data) { publish(event, data); };
  driver.know_address = [this](const std::string& member, const std::string& address) -> Result<void> {
    addresses_[member] = address;
    return {};
  };
  driver.connections = [this] { return clients_.size(); };
  driver.peer_address = [this] {
    return peer_port_ == 0 ? std::string() : fmt::format("tcp:{}:{}", machine_.address(), peer_port_);
  };
  driver.timestamp = [this] {
    const auto now =
        std::chrono::duration_cast<std::chrono::microseconds>(context().scheduler.now().since_start);
    return format_timestamp(WallTime{std::chrono::seconds(1'700'000'000) + now + machine_.wall_offset()});
  };
  return driver;
}

void EngineProcess::control(const std::string& op, const Json& arguments,
                            std::function<void(Result<Json>)> answer) {
  if (control_ == nullptr) return answer(make_error(Errc::unavailable, "the process has ended"));
  control_->call(op, arguments, std::move(answer));
}

void EngineProcess::terminate() {
  if (control_ == nullptr) return end({std::nullopt, SIGTERM});
  const bool again = std::exchange(asked_to_end_, true);
  control_->command(engine::Shutdown{again}, [](const engine::CommandDone&) {});
}

EngineSight EngineProcess::sight() const {
  EngineSight sight;
  sight.node = machine_.name();
  sight.boot_id = machine_.boot_id();
  sight.volume = config_.volume;
  sight.engine = config_.engine;
  sight.epoch = epoch_;
  sight.standby = standby_;
  sight.pid = pid_;
  sight.paused = is_paused();
  sight.serving = is_serving() && served_ == epoch_;
  sight.clients = clients_.size();
  sight.core = engine_.get();
  return sight;
}

void EngineProcess::step(engine::Event event) {
  if (engine_ == nullptr) return;
  events_.push_back(std::move(event));
  if (std::exchange(stepping_, true)) return;
  const auto self = shared_from_this();
  come_to_ambush();
  context().changed.engines = true;
  context().changed.touch(config_.volume);
  while (!events_.empty() && engine_ != nullptr) {
    engine::Event next = std::move(events_.front());
    events_.pop_front();
    engine::Actions actions;
    const bool commanded = std::holds_alternative<engine::Commanded>(next);
    engine_->step(std::move(next), context().scheduler.now().since_start, actions);
    // Only a command gives it another epoch, or makes a standby an active engine.
    if (commanded) {
      const engine::Status status = engine_->status();
      context().changed.processes |= status.epoch != epoch_;
      epoch_ = status.epoch;
      standby_ = status.state == engine::State::standby;
    }
    for (engine::Action& action : actions) perform(action);
  }
  stepping_ = false;
  if (engine_ != nullptr) arm();
}

void EngineProcess::come_to_ambush() {
  auto& ambush = context().ambush;
  if (!ambush || serving_ || --ambush->steps > 0) return;
  const auto strike = std::exchange(ambush, std::nullopt)->strike;
  context().scheduler.soon(
      [strike, volume = config_.volume, node = machine_.name()] { strike(volume, node); });
}

void EngineProcess::arm() {
  const auto wake = engine_->next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  armed_ = *wake;
  context().scheduler.cancel(timer_);
  timer_ = context().scheduler.at(TimePoint{*wake}, [self = shared_from_this(), this] {
    deliver([this] {
      armed_.reset();
      step(engine::Tick{});
    });
  });
}

void EngineProcess::perform(engine::Action& action) {
  if (auto* connect = std::get_if<engine::Connect>(&action)) return this->connect(*connect);
  if (auto* send = std::get_if<engine::SendPeer>(&action)) return this->send(*send);
  if (auto* cut = std::get_if<engine::Disconnect>(&action)) return disconnect(cut->member);
  if (auto* reply = std::get_if<engine::ReplyClient>(&action)) return this->reply(std::move(reply->reply));
  if (auto* exit = std::get_if<engine::Exit>(&action)) return this->exit(*exit);
  if (perform_forward(action)) return;
  if (auto* propose = std::get_if<engine::Propose>(&action)) {
    context().trace(machine_.name(), "grant",
                    fmt::format("engine of {} epoch {} proposes generation {}: {}", config_.volume, epoch_,
                                propose->next.generation, propose->reason));
    return control_->perform(*propose);
  }
  if (auto* serve = std::get_if<engine::Serve>(&action)) return this->serve(*serve);
  if (auto* want = std::get_if<engine::WantActivation>(&action)) {
    context().trace(
        machine_.name(), "grant",
        fmt::format("standby of {} epoch {} wants to be active: {}", config_.volume, epoch_, want->reason));
    return control_->perform(*want);
  }
  if (std::holds_alternative<engine::EndSessions>(action)) {
    watchers_.clear();
    for (const auto& [id, wire] : std::exchange(clients_, {})) hang_up(wire);
    return;
  }
  if (auto* done = std::get_if<engine::CommandDone>(&action)) return control_->perform(*done);
  if (auto* note = std::get_if<engine::Note>(&action))
    context().trace(machine_.name(), "note", fmt::format("engine of {}: {}", config_.volume, note->text));
}

// A standby lets clients in before it is activated; those that then have something to drop are told by a
// hang-up.
void EngineProcess::serve(const engine::Serve& action) {
  serving_ = action;
  context().changed.processes = true;
  context().changed.touch(config_.volume);
  if (output.empty()) output += "ready unix\n";
  context().trace(machine_.name(), "grant",
                  fmt::format("engine of {} epoch {} {} {}", config_.volume, epoch_,
                              action.standby ? "stands by for" : "serves", action.export_id));
  if (!action.standby) {
    for (const NbdWirePtr& wire : std::exchange(watchers_, {})) {
      if (clients_.erase(wire->connection) == 0) continue;
      hang_up(wire);
      deliver_later(context().scheduler.between(10us, 1ms),
                    [this, id = wire->connection] { step(engine::ClientClosed{id}); });
    }
    served_ = epoch_;
    if (context().on_serve) context().on_serve(sight(), action);
  }
  control_->perform(action);
}

// Behind everything that was replied.
void EngineProcess::hang_up(const NbdWirePtr& wire) {
  if (!std::exchange(wire->open, false)) return;
  wire->last_to_device = std::max(wire->last_to_device, context().scheduler.now() + 100us);
  context().scheduler.at(wire->last_to_device, [wire] {
    if (const auto device = wire->device.lock())
      device->deliver([wire, raw = device.get()] { raw->lost(wire); });
  });
}

void EngineProcess::connect_source(const PeerWirePtr& wire, const std::string& address, block::Hello hello) {
  const auto source = machine_.find_source(address);
  Context& world = context();
  if (source == nullptr)
    return tell_engine_end(world, wire, block::PeerRefusal::none, "connection refused",
                           world.scheduler.between(300us, 3ms));
  wire->source = source;
  wire->replica_machine = source->machine().id();
  if (!world.network.reaches(wire->replica_machine, wire->engine_machine)) return break_wire(world, wire);
  to_source(world, wire,
            [wire, hello = std::move(hello)](EngineProcess& process) { process.forward_hello(wire, hello); });
}

void EngineProcess::connect(engine::Connect& action) {
  auto wire = std::make_shared<PeerWire>();
  wire->engine = std::static_pointer_cast<EngineProcess>(shared_from_this());
  wire->member = action.member;
  wire->session = action.hello.session;
  wire->engine_machine = machine_.id();
  wires_[action.member] = wire;
  std::string address = addresses_[engine_->member(action.member).name];
  if (address.starts_with("tcp:")) address = address.substr(4);
  if (action.member == engine::kSourceLink) return connect_source(wire, address, std::move(action.hello));
  const auto replica = machine_.find_replica(address);
  Context& world = context();
  if (replica == nullptr)
    return tell_engine_end(world, wire, block::PeerRefusal::none, "connection refused",
                           world.scheduler.between(300us, 3ms));
  wire->replica = replica;
  wire->replica_machine = replica->machine().id();
  // The handshake needs both ways.
  if (!world.network.reaches(wire->replica_machine, wire->engine_machine)) return break_wire(world, wire);
  to_replica(world, wire, [wire, hello = std::move(action.hello)](ReplicaProcess& process) {
    process.hello(wire, hello);
  });
}

void EngineProcess::send(engine::SendPeer& action) {
  const auto found = wires_.find(action.member);
  if (found == wires_.end() || !found->second->engine_open) return;
  const PeerWirePtr wire = found->second;
  if (action.request.op == block::PeerOp::disconnect) return disconnect(action.member);
  if (action.member == engine::kSourceLink) {
    to_source(context(), wire, [wire, request = std::move(action.request)](EngineProcess& process) {
      process.forward_request(wire, request);
    });
    return;
  }
  to_replica(context(), wire,
             [wire, request = std::move(action.request), payload = std::move(action.payload)](
                 ReplicaProcess& process) { process.request(wire, request, payload); });
}

void EngineProcess::disconnect(engine::MemberIndex member) {
  auto node = wires_.extract(member);
  if (node.empty()) return;
  leave(node.mapped());
}

void EngineProcess::leave(const PeerWirePtr& wire) {
  wire->engine_open = false;
  if (wire->member == engine::kSourceLink) {
    to_source(context(), wire, [wire](EngineProcess& process) { process.forward_closed(wire); });
  } else {
    to_replica(context(), wire, [wire](ReplicaProcess& process) { process.closed(wire); });
  }
}

void EngineProcess::exit(const engine::Exit& action) {
  exiting_ = true;
  last_words = action.message;
  control_->perform(action);
  const int code = exit_code(action.reason);
  deliver_later(context().scheduler.between(1ms, 20ms), [this, code] { end({code, std::nullopt}); });
}

void EngineProcess::drop_core() {
  context().scheduler.cancel(timer_);
  if (const auto known = context().engines.find(config_.volume); known != context().engines.end()) {
    std::erase(known->second, this);
    if (known->second.empty()) context().engines.erase(known);
    context().changed.touch(config_.volume);
  }
  engine_.reset();
  control_.reset();
  for (auto& [member, wire] : std::exchange(wires_, {})) {
    wire->engine_open = false;
    // The kernel closes the connection, if the machine still has power.
    if (machine_.is_up()) {
      leave(wire);
    } else {
      break_wire(context(), wire);
    }
  }
  for (auto& [id, wire] : std::exchange(forwards_, {})) lose_far_end(context(), wire, machine_.is_up());
  watchers_.clear();
  for (const auto& [id, wire] : std::exchange(clients_, {})) {
    if (!std::exchange(wire->open, false)) continue;
    context().scheduler.after(100us, [wire] {
      if (const auto device = wire->device.lock())
        device->deliver([wire, raw = device.get()] { raw->lost(wire); });
    });
  }
}

std::optional<nbd::RemoteExport> EngineProcess::open(const NbdWirePtr& wire) {
  if (!is_serving()) return std::nullopt;
  wire->connection = next_client_++;
  clients_[wire->connection] = wire;
  nbd::RemoteExport remote;
  remote.size = serving_->size;
  remote.flags = nbd::kHasFlags | nbd::kSendFlush | nbd::kSendFua | nbd::kSendTrim | nbd::kSendWriteZeroes;
  remote.export_id = serving_->export_id;
  remote.standby = serving_->standby;
  if (remote.standby) watchers_.push_back(wire);
  return remote;
}

void EngineProcess::request(const NbdWirePtr& wire, nbd::ClientRequest request) {
  if (!wire->open) return;
  const auto op = op_of(request.command);
  engine::ClientRequest out;
  out.connection = wire->connection;
  out.cookie = request.id;
  out.op = op.value_or(engine::ClientOp::read);
  out.fua = (request.flags & nbd::kFlagFua) != 0;
  out.offset = request.offset;
  out.length = request.length;
  out.payload = std::move(request.payload);
  step(engine::ClientRequested{std::move(out)});
}

void EngineProcess::closed(const NbdWirePtr& wire) {
  wire->open = false;
  std::erase(watchers_, wire);
  if (clients_.erase(wire->connection) != 0) step(engine::ClientClosed{wire->connection});
}

void EngineProcess::reply(engine::ClientReply reply) {
  const auto found = clients_.find(reply.connection);
  if (found == clients_.end()) return;
  const NbdWirePtr wire = found->second;
  nbd::ClientReply out;
  out.id = reply.cookie;
  out.error = reply.error;
  out.data = std::move(reply.payload);
  wire->last_to_device =
      std::max(wire->last_to_device,
               context().scheduler.now() + context().network.delay(machine_.id(), machine_.id()));
  // A standby's client reads what its source serves; what else a standby says is nobody's word.
  const std::uint64_t of = !standby_ ? epoch_ : reply.op == engine::ClientOp::read ? source_epoch_ : 0;
  context().scheduler.at(wire->last_to_device, [wire, out, epoch = of] {
    if (const auto device = wire->device.lock())
      device->deliver([wire, out, epoch, raw = device.get()] { raw->replied(wire, out, epoch); });
  });
}

}  // namespace moor::sim
