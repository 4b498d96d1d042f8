// The engine's side of the control protocol (docs/control-protocol.md) without I/O: what each operation does
// to the engine, and its status and proposals as JSON. The io_uring program and the simulator carry the
// messages. One thread; belongs to the engine's driver, which outlives it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "block/core/engine.h"

namespace moor::block::engine {

// --replica: ADDRESS[,name=NAME][,mode=rw|wo|err][,local][,absent]
Result<MemberConfig> parse_member(const std::string& text);

class Control {
 public:
  using Answer = std::function<void(Result<Json>)>;  // once, at once or later
  using Done = std::function<void(const CommandDone&)>;

  // What it needs of the driver.
  struct Driver {
    std::function<void(Event)> step;
    std::function<void(std::string_view event, const Json& data)> publish;
    // Before a member is added: its address makes sense and is known from now on.
    std::function<Result<void>(const std::string& member, const std::string& address)> know_address;
    std::function<std::size_t()> connections;          // of clients
    std::function<std::string()> timestamp;            // RFC 3339, now
    std::function<std::string()> peer_address = {};    // where standbys connect; empty: nowhere
    std::function<void(Json& stats)> more_stats = {};  // of the driver itself
  };
  Control(const Config& config, const Engine& engine, Driver driver);

  // Every operation that there is.
  static const std::vector<std::string>& operations();
  // unsupported: there is no such operation.
  void call(std::string_view op, const Json& arguments, Answer answer);

  void command(Command command, Done done);
  // The driver's part: actions of the engine that concern the control protocol.
  void perform(const CommandDone& action);
  void perform(const Propose& action);
  void perform(const Serve& action);
  void perform(const WantActivation& action);
  void perform(const Exit& action);

  Json status() const;
  Json stats() const;

 private:
  void answer_command(Command command, Answer answer);
  void snapshot(std::string_view op, const Json& arguments, Answer answer);
  void add_member(const Json& arguments, Answer answer);
  void move_member(const Json& arguments, Answer answer);
  void confirm(const Json& arguments, const Answer& answer);
  void move(std::string_view op, const Json& arguments, Answer answer);
  Result<std::optional<GrantView>> grant_of(const Json& arguments);
  // `kept`: what cannot go now, by name, with the reason.
  void purge_next(Answer answer, std::map<std::string, std::string> kept);
  Json proposal_json(const Propose& proposal) const;

  const Config& config_;
  const Engine& engine_;
  Driver driver_;
  std::map<std::uint64_t, Done> commands_;
  std::uint64_t last_command_ = 0;
};

}  // namespace moor::block::engine
