// Runs the engine core on the io_uring loop: links to replicas, the NBD front, the timer, and the answers to
// its proposals. It only carries messages; every decision is in core/engine*.cc. One thread; the loop, the
// pool and the control server outlive it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/engine.h"
#include "block/core/engine_control.h"
#include "block/engine/forward_front.h"
#include "block/engine/member_link.h"
#include "block/io/control_server.h"
#include "block/io/nbd_front.h"

namespace moor::block {

struct EngineHostOptions {
  engine::Config config;
  io::Address listen;
  std::optional<io::Address> peer_listen;  // for the standby of a move
  bool confirm_itself = false;             // --confirm auto: there is no controller
  std::function<void(const std::string& bound)> on_serving;
};

class EngineHost final : public io::NbdBackend {
 public:
  static Result<std::unique_ptr<EngineHost>> create(io::Loop& loop, BufferPool& pool,
                                                    EngineHostOptions options);
  ~EngineHost();

  // Registers the operations of the control protocol; before listen() of the server.
  void add_control(io::ControlServer& control);
  // Opens the listener for standbys, if one is wanted.
  Result<void> listen_for_peers();
  void start();
  // SIGTERM: drains; a second time: at once.
  void ask_to_end();
  const std::optional<engine::Exit>& exit() const { return exit_; }
  const engine::Engine& engine() const { return engine_; }

 private:
  struct Leaving;

  EngineHost(io::Loop& loop, BufferPool& pool, EngineHostOptions options,
             std::map<std::string, io::Address> addresses);

  // NbdBackend
  std::vector<nbd::Server::ListedExport> list() override;
  void open(io::ConnectionId connection, const nbd::OpenRequested& request) override;
  void request(io::ConnectionId connection, nbd::Request request) override;
  void closed(io::ConnectionId connection) override;
  bool wants_requests() const override { return wants_requests_; }

  void step(engine::Event event);
  void perform(engine::Action& action);
  void perform(engine::Connect& action);
  void perform(engine::SendPeer& action);
  void perform(engine::Disconnect& action);
  void perform(engine::ReplyClient& action);
  void perform(engine::Propose& action);
  void perform(engine::Serve& action);
  void perform(engine::EndSessions& action);
  void perform(engine::ForwardAccept& action) { forwards_.accept(action); }
  void perform(engine::ForwardRefuse& action) { forwards_.refuse(action); }
  void perform(engine::ForwardReply& action) { forwards_.reply(action); }
  void perform(engine::ForwardEnd& action) { forwards_.end(action); }
  void perform(engine::WantActivation& action);
  void perform(engine::CommandDone& action);
  void perform(engine::Exit& action);
  void perform(engine::Note& action);
  void arm_timer();
  void link_closed(MemberLink* link);
  void end_when_quiet();
  engine::Control::Driver control_driver();

  io::Loop& loop_;
  BufferPool& pool_;
  EngineHostOptions options_;
  std::map<std::string, io::Address> addresses_;  // by member name
  engine::Engine engine_;
  engine::Control operations_;
  io::NbdFront front_;
  ForwardFront forwards_;
  std::string peer_address_;
  io::Timer timer_;
  io::Timer end_timer_;
  io::ControlServer* control_ = nullptr;
  std::map<engine::MemberIndex, std::unique_ptr<MemberLink>> links_;
  std::vector<std::unique_ptr<MemberLink>> leaving_;  // saying goodbye
  std::vector<io::ConnectionId> clients_;
  std::vector<io::ConnectionId> watchers_;  // of clients_, those that drop cached pages at the activation
  std::deque<engine::Event> events_;
  engine::Actions actions_;
  bool stepping_ = false;
  bool wants_requests_ = true;
  std::optional<engine::Instant> armed_;
  std::optional<engine::Serve> serving_;
  bool listening_ = false;
  std::optional<engine::Exit> exit_;
  bool asked_to_end_ = false;
};

}  // namespace moor::block
