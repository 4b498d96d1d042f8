// kill -9 of the engine, of a replica, of several and of all at random moments, and power cuts (ext4 and xfs
// shut down without a flush). After each round: nothing acknowledged is lost as long as a replica lived
// through, nothing flushed is lost in any case, parents' data never turns into zeros, and the replicas in
// sync agree, offline. MOOR_KILL_ROUNDS and MOOR_POWER_ROUNDS scale the run (tools/block_soak); MOOR_SEED
// repeats its choices.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "../support/loop_file_system.h"
#include "base/json.h"
#include "cluster.h"
#include "load.h"
#include "offline.h"

namespace moor::block::e2e {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;
constexpr std::uint64_t kSize = 8u << 20;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// One volume through many deaths.
class Mortal {
 public:
  Mortal(std::uint64_t seed, const std::string& place) : random_(seed), cluster_("8Mi", place) {}
  Cluster& cluster() { return cluster_; }
  std::uint64_t requests() const { return requests_; }

  void begin_round() {
    may_be_stale_.clear();
    ASSERT_NO_FATAL_FAILURE(cluster_.start_replicas());
    ASSERT_NO_FATAL_FAILURE(start_engine());
    load_ = std::make_unique<Load>(model_, random_(),
                                   LoadOptions{3, 48, 0, 256u << 10, random_() % 2 == 0, true});
    load_->next_tag = next_tag_;
    ASSERT_TRUE(load_->connect(cluster_.uri())) << load_->failure();
  }
  void run_a_while() {
    const auto until = Clock::now() + std::chrono::milliseconds(random_() % 150);
    load_->run([&] { return Clock::now() >= until; });
    ASSERT_EQ(load_->failure(), "");
  }
  // Flushed data below, then small writes above it: what a torn map would turn into zeros.
  void snapshot() {
    ASSERT_TRUE(load_->flush()) << load_->failure();
    const std::string name = fmt::format("s{}", ++snapshots_taken_);
    const Output made = run(cluster_.control() + "snapshot create " + name);
    ASSERT_EQ(made.code, 0) << made.text;
    images_[name] = model_.now;
    if (images_.size() <= 3) return;
    const std::string oldest = images_.begin()->first;
    images_.erase(oldest);
    ASSERT_EQ(run(cluster_.control() + "snapshot remove " + oldest).code, 0);
    // Most purges are cut short; without one that gets to its end, what they leave fills the disk.
    if (snapshots_taken_ % 8 == 0) {
      const Output purged = run(cluster_.control() + "snapshot purge", 120);
      ASSERT_EQ(purged.code, 0) << purged.text;
      return;
    }
    purge_ = std::make_unique<Server>(
        std::vector<std::string>{"sh", "-c", cluster_.control() + "snapshot purge >&2; echo ready"}, false);
  }
  void flush_now_and_then() {
    if (random_() % 3 != 0) return;
    ASSERT_TRUE(load_->flush()) << load_->failure();
  }
  void kill_engine() {
    engine_->signal(SIGKILL);
    engine_->wait();
  }
  void kill_replica(int replica) {
    cluster_.kill_replica(replica);
    may_be_stale_.insert(replica);
  }
  // Somebody of these dies; the load runs until its connections are gone or have gone on for a while.
  void kill_some() {
    const std::uint64_t dice = random_() % 8;
    every_replica_died_ = false;
    if (dice < 3) {
      kill_engine();
    } else if (dice < 5) {
      kill_replica(static_cast<int>(random_() % 3));
      run_a_while();  // the engine goes on without it
      if (random_() % 2 == 0) kill_engine();
    } else if (dice < 6) {
      kill_engine();
      kill_replica(static_cast<int>(random_() % 3));
    } else {
      kill_everything(random_() % 2 == 0);
    }
  }
  void kill_everything(bool engine_first) {
    if (engine_first) kill_engine();
    for (int i = 0; i < Cluster::kReplicas; ++i) cluster_.kill_replica(i);
    if (!engine_first) kill_engine();
    every_replica_died_ = true;
    // Of replicas that die one after the other under a living engine, the last one may be the only one in
    // sync.
    if (!engine_first) may_be_stale_ = {0, 1, 2};
  }
  // The moment of the cut. A sync that is under way while ext4 is shut down may return success without having
  // done anything, which no disk that loses its power does: nobody asks for one any more.
  void stand_still() {
    engine_->signal(SIGSTOP);
    for (int i = 0; i < Cluster::kReplicas; ++i) cluster_.signal_replica(i, SIGSTOP);
  }
  bool engine_lives() { return engine_->is_alive(); }
  void end_load() {
    if (engine_lives()) {
      EXPECT_TRUE(load_->drain());
    }
    requests_ += load_->requests();
    next_tag_ = load_->next_tag;
    EXPECT_EQ(load_->failure(), "");
    load_.reset();
    purge_.reset();
  }
  // A new engine takes over; what it serves is judged and then is the truth.
  void judge() {
    if (engine_lives()) {
      engine_->signal(SIGTERM);
      ASSERT_EQ(engine_->wait(), 0);
    }
    ASSERT_NO_FATAL_FAILURE(cluster_.start_replicas());
    ASSERT_NO_FATAL_FAILURE(start_engine());
    std::string failure;
    const std::vector<Tag> found = Load::read_all(cluster_.uri(), kSize, failure);
    ASSERT_EQ(failure, "");
    ASSERT_EQ(model_.adopt(found, every_replica_died_), "");
    ASSERT_NO_FATAL_FAILURE(learn_members());
    engine_->signal(SIGTERM);
    ASSERT_EQ(engine_->wait(), 0);
    cluster_.stop_replicas();
  }
  void judge_offline() {
    int good = 0;
    for (int i = 0; i < Cluster::kReplicas; ++i) {
      if (stale_.contains(i)) continue;
      SCOPED_TRACE(Cluster::name(i));
      good = i;
      const auto found = read_offline(cluster_.directory(i));
      ASSERT_TRUE(found.ok()) << found.error().message;
      ASSERT_TRUE(*found == model_.now) << "the replica is in sync and differs";
    }
    // There is no rebuild here: a replica that was left behind gets a copy of a good one.
    for (const int i : stale_) {
      fs::remove_all(cluster_.directory(i));
      fs::copy(cluster_.directory(good), cluster_.directory(i), fs::copy_options::recursive);
    }
  }
  void judge_snapshots() {
    for (int i = 0; i < Cluster::kReplicas; ++i) {
      const Output checked = run(moorblk() + " replica check " + cluster_.directory(i));
      EXPECT_EQ(checked.code, 0) << checked.text;
      for (const auto& [name, image] : images_) {
        const auto found = read_snapshot_offline(cluster_.directory(i), name, cluster_.files() / "copy");
        ASSERT_TRUE(found.ok()) << name << ": " << found.error().message;
        EXPECT_TRUE(*found == image) << Cluster::name(i) << ": snapshot " << name << " is not what it was";
      }
    }
  }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }

