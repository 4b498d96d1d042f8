#include "sim/world.h"

#include <fmt/format.h>

#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "sim/cluster.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace lh = model::longhorn;

void WorldCounts::add(const WorldCounts& other) {
  events += other.events;
  crashes += other.crashes;
  pauses += other.pauses;
  cuts += other.cuts;
  messages += other.messages;
  messages_lost += other.messages_lost;
  commits += other.commits;
  leader_changes += other.leader_changes;
  engine_starts += other.engine_starts;
  acknowledged += other.acknowledged;
  reads_checked += other.reads_checked;
  attachments += other.attachments;
  checks += other.checks;
  crash_points += other.crash_points;
  lives += other.lives;
  simulated += other.simulated;
}

struct World::Inside {
  explicit Inside(WorldOptions options) : cluster(std::move(options)) {}
  Cluster cluster;
};

World::World(WorldOptions options) : inside_(std::make_unique<Inside>(std::move(options))) {}
World::~World() = default;

const Reality& World::reality() const {
  return inside_->cluster;
}
CrashPoints& World::crash_points() {
  return inside_->cluster.context.crash_points;
}
const std::optional<Violation>& World::violation() const {
  return inside_->cluster.violation;
}
std::uint64_t World::state_hash() const {
  return inside_->cluster.state_hash();
}
void World::add_checker(std::unique_ptr<Checker> checker) {
  Cluster& cluster = inside_->cluster;
  checker->report_to(
      [&cluster](std::string_view rule, std::string message) { cluster.violated(rule, std::move(message)); });
  cluster.checkers.push_back(std::move(checker));
}
void World::run_for(Duration duration) {
  inside_->cluster.run_for(duration);
}
bool World::run_until(const std::function<bool(const Reality&)>& holds, Duration limit) {
  return inside_->cluster.run_until(holds, limit);
}
void World::inject(const Fault& fault) {
  inside_->cluster.inject(fault);
}
void World::inject_soon(const Fault& fault) {
  Cluster& cluster = inside_->cluster;
  cluster.context.scheduler.soon([&cluster, fault] { cluster.inject(fault); });
}
void World::wish(const Wish& wish) {
  inside_->cluster.wish(wish);
}
void World::heal() {
  inside_->cluster.heal();
}

void World::schedule(const Schedule& schedule) {
  inside_->cluster.schedule_all(schedule);
}

void World::warm_up() {
  Cluster& cluster = inside_->cluster;
  cluster.start();
  if (!cluster.run_until([&cluster](const Reality&) { return cluster.is_ready(); }, 2min))
    cluster.violated("L11", "the agents are not ready two minutes after the start, without any fault");
}

// Rest: nobody has anything to do, and for a while nothing but heartbeats was written. Pauses before another
// try last up to a minute, so one that is not content is watched for longer.
bool World::settle(Duration limit) {
  Cluster& cluster = inside_->cluster;
  int quiet = 0;
  const TimePoint end = cluster.now() + limit;
  while (cluster.now() < end && !cluster.violation) {
    const auto fingerprint = [&cluster] {
      Scheduler sum(0);
      for (const auto& [key, object] : cluster.disk().objects()) {
        if (key.find("/leases/") != std::string::npos || key.find("/events/") != std::string::npos) continue;
        sum.mix(key);
        sum.mix(object.first);
      }
      return sum.hash();
    };
    cluster.close_leftover_clients();
    const std::uint64_t before = fingerprint();
    cluster.run_for(40s);
    quiet = before == fingerprint() && cluster.is_quiet() && cluster.is_ready() ? quiet + 1 : 0;
    if (quiet > (cluster.is_content() ? 0 : 6)) return true;
  }
  return false;
}

void World::judge() {
  Cluster& cluster = inside_->cluster;
  cluster.begin_final_reads();
  if (!cluster.run_until([&cluster](const Reality&) { return cluster.reads_open() == 0; }, 2min))
    cluster.judge_unanswered();
  for (const auto& checker : cluster.checkers)
    if (!cluster.violation) checker->after_healing(cluster);
}

Schedule schedule_drawn(const WorldOptions& options) {
  if (options.schedule) return *options.schedule;
  // A source of its own: cutting the schedule down later must not change anything else.
  SeededRandom random(options.seed * 0x9e3779b97f4a7c15ull + 1);
  const DrawOptions draw{options.nodes,        options.volumes, options.servers,
                         options.shared_store, options.warm_up, options.faults};
  Schedule schedule = draw_schedule(random, draw_swarm(random, draw), draw);
  if (options.moves) {
    // Of its own too: without it a seed is what it was.
    SeededRandom moves(options.seed * 0x9e3779b97f4a7c15ull + 2);
    draw_moves(moves, draw, schedule);
  }
  return schedule;
}

Outcome World::run() {
  Cluster& cluster = inside_->cluster;
  const WorldOptions& options = cluster.context.options;
  if (options.swarm || options.schedule) cluster.schedule_all(schedule_drawn(options));
  warm_up();
  const TimePoint end = TimePoint{1s} + options.warm_up + options.faults;
  if (!cluster.violation && cluster.now() < end) cluster.run_for(end - cluster.now());
  if (!cluster.violation) heal();
  if (!cluster.violation && !settle(options.heal_limit))
    cluster.violated("L8", "the cluster does not come to rest after the faults have stopped");
  if (!cluster.violation) judge();
  if (!cluster.violation) let_go();
  return outcome();
}

void World::let_go() {
  Cluster& cluster = inside_->cluster;
  cluster.end_clients();
  cluster.remove_all_tickets();
  if (!settle(cluster.context.options.heal_limit))
    cluster.violated("L3", "the cluster does not come to rest after the last detach");
  for (const auto& checker : cluster.checkers)
    if (!cluster.violation) checker->after_healing(cluster);
}

Outcome World::outcome() const {
  const Cluster& cluster = inside_->cluster;
  Outcome outcome;
  outcome.seed = cluster.context.options.seed;
  outcome.counts = cluster.context.counts;
  outcome.counts.events = cluster.context.scheduler.steps();
  outcome.counts.messages += cluster.context.network.counts().sent;
  outcome.counts.messages_lost += cluster.context.network.counts().lost;
  outcome.counts.crash_points = cluster.context.crash_points.reached();
  outcome.counts.simulated = cluster.now() - TimePoint{1s};
  outcome.hash = cluster.state_hash();
  outcome.violation = cluster.violation;
  outcome.schedule = cluster.schedule;
  outcome.trace = cluster.trace;
  return outcome;
}

}  // namespace moor::sim
