// Seeds against the whole engine core. A failing seed is replayed, with its story, by
//   MOOR_SEED=N build/dev/tests/engine_world_test --gtest_filter='EngineWorld.*'
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cstdlib>

#include "block/core/engine_test_world.h"

namespace moor::block::engine::test {

namespace {
std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
}  // namespace

TEST(EngineWorld, AcknowledgedWritesSurviveEverySeed) {
  const std::uint64_t only = number_from("MOOR_SEED", 0);
  const std::uint64_t first = only != 0 ? only : number_from("MOOR_FIRST_SEED", 1);
  const std::uint64_t count = only != 0 ? 1 : number_from("MOOR_SEEDS", 1000);
  WorldCounts total;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    World world(seed, only != 0);
    try {
      world.run();
    } catch (const WorldFailure& failure) {
      FAIL() << failure.what() << "\nreplay: MOOR_SEED=" << seed << " engine_world_test";
    }
    total.add(world.counts());
  }
  fmt::print(
      "{} seeds from {}: {} steps, {} starts ({} without a continuous member), {} faults, {} proposals, {} "
      "acknowledged, {} reads, {} commands, {} questions ({} answered superseded)\n",
      count, first, total.steps, total.starts, total.fresh_starts, total.faults, total.proposals,
      total.acknowledged, total.reads, total.snapshots, total.questions, total.learned);
  if (count < 100) return;
  // A world in which nothing happens would prove nothing.
  EXPECT_GT(total.acknowledged, count * 10);
  EXPECT_GT(total.starts, count);
  EXPECT_GT(total.proposals, count);
  EXPECT_GT(total.fresh_starts, count / 2);
  EXPECT_GT(total.questions, count / 4);
  EXPECT_GT(total.learned, count / 40);
}

}  // namespace moor::block::engine::test
