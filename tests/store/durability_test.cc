// Real processes, real kills, real file systems. MOOR_KILL_ROUNDS and MOOR_POWER_ROUNDS scale the runs
// (tools/store_soak).
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

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

// A file system of its own on a loop device, in a mount namespace of this process: however the test ends,
// nothing stays.
class FileSystem {
 public:
  FileSystem(const fs::path& place, std::string type)
      : image_(place / "image"), mounted_(place / "mounted"), type_(type) {}
  ~FileSystem() {
    if (is_mounted_) umount2(mounted_.c_str(), MNT_DETACH);
  }
  const fs::path& path() const { return mounted_; }

  bool make() {
    fs::create_directory(mounted_);
    return run(fmt::format("truncate -s 400M '{0}' && mkfs.{1} -q {2} '{0}'", image_.string(), type_,
                           type_ == "ext4" ? "-F" : "-f"));
  }
  bool mount() {
    is_mounted_ =
        run(fmt::format("mount -t {} -o loop '{}' '{}'", type_, image_.string(), mounted_.string()));
    return is_mounted_;
  }
  // The power is gone: nothing that was not synced reaches the device any more.
  bool shut_down() {
    constexpr unsigned long kShutdown = _IOR('X', 125, std::uint32_t);  // the same for ext4 and xfs
    std::uint32_t without_flushing_the_log = 2;
    const int descriptor = open(mounted_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = descriptor >= 0 && ioctl(descriptor, kShutdown, &without_flushing_the_log) == 0;
    if (descriptor >= 0) close(descriptor);
    return done;
  }
  bool unmount() {
    is_mounted_ = umount2(mounted_.c_str(), 0) != 0;
    return !is_mounted_;
  }

 private:
  static bool run(const std::string& command) { return std::system(command.c_str()) == 0; }
  fs::path image_;
  fs::path mounted_;
  std::string type_;
  bool is_mounted_ = false;
};

class PowerLoss : public testing::TestWithParam<const char*> {};

TEST_P(PowerLoss, LosesNothingAcknowledged) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a file system and shut it down";
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    GTEST_SKIP() << "mounts cannot be made private here (the root is no mount point, as in a chroot)";
  const std::uint64_t seed = some_seed();
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed));
  SeededRandom random(seed);
  TemporaryDirectory temporary;
  FileSystem file_system(temporary.path(), GetParam());
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
