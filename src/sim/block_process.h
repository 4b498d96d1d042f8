// The processes of moorblk on a simulated machine: the cores are the product's, what carries their messages
// is ours. A process can be paused, can end by itself, be killed, or lose its machine; it outlives the agent.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host.h"
#include "block/core/bridge.h"
#include "block/core/engine.h"
#include "block/core/engine_control.h"
#include "block/core/replica.h"
#include "block/core/sim_disk.h"
#include "sim/call.h"

namespace moor::sim {

class Machine;
class EngineProcess;
class ReplicaProcess;
class DeviceProcess;

// One connection to a control socket.
struct ControlSession {
  std::deque<agent::Control::Event> events;
  std::optional<Completion<bool>> waiter;
  bool open = true;
};

class BlockProcess : public std::enable_shared_from_this<BlockProcess> {
 public:
  using Work = Scheduler::Work;
  BlockProcess(Machine& machine, agent::ProcessSpec spec, int pid);
  virtual ~BlockProcess() = default;

  virtual void begin() = 0;
  virtual void control(const std::string& op, const Json& arguments,
                       std::function<void(Result<Json>)> answer) = 0;
  virtual void terminate() = 0;  // SIGTERM

  // Runs it now, or when the process goes on; never once it has ended.
  void deliver(Work work);
  void deliver_later(Duration delay, Work work);
  void pause();
  void resume();
  void kill(int signal);  // SIGKILL, power: nothing more is done
  void signal(int number);
  void publish(std::string_view event, const Json& data);

  Machine& machine() { return machine_; }
  const agent::ProcessSpec& spec() const { return spec_; }
  const std::string& role() const { return spec_.arguments.front(); }
  std::string option(std::string_view name) const;
  std::vector<std::string> options(std::string_view name) const;
  int pid() const { return pid_; }
  bool is_alive() const { return !ended_; }
  bool is_paused() const { return paused_; }
  const std::optional<agent::ProcessEnd>& ended() const { return ended_; }
  bool listens() const { return listens_ && !ended_; }

  std::string output;
  std::string last_words;
  std::vector<Completion<bool>> waiting;  // for its end, or for its control socket
  std::vector<std::shared_ptr<ControlSession>> sessions;

 protected:
  void end(agent::ProcessEnd how);
  void listen();  // the control socket is there
  virtual void drop_core() = 0;
  Context& context();

  Machine& machine_;
  agent::ProcessSpec spec_;
  int pid_;

 private:
  void wake();
  bool paused_ = false;
  bool listens_ = false;
  std::optional<agent::ProcessEnd> ended_;
  std::deque<Work> held_;
};

// A TCP connection between an engine and a replica; or between a standby and the engine that it reads
// through, which then is the far end in a replica's place.
struct PeerWire {
  std::weak_ptr<EngineProcess> engine;
  std::weak_ptr<ReplicaProcess> replica;
  std::weak_ptr<EngineProcess> source;
  block::engine::MemberIndex member = 0;
  block::SessionId session = 0;
  block::PeerId peer = 0;
  MachineId engine_machine = 0;
  MachineId replica_machine = 0;
  TimePoint last_to_engine;
  TimePoint last_to_replica;
  bool engine_open = true;
  bool replica_open = false;
  bool answered = false;  // HELLO was
  bool broken = false;    // packets do not pass any more
  bool kept = false;      // the network keeps one back, and nothing can overtake it
};
using PeerWirePtr = std::shared_ptr<PeerWire>;

// A unix socket between a device and an engine.
struct NbdWire {
  std::weak_ptr<DeviceProcess> device;
  std::weak_ptr<EngineProcess> engine;
  std::uint64_t connection = 0;  // the engine's number, and the device's
  std::uint64_t device_connection = 0;
  TimePoint last_to_engine;
  TimePoint last_to_device;
  bool open = true;
};
using NbdWirePtr = std::shared_ptr<NbdWire>;

class EngineProcess final : public BlockProcess {
 public:
  EngineProcess(Machine& machine, agent::ProcessSpec spec, int pid);
  ~EngineProcess() override;
  void begin() override;
  void control(const std::string& op, const Json& arguments,
               std::function<void(Result<Json>)> answer) override;
  void terminate() override;

  const block::engine::Engine* core() const { return engine_.get(); }
  const block::engine::Config& config() const { return config_; }
  bool is_serving() const { return serving_.has_value() && !exiting_; }
  std::size_t clients() const { return clients_.size(); }
  int peer_port() const { return peer_port_; }  // where standbys connect; 0: nowhere
  EngineSight sight() const;

  void step(block::engine::Event event);
  void come_to_ambush();
  // From a standby: this is its source.
  void forward_hello(const PeerWirePtr& wire, block::Hello hello);
  void forward_request(const PeerWirePtr& wire, block::PeerRequest request);
  void forward_closed(const PeerWirePtr& wire);
  // From the source: this is a standby. `epoch`: of the engine that read.
  void forwarded(const PeerWirePtr& wire, block::PeerReply reply, block::Slice data, std::uint64_t epoch);
  // From devices.
  std::optional<block::nbd::RemoteExport> open(const NbdWirePtr& wire);
  void request(const NbdWirePtr& wire, block::nbd::ClientRequest request);
  void closed(const NbdWirePtr& wire);

 private:
  void drop_core() override;
  block::engine::Control::Driver driver();
  void perform(block::engine::Action& action);
  bool perform_forward(block::engine::Action& action);
  void serve(const block::engine::Serve& action);
  void hang_up(const NbdWirePtr& wire);
  void connect(block::engine::Connect& action);
  void connect_source(const PeerWirePtr& wire, const std::string& address, block::Hello hello);
  void send(block::engine::SendPeer& action);
  void disconnect(block::engine::MemberIndex member);
  void leave(const PeerWirePtr& wire);
  void reply(block::engine::ClientReply reply);
  void exit(const block::engine::Exit& action);
  void arm();

