// A whole cluster in one process, from one seed: servers with the real registry, controllers and leader
// election, agents, and the cores of engines, replicas and devices, on simulated machines, disks, links and
// clocks. One scheduler owns every message, timer, disk completion and process step, so the same seed gives
// the same run on every machine and compiler; state_hash() says whether it did.
//
//   World world(options);
//   Outcome outcome = world.run();        // warm-up, faults, healing, everything read back
//
// or piece by piece, for scenarios: the calls under "by hand". One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/crash_points.h"
#include "sim/reality.h"
#include "sim/schedule.h"

namespace moor::sim {

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  std::uint32_t volumes = 1;
  std::uint32_t servers = 1;
  bool shared_store = false;  // one store for all servers, over links; else embedded in the only server
  bool swarm = true;          // faults and wishes drawn from the seed; else none but those in `schedule`
  std::optional<Schedule> schedule = std::nullopt;  // instead of drawing one
  Duration warm_up = std::chrono::seconds(20);
  Duration faults = std::chrono::minutes(4);
  Duration heal_limit = std::chrono::minutes(30);
  Duration io_pause = std::chrono::milliseconds(500);  // between two requests of one client, on average
  std::uint64_t volume_bytes = 8u << 20;
  bool own_shape = false;  // the numbers above follow from the seed
  bool moves = false;      // volumes move while they are attached
  bool moods = true;       // workloads hammer, or rest for long, as the seed has it; else all are steady
  bool check = true;
  bool keep_trace = false;                                     // for --trace and --html
  std::function<void(const std::string& line)> on_trace = {};  // as it happens
};

struct WorldCounts {
  std::uint64_t events = 0;
  std::uint64_t crashes = 0;  // of processes and machines
  std::uint64_t pauses = 0;
  std::uint64_t cuts = 0;
  std::uint64_t messages = 0;
  std::uint64_t messages_lost = 0;
  std::uint64_t commits = 0;
  std::uint64_t leader_changes = 0;
  std::uint64_t engine_starts = 0;
  std::uint64_t acknowledged = 0;  // writes and flushes
  std::uint64_t reads_checked = 0;
  std::uint64_t attachments = 0;  // tickets that became satisfied
  std::uint64_t checks = 0;
  std::uint64_t crash_points = 0;
  std::uint64_t lives = 0;  // volumes that began again with another export id
  Duration simulated{0};
  void add(const WorldCounts& other);
};

struct Violation {
  std::string rule;
  std::string message;
  std::uint64_t step = 0;
  TimePoint at;
};

struct TraceLine {
  std::uint64_t step = 0;
  TimePoint at;
  std::string who;   // "node-1", "server-2", "volume-3", "world"
  std::string kind;  // "fault", "process", "commit", "grant", "io", "ticket", "note"
  std::string text;
};

struct Outcome {
  std::uint64_t seed = 0;
  WorldCounts counts;
  std::uint64_t hash = 0;
  std::optional<Violation> violation;
  Schedule schedule;  // what was run
  std::vector<TraceLine> trace;
};

// What a seed draws, or what `options.schedule` says.
Schedule schedule_drawn(const WorldOptions& options);

class World {
 public:
  explicit World(WorldOptions options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // All phases. The first violation ends it.
  Outcome run();

  // By hand. ----
  // What shall happen at its times, beside what is done by hand. Before warm_up().
  void schedule(const Schedule& schedule);
  // Everybody is up and introduced, or there is a violation.
  void warm_up();
  void run_for(Duration duration);
  // False: it did not come to pass in time, or a rule was violated before.
  bool run_until(const std::function<bool(const Reality&)>& holds, Duration limit);
  void inject(const Fault& fault);
  void inject_soon(const Fault& fault);  // as an event of its own
  void wish(const Wish& wish);
  // Everything broken is mended; what is down comes back.
  void heal();
  // After heal(): waits until nothing changes any more.
  bool settle(Duration limit);
  // Reads everything back and asks the checkers.
  void judge();
  // Then everything is let go of, and what is on the disks is compared.
  void let_go();

  const Reality& reality() const;
  CrashPoints& crash_points();
  // Beside those of checkers(); before the first step.
  void add_checker(std::unique_ptr<Checker> checker);
  const std::optional<Violation>& violation() const;
  Outcome outcome() const;
  std::uint64_t state_hash() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace moor::sim
