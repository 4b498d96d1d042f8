// What happens to a cluster from outside, as data: faults and wishes with their times. A seed draws one; it
// can be printed, cut down entry by entry and run again with the same seed: everything that is not in it
// (delays, orders of events, identities) comes from the seed alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/random.h"
#include "base/result.h"

namespace moor::sim {

enum class FaultKind : std::uint8_t {
  kill_server,   // the process; it starts again after `lasts`
  power_server,  // the machine: what its journal had not made safe is gone (embedded store)
  pause_server,
  kill_agent,
  pause_agent,
  kill_process,  // an engine, replica or device; its agent deals with it
  pause_process,
  power_node,       // the machine, with everything on it; new boot id
  cut_node,         // from everybody, both ways
  cut_one_way,      // what the node sends is lost (`argument` odd: what it is sent)
  cut_pair,         // two nodes from each other
  cut_store,        // a server from the store
  lossy,            // messages of a node are lost with a chance of `argument` per mille
  slow,             // messages of a node take up to `argument` milliseconds more
  lose_answers,     // answers to a node's or server's calls are lost, the calls arrive
  watch_cuts,       // watches are cut again and again
  expire_watches,   // the store compacts: watches that lag must list again
  store_down,       // nobody reaches the store
  step_clock,       // the wall clock of a machine jumps by `argument` seconds
  full_disk,        // a node's disk takes nothing more
  failing_sync,     // syncs of one replica fail
  slow_disk,        // a node's disk answers late
  old_boot,         // the node's agent loses its file that says which life it is in
  backend_timeout,  // commands of a host time out and succeed all the same
  crash_point,      // at point `argument` (crash_points.h); `target` 0: before, 1: after; +2: power
  late,             // `argument` per mille of a node's messages arrive up to an hour late
  stray_hello,      // a HELLO that was sent long ago, or twice, or by another engine that claims the epoch
  ambush,           // the next engine that starts: at its step `argument` something that it needs dies
  power_room,       // all nodes at once
  bit_rot,          // a bit of one replica's maps or records flips on its disk while nobody reads it
  lost_data,        // the directory of one replica is gone while no process has it open
  twin,             // another machine takes a node's name, with another boot id and nothing on its disks
};
std::string_view to_string(FaultKind kind);
std::optional<FaultKind> fault_kind_of(std::string_view name);

struct Fault {
  Duration at{0};  // since the start of the world
  FaultKind kind = FaultKind::kill_server;
  // Which node, server or process, modulo how many there are then. Of what is wrong with messages: a node
  // below kServers, a server from there on.
  std::uint32_t target = 0;
  static constexpr std::uint32_t kServers = 1000;
  Duration lasts{0};
  std::int64_t argument = 0;
  // Of the faults that hit a process: which, by kind and name or the beginning of it ("engine volume-1",
  // "replica volume-1-r-2", "engine volume-1 on node-2"); empty: `target` chooses.
  std::string process = {};
  bool operator==(const Fault&) const = default;
};

enum class WishKind : std::uint8_t {
  create_volume,
  delete_volume,
  attach,       // add ticket `ticket` for `node`
  detach,       // remove ticket `ticket`
  open_client,  // a workload opens the device on `node`; type "reader": it only reads
  close_client,
  retarget,       // ticket `ticket` asks for `node` from now on
  set_parameter,  // `parameters` are added to those of ticket `ticket`
  set_setting,    // the Setting `ticket` becomes `type`
  hand_over,      // a guest moves: the client of `ticket` rests, that of ticket `type` goes on, on `node`
  count,          // two clerks count in the volume's annotations: each reads, adds one and writes back
};
std::string_view to_string(WishKind kind);

struct Wish {
  Duration at{0};
  WishKind kind = WishKind::attach;
  std::uint32_t volume = 0;  // volume-N
  std::uint32_t node = 0;    // node-N; attach: 0 is a reservation
  std::string ticket;
  std::string type;  // of the ticket
  std::uint32_t replicas = 3;
  std::string access_mode = "rwo";
  bool migratable = false;
  std::map<std::string, std::string> parameters = {};  // of the ticket
  // Two tickets with one owner serve the same. "volume-N" is that volume, with which the ticket goes; any
  // other name is of a kind that is not ours.
  std::string owner = {};
  Duration expires{0};  // after that long; 0: never
  bool operator==(const Wish&) const = default;
};

struct Schedule {
  std::vector<Fault> faults;  // by time
  std::vector<Wish> wishes;   // by time
  bool operator==(const Schedule&) const = default;
};
Json to_json(const Schedule& schedule);
Result<Schedule> schedule_from(const Json& json);

// The kinds of faults that a seed uses and how often: each seed its own subset.
struct Swarm {
  std::vector<FaultKind> kinds;
  Duration mean_pause{0};  // between two faults
};

struct DrawOptions {
  std::uint32_t nodes = 3;
  std::uint32_t volumes = 1;
  std::uint32_t servers = 1;
  bool shared_store = false;
  Duration warm_up{0};
  Duration faults{0};
};
Swarm draw_swarm(Random& random, const DrawOptions& options);
Schedule draw_schedule(Random& random, const Swarm& swarm, const DrawOptions& options);
// Volumes of the schedule become migratable and move while they are attached.
void draw_moves(Random& random, const DrawOptions& options, Schedule& schedule);

}  // namespace moor::sim
