// What an agent does next for one engine and its device, and what it says about them. Pure: the object, the
// Grant, what is known of the processes, and the time go in; one step and a status come out.
//
// The order that keeps data safe: an epoch is started at most once, and only if the Grant names it for this
// engine on this life of this node; on the way down the device goes before the engine, the engine drains, and
// `stopped` is said only when neither is left.
#pragma once

#include "agent/core/facts.h"
#include "agent/core/replica_plan.h"
#include "model/longhorn/engine.h"

namespace moor::agent {

struct DeviceFacts {
  std::string key;
  ProcessFacts process;
  std::optional<DeviceReport> report;
  std::string link;
  std::string export_id;  // of the engine that it was made for; its own word counts once there is one
  std::string users;      // who has it open, when that is in the way; empty: nobody, or nobody asked
  bool looked = false;    // `users` is what was found
  bool asked = false;     // it was told to go, and agreed
  TimePoint retry_at;
  bool is_up() const {
    return process.is_running() && report && (report->state == "serving" || report->state == "waiting");
  }
};

struct EngineFacts {
  std::int64_t epoch = 0;  // of the last start that was recorded on this node; 0: none
  ProcessFacts process;    // of that start
  std::string socket;      // where it serves NBD
  bool unheard = false;    // found running, and it has not said anything yet
  bool drain_asked = false;
  bool told_superseded = false;
  bool standby = false;            // the process waits to take over, or was started to
  bool activation_wanted = false;  // and its client has written
  std::int64_t holding = 0;        // standby epoch for which this process was told to keep its clients
  bool other_lives = false;        // of an earlier object of this volume something is left on this node
  std::optional<EngineReport> report;
  std::optional<TimePoint> reported_at;
  std::vector<DeviceFacts> devices;  // the newest last
  std::string problem;               // why it cannot be started now
  std::string device_problem;        // why there is no device
  TimePoint retry_at;
  TimePoint device_retry_at;
  TimePoint ask_at;  // only for asking: a standby that was asked a moment ago may be wanted now
};

// Between two questions to a standby whether it reaches its source.
constexpr Duration kAskPause = std::chrono::milliseconds(100);

enum class EngineStep {
  nothing,
  start,                // the epoch that the Grant names
  use_up,               // an epoch that never will be started: recorded, so that `stopped` can be said of it
  set_hold,             // keep clients when superseded, or no longer
  update_standby,       // another epoch for a standby, or another source
  activate,             // the Grant shall name this standby as active
  confirm_activation,   // it does: the standby begins to serve
  take_epoch,           // a move was undone: the source goes on in a higher epoch
  ask,                  // for the status: nobody tells when a standby reaches its source again
  check_grant,          // the cached Grant names another: read it, and if it is so, tell the engine
  tell_addresses,       // members that are awaited listen elsewhere by now
  drain,                // write everything and end
  start_device,         //
  remove_device,        // politely: refused while somebody uses it
  look_at_device,       // who uses one that is of no use any more?
  force_remove_device,  // its engine is gone: whoever holds it gets errors instead of waiting for ever
  forget_device,        // its process has ended: clean up after it
  let_go,               // the finalizer goes
  forget,               // nothing is left of it here
};

struct EnginePlan {
  EngineStep step = EngineStep::nothing;
  std::string device;      // key, for the steps about one
  std::int64_t epoch = 0;  // that the Grant gives this engine
  bool standby = false;    // as a standby
  model::longhorn::EngineStatus status;
  TimePoint again = TimePoint::never();
};

inline constexpr std::string_view kDeviceInUse = "DeviceInUse";

// `object` or `grant` null: there is none.
EnginePlan plan_engine(const model::longhorn::Engine* object, const model::mooring::Grant* grant,
                       const Self& self, const EngineFacts& facts, Moment moment);

// Of an engine that gathers its members: those that it looks for in the wrong place, and the right one.
std::map<std::string, std::string> moved_members(const model::longhorn::Engine& object,
                                                 const EngineReport& report);

// What the Grant gives this engine here: an epoch, as active or as standby. 0: nothing.
struct Granted {
  std::int64_t epoch = 0;
  bool standby = false;
  // The Grant knows engines by name, and this one's object has not heard of the epoch that it was given.
  // Either its next version says so, or it was deleted and made again while this node was cut off, and the
  // epoch is its successor's: the object is waited for.
  bool ahead = false;
};
Granted granted_to(const model::longhorn::Engine* object, const model::mooring::Grant* grant,
                   const Self& self);

// The words after `moorblk` that start this epoch. `local`: replicas of this node.
struct EngineStart {
  const model::longhorn::Engine& engine;
  const model::mooring::Grant& grant;
  const std::vector<std::string>& local;
  std::string socket;
  std::string control;
  std::string token_file;
  bool standby = false;
  std::string peer_host = {};  // where to listen for a standby
};
std::vector<std::string> engine_arguments(const EngineStart& start);
// The members as `activate.confirm` and `epoch.take` want them, beside epoch, generation and export id.
Json grant_words(const EngineStart& start, std::int64_t epoch);

}  // namespace moor::agent
