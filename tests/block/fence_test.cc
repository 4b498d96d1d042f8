// Fencing with real processes: an engine that was stopped with requests in every socket buffer comes back
// after another one has taken over, and nothing of it is applied or acknowledged; whoever is not the newest
// is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libnbd.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "../support/loop_file_system.h"
#include "base/json.h"
#include "block/core/peer_wire.h"
#include "cluster.h"
#include "load.h"
#include "offline.h"

namespace moor::block::e2e {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kSize = 8u << 20;

std::uint64_t some_seed() {
  const char* text = std::getenv("MOOR_SEED");
  return text == nullptr ? std::random_device()() : std::strtoull(text, nullptr, 10);
}

auto for_a_while(int milliseconds) {
  return [until = Clock::now() + std::chrono::milliseconds(milliseconds)] { return Clock::now() >= until; };
}

Hello hello_of(Epoch epoch, const std::string& engine, SessionId session, const std::string& token) {
  Hello hello;
  hello.volume = "v";
  hello.epoch = epoch;
  hello.engine = engine;
  hello.session = session;
  hello.token = token;
  return hello;
}

// One HELLO by hand. The handle is connected when the replica took it, else none.
nbd_handle* say(const std::string& address, const Hello& hello) {
  nbd_handle* handle = nbd_create();
  const auto name = encode_hello(hello);
  EXPECT_TRUE(name.ok());
  nbd_set_export_name(handle, name->c_str());
  if (nbd_connect_unix(handle, address.substr(5).c_str()) == 0) return handle;
  nbd_close(handle);
  return nullptr;
}

bool is_taken(const std::string& address, const Hello& hello) {
  nbd_handle* handle = say(address, hello);
  if (handle != nullptr) nbd_close(handle);
  return handle != nullptr;
}

}  // namespace

TEST(Fencing, NothingOfAStoppedEngineIsAppliedOrAcknowledged) {
  const std::uint64_t seed = some_seed();
  fmt::print("MOOR_SEED={}\n", seed);
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed));
  Cluster cluster("8Mi");
  ASSERT_NO_FATAL_FAILURE(cluster.create());
  ASSERT_NO_FATAL_FAILURE(cluster.start_replicas());
  Cluster::EngineOptions old_place;
  old_place.where = "old";
  auto old_engine = cluster.engine(1, {0, 1, 2}, old_place);
  ASSERT_FALSE(old_engine->ready().empty());
  VolumeModel old_model(kSize);
  Load old_load(old_model, seed, {3, 64, 0, 64u << 10, false, true});
  ASSERT_TRUE(old_load.connect(cluster.uri("old"))) << old_load.failure();
  old_load.run(for_a_while(200));
  // First the replicas stop reading, so that requests pile up on the way to them; then the engine, so that
  // they pile up on the way to it.
  for (int i = 0; i < Cluster::kReplicas; ++i) cluster.signal_replica(i, SIGSTOP);
  old_load.run(for_a_while(100));
  old_engine->signal(SIGSTOP);
  old_load.run(for_a_while(100));
  const std::vector<Tag> acknowledged = old_model.now;

  // The new engine's HELLO lies behind all that when the replicas wake up.
  auto new_engine = cluster.begin_engine(2, {0, 1, 2}, {});
  for (int i = 0; i < Cluster::kReplicas; ++i) cluster.signal_replica(i, SIGCONT);
  new_engine->await_ready();
  ASSERT_FALSE(new_engine->ready().empty());
  std::string failure;
  const std::vector<Tag> taken_over = Load::read_all(cluster.uri(), kSize, failure);
  ASSERT_EQ(failure, "");
  VolumeModel model = old_model;
  ASSERT_EQ(model.adopt(taken_over, false), "");
  Load load(model, seed + 1, {2, 32, 0, 64u << 10});
  load.next_tag = old_load.next_tag;
  ASSERT_TRUE(load.connect(cluster.uri())) << load.failure();
  load.run(for_a_while(200));

  old_engine->signal(SIGCONT);
  old_load.run(for_a_while(50));
  EXPECT_EQ(old_engine->wait(), 3) << "it must end as superseded";
  old_load.drain();
  load.run(for_a_while(100));
  ASSERT_TRUE(load.flush()) << load.failure();
  EXPECT_EQ(load.failure(), "");
  // An answer that was under way before the fence may still arrive; then the write was there when it fell.
  std::uint64_t late = 0;
  for (std::uint64_t s = 0; s < taken_over.size(); ++s) {
    if (old_model.now[s] == acknowledged[s]) continue;
    ++late;
    ASSERT_EQ(old_model.now[s], taken_over[s]) << "acknowledged after the fence and not there, sector " << s;
  }
  fmt::print("{} requests of the old engine, {} sectors answered late\n", old_load.requests(), late);
  load.disconnect();
  old_load.disconnect();
  new_engine->signal(SIGTERM);
  EXPECT_EQ(new_engine->wait(), 0);
  cluster.stop_replicas();
  for (int i = 0; i < Cluster::kReplicas; ++i) {
    const auto found = read_offline(cluster.directory(i));
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(*found == model.now) << Cluster::name(i) << " holds what the new engine never acknowledged";
  }
}