 private:
  void learn_members() {
    const Output output = run(cluster_.control() + "status");
    const auto status = parse_json(output.text);
    ASSERT_TRUE(status.ok()) << status.error().message << ": " << output.text;
    const Json* members = status->find("members");
    ASSERT_TRUE(members != nullptr && members->size() == Cluster::kReplicas) << output.text;
    stale_.clear();
    for (int i = 0; i < Cluster::kReplicas; ++i) {
      if (members->at(static_cast<std::size_t>(i)).get_string("mode") == "RW") continue;
      EXPECT_TRUE(may_be_stale_.contains(i))
          << Cluster::name(i) << " has no reason to be out: " << output.text;
      stale_.insert(i);
    }
    ASSERT_LT(stale_.size(), 3u);
  }
  void start_engine() {
    engine_ = cluster_.engine(++epoch_, {0, 1, 2});
    ASSERT_FALSE(engine_->ready().empty()) << "the engine does not start";
  }

  std::mt19937_64 random_;
  Cluster cluster_;
  std::unique_ptr<Server> engine_;
  std::unique_ptr<Server> purge_;
  VolumeModel model_{kSize};
  std::unique_ptr<Load> load_;
  std::map<std::string, std::vector<Tag>> images_;
  std::set<int> may_be_stale_;  // who may have become ERR in this round
  std::set<int> stale_;         // who has
  bool every_replica_died_ = false;
  int epoch_ = 0;
  Tag next_tag_ = 1;
  std::uint64_t snapshots_taken_ = 100;  // names of one length sort as they were made
  std::uint64_t requests_ = 0;
};

}  // namespace