  block::engine::Config config_;
  std::unique_ptr<block::engine::Engine> engine_;
  std::unique_ptr<block::engine::Control> control_;
  std::map<std::string, std::string> addresses_;
  std::uint64_t epoch_ = 0;  // a living engine may get another one
  bool standby_ = false;
  std::uint64_t served_ = 0;        // the epoch in which clients were last let in
  std::uint64_t source_epoch_ = 0;  // of the engine that has answered a standby's read
  int peer_port_ = 0;
  std::map<block::engine::MemberIndex, PeerWirePtr> wires_;
  std::map<std::uint64_t, PeerWirePtr> forwards_;  // from standbys
  std::uint64_t next_forward_ = 1;
  std::map<std::uint64_t, NbdWirePtr> clients_;
  std::vector<NbdWirePtr> watchers_;  // of clients_: those that drop what they have cached at the activation
  std::uint64_t next_client_ = 1;
  std::deque<block::engine::Event> events_;
  bool stepping_ = false;
  std::optional<block::engine::Instant> armed_;
  Scheduler::EventId timer_ = 0;
  std::optional<block::engine::Serve> serving_;
  bool exiting_ = false;
  bool asked_to_end_ = false;
};

class ReplicaProcess final : public BlockProcess, private block::ReplicaSink {
 public:
  ReplicaProcess(Machine& machine, agent::ProcessSpec spec, int pid);
  ~ReplicaProcess() override;
  void begin() override;
  void control(const std::string& op, const Json& arguments,
               std::function<void(Result<Json>)> answer) override;
  void terminate() override;

  const block::Replica* core() const { return replica_.get(); }
  bool is_open() const { return open_; }
  const std::string& directory() const { return spec_.arguments[2]; }
  int port() const { return port_; }
  block::PeerId admitted() const { return admitted_; }  // the connection that was let in last; 0: none
  std::size_t unfinished() const { return unfinished_; }

  void hello(const PeerWirePtr& wire, block::Hello hello);
  void request(const PeerWirePtr& wire, block::PeerRequest request, block::Slice payload);
  void closed(const PeerWirePtr& wire);

 private:
  void drop_core() override;
  void opened(const Result<void>& outcome) override;
  void accept(block::PeerId peer, const block::HelloAnswer& answer) override;
  void refuse(block::PeerId peer, block::PeerRefusal reason, const std::string& why) override;
  void reply(block::PeerId peer, block::PeerReply reply, block::Slice data) override;
  void close(block::PeerId peer, block::PeerRefusal reason, const std::string& why) override;
  void stopped(const Result<void>& outcome) override;
  void run();
  void pump();

  std::string volume_;
  block::SimDisk* disk_ = nullptr;
  std::unique_ptr<block::Replica> replica_;
  std::optional<block::Floor> holder_;  // whom it obeyed when it was last looked at
  std::set<block::PeerId> asking_;      // to be obeyed, not answered yet
  block::PeerId admitted_ = 0;
  std::set<std::uint64_t> unanswered_;  // requests of the one that it obeys
  std::size_t unfinished_ = 0;          // of the one before, when the last one was let in
  std::map<block::PeerId, PeerWirePtr> peers_;
  block::PeerId next_peer_ = 1;
  int port_ = 0;
  bool open_ = false;
  bool pumping_ = false;
};

class DeviceProcess final : public BlockProcess {
 public:
  using Answered = std::function<void(const block::bridge::Answer&, std::uint64_t epoch)>;
  DeviceProcess(Machine& machine, agent::ProcessSpec spec, int pid);
  void begin() override;
  void control(const std::string& op, const Json& arguments,
               std::function<void(Result<Json>)> answer) override;
  void terminate() override;

  const block::bridge::Bridge& core() const { return bridge_; }
  std::string link() const { return option("--path"); }
  const std::string& device() const { return device_; }
  bool is_there() const { return phase_ == Phase::serving && is_alive(); }
  bool is_usable() const { return is_there() && bridge_.state() != block::bridge::State::ended; }

  // A client has it open.
  void hold(std::uint64_t client, std::string who) { users_[client] = std::move(who); }
  void let_go(std::uint64_t client) { users_.erase(client); }
  const std::map<std::uint64_t, std::string>& users() const { return users_; }
  void submit(block::bridge::Request request, Answered answered);
  bool has_room() const { return bridge_.has_room(); }
  block::BufferPool& pool() { return context().pool; }

  // From the engine.
  void replied(const NbdWirePtr& wire, block::nbd::ClientReply reply, std::uint64_t epoch);
  void lost(const NbdWirePtr& wire);

 private:
  enum class Phase : std::uint8_t { connecting, attaching, serving, flushing, gone };
  void drop_core() override;
  void step(block::bridge::Event event);
  void perform(block::bridge::Action& action);
  void connect();
  void retry();
  void up(const NbdWirePtr& wire, block::nbd::RemoteExport remote);
  void came_up(const NbdWirePtr& wire, block::nbd::RemoteExport remote);
  void finish();
  Json status() const;

  block::bridge::Bridge bridge_;
  Phase phase_ = Phase::connecting;
  std::string device_;
  NbdWirePtr wire_;
  std::uint64_t connection_ = 0;
  Duration retry_after_{0};
  bool over_standby_ = false;  // what was read through a standby is dropped before anything else is answered
  TimePoint give_up_at_;
  std::map<std::uint64_t, std::string> users_;
  std::map<std::uint64_t, Answered> open_;
  std::uint64_t next_request_ = 1;
  std::uint64_t answering_epoch_ = 0;
};

}  // namespace moor::sim
