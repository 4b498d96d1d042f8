// A random workload on a volume of three replica processes, with snapshots, reverts and purges in between,
// against a model; at the end every replica is held against it offline. MOOR_INTEGRITY_SECONDS and
// MOOR_INTEGRITY_RATE (requests per second, 0: no limit) scale the run (tools/block_soak); MOOR_SEED repeats
// its choices.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <future>

#include "cluster.h"
#include "load.h"
#include "offline.h"

namespace moor::block::e2e {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kSize = 32u << 20;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Snapshot {
  std::string name;
  std::vector<Tag> image;                      // as of when it was asked for
  std::map<std::uint64_t, std::set<Tag>> or_;  // written while it was made
  bool allows(const std::vector<Tag>& found) const {
    if (found.size() != image.size()) return false;
    for (std::uint64_t s = 0; s < found.size(); ++s) {
      if (found[s] == image[s]) continue;
      const auto other = or_.find(s);
      if (other == or_.end() || !other->second.contains(found[s])) return false;
    }
    return true;
  }
};

class Integrity : public ::testing::Test {
 protected:
  void begin() {
    ASSERT_NO_FATAL_FAILURE(cluster_.create());
    ASSERT_NO_FATAL_FAILURE(cluster_.start_replicas());
    engine_ = cluster_.engine(1, {0, 1, 2});
    ASSERT_FALSE(engine_->ready().empty());
    ASSERT_TRUE(load_.connect(cluster_.uri())) << load_.failure();
  }
  Output ctl(const std::string& words) { return run(cluster_.control() + words, 120); }
  // The load goes on while the control command is at work.
  Output under_load(const std::string& words) {
    auto done = std::async(std::launch::async, [&] { return ctl(words); });
    load_.run([&] { return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    return done.get();
  }
  void run_for(std::chrono::milliseconds time) {
    const auto until = Clock::now() + time;
    load_.run([&] { return Clock::now() >= until; });
    ASSERT_EQ(load_.failure(), "");
  }
  void take_snapshot(bool loaded) {
    ASSERT_TRUE(load_.drain()) << load_.failure();
    load_.take_written();
    Snapshot made{fmt::format("s{}", ++last_snapshot_), model_.now, {}};
    const Output output =
        loaded ? under_load("snapshot create " + made.name) : ctl("snapshot create " + made.name);
    ASSERT_EQ(output.code, 0) << output.text;
    if (loaded) made.or_ = load_.take_written();
    snapshots_.push_back(std::move(made));
  }
  void revert() {
    if (snapshots_.empty()) return;
    Snapshot& target = snapshots_[random_() % snapshots_.size()];
    ASSERT_TRUE(load_.drain()) << load_.failure();
    const Output output = ctl("snapshot revert " + target.name);
    ASSERT_EQ(output.code, 0) << output.text;
    std::string failure;
    std::vector<Tag> found = Load::read_all(cluster_.uri(), kSize, failure);
    ASSERT_EQ(failure, "");
    ASSERT_TRUE(target.allows(found)) << "snapshot " << target.name << " is not what it was";
    target.image = model_.now = found;
    target.or_.clear();
    // Later ones now lie on a branch; nothing here looks at them again, and the next purge takes them away.
    const auto first = snapshots_.begin() + (&target - snapshots_.data()) + 1;
    for (auto later = first; later != snapshots_.end(); ++later)
      ASSERT_EQ(ctl("snapshot remove " + later->name).code, 0);
    snapshots_.erase(first, snapshots_.end());
    ++reverts_;
  }
  void purge() {
    if (snapshots_.empty()) return;
    const std::size_t at = random_() % snapshots_.size();
    const std::string name = snapshots_[at].name;
    ASSERT_EQ(ctl("snapshot remove " + name).code, 0);
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(at));
    const Output output = under_load("snapshot purge");
    ASSERT_EQ(output.code, 0) << output.text;
    ++purges_;
  }
  void end() {
    ASSERT_TRUE(load_.flush()) << load_.failure();
    std::string failure;
    EXPECT_TRUE(Load::read_all(cluster_.uri(), kSize, failure) == model_.now) << failure;
    load_.disconnect();
    const Output memory = run(fmt::format("grep VmHWM /proc/{}/status", engine_->pid()));
    fmt::print("engine: {}", memory.text);
    engine_->signal(SIGTERM);
    EXPECT_EQ(engine_->wait(), 0);
    cluster_.stop_replicas();
    for (int i = 0; i < Cluster::kReplicas; ++i) check_offline(i);
  }
  void check_offline(int replica) {
    SCOPED_TRACE(Cluster::name(replica));
    const std::string directory = cluster_.directory(replica);
    const Output checked = run(moorblk() + " replica check " + directory);
    EXPECT_EQ(checked.code, 0) << checked.text;
    const auto volume = read_offline(directory);
    ASSERT_TRUE(volume.ok()) << volume.error().message;
    EXPECT_TRUE(*volume == model_.now) << "the replica differs from the model";
    for (Snapshot& snapshot : snapshots_) {
      const auto found = read_snapshot_offline(directory, snapshot.name, cluster_.files() / "copy");
      ASSERT_TRUE(found.ok()) << snapshot.name << ": " << found.error().message;
      EXPECT_TRUE(snapshot.allows(*found)) << snapshot.name << " differs from the model";
      snapshot.image = *found;  // the next replica must hold exactly the same
      snapshot.or_.clear();
    }
  }

  std::uint64_t seed_ = number_from("MOOR_SEED", std::random_device()());
  std::mt19937_64 random_{seed_};
  Cluster cluster_{"32Mi"};
  std::unique_ptr<Server> engine_;
  VolumeModel model_{kSize};
  LoadOptions options_{4, 64, number_from("MOOR_INTEGRITY_RATE", 500)};
  Load load_{model_, seed_ + 1, options_};
  std::vector<Snapshot> snapshots_;
  std::uint64_t last_snapshot_ = 0;
  std::uint64_t reverts_ = 0;
  std::uint64_t purges_ = 0;
};

}  // namespace

TEST_F(Integrity, EveryReplicaHoldsWhatTheModelSays) {
  fmt::print("MOOR_SEED={}\n", seed_);
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed_));
  ASSERT_NO_FATAL_FAILURE(begin());
  const auto until = Clock::now() + std::chrono::seconds(number_from("MOOR_INTEGRITY_SECONDS", 60));
  while (Clock::now() < until) {
    ASSERT_NO_FATAL_FAILURE(run_for(std::chrono::milliseconds(200 + random_() % 800)));
    const std::uint64_t dice = random_() % 10;
    if (dice < 5 && snapshots_.size() < 8) {
      ASSERT_NO_FATAL_FAILURE(take_snapshot(dice < 3));
    } else if (dice < 8) {
      ASSERT_NO_FATAL_FAILURE(purge());
    } else {
      ASSERT_NO_FATAL_FAILURE(revert());
    }
    ASSERT_EQ(load_.failure(), "");
  }
  ASSERT_NO_FATAL_FAILURE(end());
  fmt::print("{} requests, {} MiB, {} snapshots, {} reverts, {} purges\n", load_.requests(),
             load_.bytes() >> 20, last_snapshot_, reverts_, purges_);
  EXPECT_GT(load_.requests(), 100u);
  EXPECT_GT(last_snapshot_, 0u);
}

}  // namespace moor::block::e2e
