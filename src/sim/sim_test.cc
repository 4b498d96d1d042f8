#include <gtest/gtest.h>

#include "base/log.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "sim/process.h"
#include "sim/runner.h"
#include "sim/world.h"

namespace moor::sim {
namespace {

using namespace std::chrono_literals;
namespace lh = model::longhorn;

// Crashes make the product complain, as they should; a test need not.
const bool kSilent = [] {
  configure_log(LogLevel::off, LogFormat::text);
  return true;
}();

bool is_attached(const Reality& reality, const std::string& volume, const std::string& node) {
  const auto found = reality.get<lh::Volume>("longhorn-system", volume);
  return found && found->status.state == lh::VolumeState::attached && found->status.current_node_id == node;
}

bool is_detached(const Reality& reality, const std::string& volume) {
  const auto found = reality.get<lh::Volume>("longhorn-system", volume);
  return found && found->status.state == lh::VolumeState::detached;
}

WorldOptions quiet_cluster(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.swarm = false;
  return options;
}

std::string violation_of(const World& world) {
  return world.violation() ? world.violation()->rule + ": " + world.violation()->message : "";
}

TEST(Scheduler, EventsHappenByTimeAndThenByNumber) {
  Scheduler scheduler(1);
  std::string order;
  scheduler.after(2ms, [&] { order += "c"; });
  scheduler.after(1ms, [&] { order += "a"; });
  scheduler.after(1ms, [&] { order += "b"; });
  const auto cancelled = scheduler.after(1ms, [&] { order += "x"; });
  scheduler.cancel(cancelled);
  while (scheduler.run_one()) {
  }
  EXPECT_EQ(order, "abc");
}

TEST(SimProcess, APausedProcessDoesWhatWasDueWhenItGoesOn) {
  Scheduler scheduler(1);
  std::chrono::microseconds offset{0};
  SimProcess process(scheduler, "p", offset);
  int ran = 0;
  process.start_timer(process.clock().now() + 1s, [&] { ++ran; });
  process.pause();
  scheduler.after(5s, [&] { process.resume(); });
  while (scheduler.now() < TimePoint{5s} && scheduler.run_one()) EXPECT_EQ(ran, 0);
  while (scheduler.run_one()) {
  }
  EXPECT_EQ(ran, 1);
}

TEST(Schedule, SurvivesTheWayThroughJson) {
  SeededRandom random(5);
  const DrawOptions options{3, 2, 2, true, 20s, 240s};
  const Schedule schedule = draw_schedule(random, draw_swarm(random, options), options);
  ASSERT_FALSE(schedule.wishes.empty());
  const auto again = schedule_from(to_json(schedule));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, schedule);
}

TEST(SlotHistory, AnAcknowledgedWriteReplacesWhatEndedBeforeIt) {
  SlotHistory slot;
  slot.submit({1, 11, 10, SlotHistory::kOpen, false, 0});
  EXPECT_TRUE(slot.allows(0));
  EXPECT_TRUE(slot.acknowledge(1, 10, 20));
  EXPECT_FALSE(slot.allows(0));
  EXPECT_TRUE(slot.allows(11));
}

TEST(SlotHistory, WithoutAFlushAnotherLifeMayHaveLostTheWrite) {
  SlotHistory slot;
  slot.submit({1, 11, 10, SlotHistory::kOpen, false, 0});
  ASSERT_TRUE(slot.acknowledge(1, 10, 20));
  slot.roll_back();
  EXPECT_TRUE(slot.allows(0));
  EXPECT_TRUE(slot.allows(11));
}

TEST(SlotHistory, AFlushedWriteSurvivesAnotherLife) {
  SlotHistory slot;
  slot.submit({1, 11, 10, SlotHistory::kOpen, false, 0});
  ASSERT_TRUE(slot.acknowledge(1, 10, 20));
  slot.flushed(30);
  slot.roll_back();
  EXPECT_FALSE(slot.allows(0));
}

TEST(World, AVolumeIsAttachedWrittenAndDetached) {
  World world(quiet_cluster(3));
  world.warm_up();
  world.wish({0s, WishKind::create_volume, 1, 0, "", "", 3});
  world.wish({0s, WishKind::attach, 1, 2, "t1", "csi-attacher", 0});
  EXPECT_TRUE(world.run_until([](const Reality& r) { return is_attached(r, "volume-1", "node-2"); }, 60s))
      << violation_of(world);
  world.wish({0s, WishKind::open_client, 1, 2, "t1", "", 0});
  world.run_for(60s);
  const auto& history = world.reality().histories().at("volume-1");
  EXPECT_GT(history.acknowledged_writes, 10u);
  EXPECT_GT(history.checked_reads, 5u);
  world.wish({0s, WishKind::close_client, 1, 2, "t1", "", 0});
  world.wish({0s, WishKind::detach, 1, 2, "t1", "", 0});
  EXPECT_TRUE(world.run_until([](const Reality& r) { return is_detached(r, "volume-1"); }, 60s))
      << violation_of(world);
  EXPECT_EQ(violation_of(world), "");
}

TEST(World, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    RunOptions options;
    const WorldOptions shape = options_of(options, seed);
    World one(shape);
    World two(shape);
    const Outcome first = one.run();
    const Outcome second = two.run();
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.counts.events, second.counts.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace moor::sim
