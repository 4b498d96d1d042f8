// Real processes, real kills, real file systems. MOOR_KILL_ROUNDS and MOOR_POWER_ROUNDS scale the runs
// (tools/store_soak).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "../support/loop_file_system.h"
#include "base/log.h"
#include "base/random.h"
#include "store/embedded/testing/temporary_directory.h"
#include "witness.h"

namespace moor::store {
namespace {
using embedded::TemporaryDirectory;
namespace fs = std::filesystem;

int rounds(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Some lives end in the opening, the others in the middle of writing, copying the log or forgetting history.
Witness::Life some_life(Random& random) {
  if (random.chance(1, 5)) return {std::chrono::milliseconds(random.below(60)), false};
  return {std::chrono::milliseconds(random.below(300)), true};
}

std::uint64_t some_seed() {
  const char* text = std::getenv("MOOR_SEED");
  return text == nullptr ? std::random_device{}() : std::strtoull(text, nullptr, 10);
}

TEST(Durability, KilledWritersLoseNothingAcknowledged) {
  const std::uint64_t seed = some_seed();
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed));
  SeededRandom random(seed);
  TemporaryDirectory temporary;
  const fs::path directory = temporary.path() / "store";
  Witness witness;
  const int wanted = rounds("MOOR_KILL_ROUNDS", 50);
  for (int round = 0; round < wanted; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    witness.watch_it_die(directory, random.next(), some_life(random),
                         [](pid_t child) { kill(child, SIGKILL); });
    // Mostly the next writer finds what the killed one left, log and all.
    if (round % 3 == 0 || round + 1 == wanted) witness.check(directory);
    if (HasFailure()) return;
    if (round % 100 == 99) fmt::print("{} rounds, {} acknowledged\n", round + 1, witness.acknowledged());
  }
  fmt::print("{} rounds, {} transactions acknowledged, {} events watched\n", wanted, witness.acknowledged(),
             witness.events());
  // A test that wrote nothing would show nothing.
  EXPECT_GT(witness.rounds_with_writes(), wanted / 3);
  EXPECT_GT(witness.events(), witness.acknowledged());
}

class PowerLoss : public testing::TestWithParam<const char*> {};

TEST_P(PowerLoss, LosesNothingAcknowledged) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a file system and shut it down";
  if (!testing_support::private_mounts())
    GTEST_SKIP() << "mounts cannot be made private here (the root is no mount point, as in a chroot)";
  const std::uint64_t seed = some_seed();
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed));
  SeededRandom random(seed);
  TemporaryDirectory temporary;
  testing_support::LoopFileSystem file_system(temporary.path(), GetParam());
  if (!file_system.make() || !file_system.mount())
    GTEST_SKIP() << "no " << GetParam() << " on a loop device here";
  const fs::path directory = file_system.path() / "store";
  Witness witness;
  witness.power_loss = true;
  const int wanted = rounds("MOOR_POWER_ROUNDS", 10);
  for (int round = 0; round < wanted; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    bool shut_down = false;
    witness.watch_it_die(directory, random.next(), some_life(random), [&](pid_t child) {
      shut_down = file_system.shut_down();
      kill(child, SIGKILL);
    });
    ASSERT_TRUE(shut_down) << strerror(errno);
    ASSERT_TRUE(file_system.unmount()) << strerror(errno);
    ASSERT_TRUE(file_system.mount());
    witness.check(directory);
    if (HasFailure()) return;
  }
  fmt::print("{} rounds on {}, {} transactions acknowledged, {} too late to count\n", wanted, GetParam(),
             witness.acknowledged(), witness.late());
  EXPECT_GT(witness.rounds_with_writes(), wanted / 3);
}

INSTANTIATE_TEST_SUITE_P(Ext4, PowerLoss, testing::Values("ext4"));
INSTANTIATE_TEST_SUITE_P(Xfs, PowerLoss, testing::Values("xfs"));

}  // namespace
}  // namespace moor::store
