// What an agent knows about its node, as plain values: the input of its decisions. Facts come from the host
// (agent/host.h) and are never guessed: what has not been looked at yet has a value of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "model/mooring/grant.h"

namespace moor::agent {

// Who this agent is. A Grant that names the node in another life is not for us (S13).
struct Self {
  std::string node;
  std::int64_t incarnation = 0;
  std::string address;  // where replicas listen
};

// A process that was started for one purpose, by this agent or one before it.
struct ProcessFacts {
  // starting: it may exist at any moment, or not at all; only the host's answer tells.
  enum class State { none, starting, running, ended };
  State state = State::none;
  bool clean = false;  // ended: as asked, with nothing wrong
  std::string cause;   // ended: why, for people
  bool is_running() const { return state == State::running; }
};

// A change of the Grant that an engine waits for.
struct Proposal {
  std::uint64_t number = 0;
  std::int64_t epoch = 0;
  std::int64_t base = 0;
  std::int64_t generation = 0;
  std::map<std::string, model::mooring::MemberMode> members;
  std::string export_id;
  std::string reason;
  bool operator==(const Proposal&) const = default;
};

struct MemberReport {
  std::string name;
  std::string address;
  model::mooring::MemberMode mode = model::mooring::MemberMode::err;
};

struct LayerReport {
  std::string name;
  std::string id;
  std::string parent;
  std::string created;
  std::map<std::string, std::string> labels;
  bool removed = false;
  bool user_created = false;
  std::int64_t used_bytes = 0;
};

// An engine's own word on itself (docs/control-protocol.md, `status`).
struct EngineReport {
  std::int64_t epoch = 0;
  std::string state;  // starting, serving, stalled, superseded, ended
  std::string detail;
  std::int64_t size = 0;
  std::int64_t generation = 0;
  std::string export_id;
  std::vector<MemberReport> members;
  std::vector<LayerReport> chain;  // oldest first
  std::optional<Proposal> proposal;
  // Moves (docs/decisions/0300).
  bool holding = false;            // keeps its clients when it is superseded
  std::int32_t peer_port = 0;      // where a standby follows it; 0: nowhere
  bool ready = false;              // a standby that reaches its source
  std::string source;              // of a standby
  bool activation_wanted = false;  // a standby whose client wrote
  bool is_standby() const { return state == "standby"; }
  bool is_serving() const { return state == "serving" || state == "stalled"; }
};

// A device's own word.
struct DeviceReport {
  std::string state;  // starting, serving, waiting, ended, removing
  std::string device;
  std::string export_id;
  std::string message;
};

// corrupt: the process speaks otherwise than this build understands.
Result<EngineReport> read_engine_report(const Json& status);
Result<Proposal> read_proposal(const Json& event);
DeviceReport read_device_report(const Json& status);

}  // namespace moor::agent
