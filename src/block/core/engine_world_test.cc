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

WorldCounts run_seeds(bool moves, std::uint64_t& count) {
  const std::uint64_t only = number_from("MOOR_SEED", 0);
  const std::uint64_t first = only != 0 ? only : number_from("MOOR_FIRST_SEED", 1);
  count = only != 0 ? 1 : number_from("MOOR_SEEDS", 1000);
  WorldCounts total;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    World world(seed, only != 0, moves);
    try {
      world.run();
    } catch (const WorldFailure& failure) {
      ADD_FAILURE() << failure.what() << "\nreplay: MOOR_SEED=" << seed << " engine_world_test";
      return total;
    }
    total.add(world.counts());
  }
  fmt::print(
      "{} seeds from {}: {} steps, {} starts ({} without a continuous member), {} faults, {} proposals, {} "
      "acknowledged, {} reads, {} commands, {} questions ({} answered superseded)\n",
      count, first, total.steps, total.starts, total.fresh_starts, total.faults, total.proposals,
      total.acknowledged, total.reads, total.snapshots, total.questions, total.learned);
  return total;
}
}  // namespace

TEST(EngineWorld, AcknowledgedWritesSurviveEverySeed) {
  std::uint64_t count = 0;
  const WorldCounts total = run_seeds(false, count);
  if (HasFailure() || count < 100) return;
  // A world in which nothing happens would prove nothing.
  EXPECT_GT(total.acknowledged, count * 10);
  EXPECT_GT(total.starts, count);
  EXPECT_GT(total.proposals, count);
  EXPECT_GT(total.fresh_starts, count / 2);
  EXPECT_GT(total.questions, count / 4);
  EXPECT_GT(total.learned, count / 40);
}

// With moves: by the first write and by request, rolled back before and after the activation, either engine
// killed at any step, links cut.
TEST(EngineWorld, MovesLoseNothingInEitherDirection) {
  std::uint64_t count = 0;
  const WorldCounts total = run_seeds(true, count);
  fmt::print(
      "{} moves, {} activations, {} rollbacks ({} after the activation), {} reads through the source\n",
      total.moves, total.activations, total.rollbacks, total.undone, total.forwarded);
  if (HasFailure() || count < 100) return;
  EXPECT_GT(total.moves, count * 2);
  EXPECT_GT(total.activations, count);
  EXPECT_GT(total.rollbacks, count / 2);
  EXPECT_GT(total.undone, count / 4);
  EXPECT_GT(total.forwarded, count);
}

}  // namespace moor::block::engine::test