TEST(Fencing, WhoeverIsNotTheNewestIsRefusedAndDisturbsNobody) {
  Cluster cluster("8Mi");
  ASSERT_NO_FATAL_FAILURE(cluster.create("secret"));
  ASSERT_NO_FATAL_FAILURE(cluster.start_replicas());
  auto engine = cluster.engine(5, {0, 1, 2});
  ASSERT_FALSE(engine->ready().empty());
  VolumeModel model(kSize);
  Load load(model, 1, {2, 16, 0, 64u << 10});
  ASSERT_TRUE(load.connect(cluster.uri())) << load.failure();
  load.run(for_a_while(50));
  for (int i = 0; i < Cluster::kReplicas; ++i) {
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(4, "e5", 99, "secret"))) << "an older epoch";
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(5, "other", 99, "secret"))) << "another engine";
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(5, "e5", 1, "secret"))) << "an equal session";
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(5, "e5", 0, "secret"))) << "an older session";
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(6, "e6", 1, "guess"))) << "a wrong token";
    EXPECT_FALSE(is_taken(cluster.address(i), hello_of(6, "e6", 1, ""))) << "no token";
  }
  // The same as processes.
  Cluster::EngineOptions other;
  other.where = "other";
  EXPECT_EQ(cluster.engine(4, {0, 1, 2}, other)->wait(), 3);
  other.id = "twin";
  EXPECT_EQ(cluster.engine(5, {0, 1, 2}, other)->wait(), 3);
  load.run(for_a_while(50));
  ASSERT_TRUE(load.flush()) << load.failure();
  EXPECT_EQ(load.failure(), "");
  load.disconnect();
  engine->signal(SIGTERM);
  EXPECT_EQ(engine->wait(), 0);
}

class FloorPower : public ::testing::TestWithParam<const char*> {};

TEST_P(FloorPower, TheFloorSurvivesAPowerCutRightAfterItWasRaised) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a file system and shut it down";
  if (!moor::testing_support::private_mounts())
    GTEST_SKIP() << "mounts cannot be made private here (the root is no mount point, as in a chroot)";
  TemporaryDirectory temporary;
  moor::testing_support::LoopFileSystem disk(temporary.path(), GetParam());
  if (!disk.make() || !disk.mount()) GTEST_SKIP() << "no " << GetParam() << " on a loop device here";
  Cluster cluster("8Mi", disk.path().string());
  ASSERT_NO_FATAL_FAILURE(cluster.create());
  for (Epoch epoch = 10; epoch < 14; ++epoch) {
    ASSERT_NO_FATAL_FAILURE(cluster.start_replica(0));
    EXPECT_FALSE(is_taken(cluster.address(0), hello_of(epoch - 2, "old", 9, "")) && epoch > 10)
        << "the floor of epoch " << epoch - 1 << " is forgotten";
    nbd_handle* handle = say(cluster.address(0), hello_of(epoch, "new", 1, ""));
    ASSERT_TRUE(handle != nullptr);
    ASSERT_TRUE(disk.shut_down());
    cluster.kill_replica(0);
    nbd_close(handle);
    ASSERT_TRUE(disk.unmount() && disk.mount());
  }
}

INSTANTIATE_TEST_SUITE_P(Ext4, FloorPower, ::testing::Values("ext4"));
INSTANTIATE_TEST_SUITE_P(Xfs, FloorPower, ::testing::Values("xfs"));

}  // namespace moor::block::e2e