TEST(Crash, KillsAtAnyMomentLoseNothingThatWasPromised) {
  const std::uint64_t seed = number_from("MOOR_SEED", std::random_device()());
  fmt::print("MOOR_SEED={}\n", seed);
  // A kill takes nothing from the page cache, so memory will do, and rounds are quick there.
  TemporaryDirectory place(fs::exists("/dev/shm") && std::getenv("MOOR_ON_DISK") == nullptr ? "/dev/shm"
                                                                                            : "");
  Mortal volume(seed, place.path());
  ASSERT_NO_FATAL_FAILURE(volume.cluster().create());
  const std::uint64_t rounds = number_from("MOOR_KILL_ROUNDS", 40);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("MOOR_SEED={} round {}", seed, round));
    ASSERT_NO_FATAL_FAILURE(volume.begin_round());
    ASSERT_NO_FATAL_FAILURE(volume.run_a_while());
    if (volume.chance(2)) {
      ASSERT_NO_FATAL_FAILURE(volume.snapshot());
    }
    ASSERT_NO_FATAL_FAILURE(volume.flush_now_and_then());
    ASSERT_NO_FATAL_FAILURE(volume.run_a_while());
    ASSERT_NO_FATAL_FAILURE(volume.kill_some());
    volume.end_load();
    ASSERT_NO_FATAL_FAILURE(volume.judge());
    ASSERT_NO_FATAL_FAILURE(volume.judge_offline());
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  ASSERT_NO_FATAL_FAILURE(volume.judge_snapshots());
  fmt::print("{} rounds, {} requests\n", rounds, volume.requests());
  EXPECT_GT(volume.requests(), rounds * 10);
}

class PowerCut : public ::testing::TestWithParam<const char*> {};

TEST_P(PowerCut, KeepsWhatWasFlushedUnderSnapshots) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a file system and shut it down";
  if (!moor::testing_support::private_mounts())
    GTEST_SKIP() << "mounts cannot be made private here (the root is no mount point, as in a chroot)";
  const std::uint64_t seed = number_from("MOOR_SEED", std::random_device()());
  fmt::print("MOOR_SEED={}\n", seed);
  TemporaryDirectory temporary;
  moor::testing_support::LoopFileSystem disk(temporary.path(), GetParam());
  if (!disk.make() || !disk.mount()) GTEST_SKIP() << "no " << GetParam() << " on a loop device here";
  Mortal volume(seed, disk.path().string());
  ASSERT_NO_FATAL_FAILURE(volume.cluster().create());
  const std::uint64_t rounds = number_from("MOOR_POWER_ROUNDS", 5);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("MOOR_SEED={} round {}", seed, round));
    ASSERT_NO_FATAL_FAILURE(volume.begin_round());
    ASSERT_NO_FATAL_FAILURE(volume.run_a_while());
    ASSERT_NO_FATAL_FAILURE(volume.snapshot());
    ASSERT_NO_FATAL_FAILURE(volume.run_a_while());
    ASSERT_NO_FATAL_FAILURE(volume.flush_now_and_then());
    ASSERT_NO_FATAL_FAILURE(volume.run_a_while());
    volume.stand_still();
    ASSERT_TRUE(disk.shut_down());
    volume.kill_everything(true);
    volume.end_load();
    ASSERT_TRUE(disk.unmount() && disk.mount());
    ASSERT_NO_FATAL_FAILURE(volume.judge());
    ASSERT_NO_FATAL_FAILURE(volume.judge_offline());
    ASSERT_FALSE(HasFailure());
  }
  ASSERT_NO_FATAL_FAILURE(volume.judge_snapshots());
  fmt::print("{} rounds on {}, {} requests\n", rounds, GetParam(), volume.requests());
}

INSTANTIATE_TEST_SUITE_P(Ext4, PowerCut, ::testing::Values("ext4"));
INSTANTIATE_TEST_SUITE_P(Xfs, PowerCut, ::testing::Values("xfs"));

}  // namespace moor::block::e2e
