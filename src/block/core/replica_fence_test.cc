#include <gtest/gtest.h>

#include "block/core/nbd_protocol.h"
#include "block/core/replica_testing.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kSize = 16u << 20;

class Fence : public ::testing::Test {
 protected:
  void make(std::string token = "", std::string volume = "") {
    ReplicaCreate options;
    options.size = kSize;
    options.token = std::move(token);
    options.volume = std::move(volume);
    ASSERT_TRUE(SimReplica::create(disk_, options).ok());
    ASSERT_TRUE(world_.start().ok());
  }
  SimDisk disk_{7};
  SimReplica world_{disk_};
};

TEST_F(Fence, OlderEpochIsRefusedAlsoAfterAPowerCutRightAfterTheAnswer) {
  make();
  const PeerId newer = world_.connect(5);
  ASSERT_TRUE(world_.accepted.contains(newer));
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  const PeerId older = world_.connect(4, "e0");
  EXPECT_EQ(world_.refused.at(older), PeerRefusal::old_epoch);
}

TEST_F(Fence, TheFloorIsDurableBeforeTheAnswer) {
  make();
  // At every crash point of a HELLO: if the answer was out, the floor survives.
  for (std::uint64_t point = 0; point < 20; ++point) {
    SimDisk disk(point);
    ReplicaCreate options;
    options.size = kSize;
    ASSERT_TRUE(SimReplica::create(disk, options).ok());
    SimReplica world(disk);
    ASSERT_TRUE(world.start().ok());
    disk.stop_at(disk.operations() + point);
    const PeerId peer = world.connect(9);
    const bool answered = world.accepted.contains(peer);
    world.crash();
    ASSERT_TRUE(world.start().ok());
    const Epoch kept = world.replica().store().meta().floor.epoch;
    if (answered) {
      EXPECT_EQ(kept, 9u);
    } else {
      EXPECT_TRUE(kept == 0 || kept == 9);
    }
    if (point > 10) {
      EXPECT_TRUE(answered);
    }
  }
}

TEST_F(Fence, SameEpochOfAnotherEngineIsRefused) {
  make();
  world_.connect(5, "e1");
  EXPECT_EQ(world_.refused.at(world_.connect(5, "e2", 99)), PeerRefusal::other_engine);
}

TEST_F(Fence, AnOlderOrEqualSessionIsRefusedAndANewerOneTakesOver) {
  make();
  const PeerId first = world_.connect(5, "e1", 3);
  EXPECT_EQ(world_.refused.at(world_.connect(5, "e1", 2)), PeerRefusal::old_session);
  EXPECT_EQ(world_.refused.at(world_.connect(5, "e1", 3)), PeerRefusal::old_session);
  const PeerId second = world_.connect(5, "e1", 4);
  EXPECT_TRUE(world_.accepted.contains(second));
  EXPECT_EQ(world_.closed.at(first), PeerRefusal::old_session);
}

TEST_F(Fence, WrongTokenRaisesNothing) {
  make("secret");
  Hello hello = SimReplica::hello_of(50);
  for (const char* token : {"", "secre", "secret2", "Secret"}) {
    hello.token = token;
    const PeerId peer = world_.begin_hello(hello);
    world_.pump();
    EXPECT_EQ(world_.refused.at(peer), PeerRefusal::wrong_token) << token;
  }
  EXPECT_EQ(world_.replica().store().meta().floor.epoch, 0u);
  hello.epoch = 1;
  hello.token = "secret";
  const PeerId peer = world_.begin_hello(hello);
  world_.pump();
  EXPECT_TRUE(world_.accepted.contains(peer));
}

TEST_F(Fence, WrongVolumeIsRefused) {
  make("", "v1");
  Hello hello = SimReplica::hello_of(1);
  hello.volume = "v2";
  const PeerId peer = world_.begin_hello(hello);
  world_.pump();
  EXPECT_EQ(world_.refused.at(peer), PeerRefusal::wrong_volume);
}

TEST_F(Fence, InspectRaisesNothingAndReadsNoData) {
  make();
  const PeerId engine = world_.connect(5);
  Hello hello = SimReplica::hello_of(1000, "nobody");
  hello.mode = HelloMode::inspect;
  const PeerId peer = world_.begin_hello(hello);
  world_.pump();
  EXPECT_TRUE(world_.accepted.contains(peer));
  EXPECT_FALSE(world_.closed.contains(engine));
  EXPECT_EQ(world_.replica().store().meta().floor.epoch, 5u);
  EXPECT_EQ(world_.call(peer, SimReplica::request_of(PeerOp::read, {0, 4096}))->reply.error, nbd::kErrPerm);
  EXPECT_EQ(world_.call(peer, SimReplica::request_of(PeerOp::flush, {}))->reply.error, nbd::kErrPerm);
  EXPECT_EQ(world_.call(peer, SimReplica::request_of(PeerOp::chain, {}))->reply.state->size, kSize);
}

TEST_F(Fence, ANewerHelloWaitsForWhatIsInFlightAndIgnoresWhatComesLater) {
  make();
  const PeerId old_peer = world_.connect(5, "e1");
  ASSERT_EQ(world_.write(old_peer, 0, pattern(4096, 1)), 0u);
  // A write of the old engine hangs in the disk.
  disk_.hold_back(DiskOp::pwrite);
  const auto in_flight = pattern(8192, 2);
  const auto id = world_.submit(old_peer, SimReplica::request_of(PeerOp::write, {0, 8192}), in_flight);
  world_.pump();
  const PeerId new_peer = world_.begin_hello(SimReplica::hello_of(6, "e2"));
  world_.pump();
  EXPECT_FALSE(world_.accepted.contains(new_peer)) << "answered while an older write was under way";
  EXPECT_EQ(world_.replica().store().meta().floor.epoch, 5u);
  // What still arrives on the old connection is not applied.
  const auto late =
      world_.submit(old_peer, SimReplica::request_of(PeerOp::write, {0, 4096}), pattern(4096, 3));
  disk_.hold_back({});
  world_.pump();
  EXPECT_TRUE(world_.accepted.contains(new_peer));
  EXPECT_EQ(world_.closed.at(old_peer), PeerRefusal::superseded);
  EXPECT_EQ(world_.replies.at(id).reply.error, 0u);
  EXPECT_FALSE(world_.replies.contains(late));
  EXPECT_EQ(world_.read(new_peer, 0, 8192), in_flight);
  // Nor on the closed one.
  const auto later =
      world_.submit(old_peer, SimReplica::request_of(PeerOp::write, {0, 4096}), pattern(4096, 4));
  world_.pump();
  EXPECT_FALSE(world_.replies.contains(later));
  EXPECT_EQ(world_.read(new_peer, 0, 8192), in_flight);
}

TEST_F(Fence, AClosedConnectionIsDrainedToo) {
  make();
  const PeerId old_peer = world_.connect(5, "e1");
  ASSERT_EQ(world_.write(old_peer, 0, pattern(4096, 1)), 0u);
  disk_.hold_back(DiskOp::pwrite);
  world_.submit(old_peer, SimReplica::request_of(PeerOp::write, {0, 4096}), pattern(4096, 2));
  world_.pump();
  world_.replica().closed(old_peer);
  const PeerId new_peer = world_.begin_hello(SimReplica::hello_of(6, "e2"));
  world_.pump();
  EXPECT_FALSE(world_.accepted.contains(new_peer));
  disk_.hold_back({});
  world_.pump();
  EXPECT_TRUE(world_.accepted.contains(new_peer));
  EXPECT_EQ(world_.read(new_peer, 0, 4096), pattern(4096, 2));
}

TEST_F(Fence, OfTwoWaitingHellosTheNewerWins) {
  make();
  const PeerId old_peer = world_.connect(5, "e1");
  ASSERT_EQ(world_.write(old_peer, 0, pattern(4096, 1)), 0u);
  disk_.hold_back(DiskOp::pwrite);
  world_.submit(old_peer, SimReplica::request_of(PeerOp::write, {0, 4096}), pattern(4096, 2));
  world_.pump();
  const PeerId middle = world_.begin_hello(SimReplica::hello_of(6, "e2"));
  const PeerId newest = world_.begin_hello(SimReplica::hello_of(7, "e3"));
  disk_.hold_back({});
  world_.pump();
  EXPECT_EQ(world_.refused.at(middle), PeerRefusal::superseded);
  EXPECT_TRUE(world_.accepted.contains(newest));
  EXPECT_EQ(world_.replica().store().meta().floor.epoch, 7u);
}

TEST_F(Fence, ContinuityComesOnlyByTheEnginesWordAndEndsWithTheProcess) {
  make();
  const PeerId first = world_.connect(5);
  EXPECT_EQ(world_.accepted.at(first).served, 0u);
  PeerRequest mark;
  mark.op = PeerOp::mark_served;
  mark.argument = 4;
  EXPECT_NE(world_.call(first, mark)->reply.error, 0u);
  mark.argument = 5;
  EXPECT_EQ(world_.call(first, mark)->reply.error, 0u);
  const PeerId second = world_.connect(6, "e2");
  EXPECT_EQ(world_.accepted.at(second).served, 5u);
  const PeerId third = world_.connect(7, "e3");
  EXPECT_EQ(world_.accepted.at(third).served, 5u) << "a HELLO alone does not make a member continuous";
  world_.crash(false);
  ASSERT_TRUE(world_.start().ok());
  const PeerId fourth = world_.connect(8, "e4");
  EXPECT_EQ(world_.accepted.at(fourth).served, 0u);
}

TEST_F(Fence, WroteAndDirtyAreDurableBeforeTheFirstWriteOfAnEpoch) {
  for (std::uint64_t point = 0; point < 24; ++point) {
    SimDisk disk(point);
    ReplicaCreate options;
    options.size = kSize;
    ASSERT_TRUE(SimReplica::create(disk, options).ok());
    SimReplica world(disk);
    ASSERT_TRUE(world.start().ok());
    const PeerId first = world.connect(1);
    ASSERT_EQ(world.write(first, 5u << 20, pattern(4096, 1), true), 0u);
    const PeerId second = world.connect(2, "e2");
    disk.stop_at(disk.operations() + point);
    world.submit(second, SimReplica::request_of(PeerOp::write, {5u << 20, 4096}), pattern(4096, 2));
    world.submit(second, SimReplica::request_of(PeerOp::write, {9u << 20, 4096}), pattern(4096, 3));
    world.pump();
    world.crash();
    ASSERT_TRUE(world.start().ok());
    const PeerId third = world.connect(3, "e3");
    const HelloAnswer& answer = world.accepted.at(third);
    EXPECT_FALSE(answer.clean);
    if (world.read(third, 5u << 20, 4096) != pattern(4096, 1)) {
      EXPECT_EQ(answer.wrote, 2u);
    }
    EXPECT_EQ(answer.dirty.front(), 1u);
    if (point == 23) {
      EXPECT_EQ(answer.wrote, 2u);
      EXPECT_EQ(answer.dirty, (std::vector<std::uint64_t>{1, 2}));
    }
  }
}

TEST_F(Fence, WroteIsDurableThoughTheRegionIsDirtyAlready) {
  make();
  const PeerId first = world_.connect(1);
  ASSERT_EQ(world_.write(first, 0, pattern(4096, 1)), 0u);
  const PeerId second = world_.connect(2, "e2");
  EXPECT_EQ(world_.accepted.at(second).wrote, 1u) << "a HELLO writes nothing";
  ASSERT_EQ(world_.write(second, 0, pattern(4096, 2)), 0u);
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  EXPECT_EQ(world_.replica().answer().wrote, 2u);
  EXPECT_EQ(world_.replica().answer().dirty, (std::vector<std::uint64_t>{0}));
}

TEST_F(Fence, ACopyMarksItsRegionAndIsNobodysWrite) {
  make();
  const PeerId first = world_.connect(1);
  ASSERT_EQ(world_.write(first, 0, pattern(4096, 1)), 0u);
  const PeerId second = world_.connect(2, "e2");
  PeerRequest copy = SimReplica::request_of(PeerOp::write, {9u << 20, 4096});
  copy.copy = true;
  EXPECT_EQ(world_.call(second, copy, pattern(4096, 2))->reply.error, 0u);
  copy = SimReplica::request_of(PeerOp::write_zeroes, {0, 4096});
  copy.copy = true;
  EXPECT_EQ(world_.call(second, copy)->reply.error, 0u);
  EXPECT_EQ(world_.read(second, 9u << 20, 4096), pattern(4096, 2));
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  EXPECT_EQ(world_.replica().answer().wrote, 1u);
  EXPECT_EQ(world_.replica().answer().dirty, (std::vector<std::uint64_t>{0, 2}));
}

TEST_F(Fence, WroteIsStoredOnTheEnginesWordAndOnlyRises) {
  make();
  PeerRequest store;
  store.op = PeerOp::store_wrote;
  Epoch epoch = 4;
  for (const Epoch argument : {3u, 2u}) {
    const PeerId peer = world_.connect(++epoch);
    store.argument = argument;
    EXPECT_EQ(world_.call(peer, store)->reply.error, 0u);
    world_.crash();
    ASSERT_TRUE(world_.start().ok());
    EXPECT_EQ(world_.replica().answer().wrote, 3u);
  }
  const PeerId peer = world_.connect(++epoch);
  store.argument = epoch + 1;
  EXPECT_NE(world_.call(peer, store)->reply.error, 0u) << "above the engine's own epoch";
}

TEST_F(Fence, DirtyRegionsAreClearedOnlyWhenNothingInThemIsUnsynced) {
  make();
  const PeerId peer = world_.connect(1);
  ASSERT_EQ(world_.write(peer, 0, pattern(4096, 1)), 0u);
  PeerRequest clear;
  clear.op = PeerOp::clear_dirty;
  clear.regions = {0, 1, 77};
  EXPECT_EQ(world_.call(peer, clear)->reply.error, 0u);
  EXPECT_EQ(world_.replica().answer().dirty, (std::vector<std::uint64_t>{0}));
  ASSERT_EQ(world_.flush(peer), 0u);
  EXPECT_EQ(world_.call(peer, clear)->reply.error, 0u);
  EXPECT_TRUE(world_.replica().answer().dirty.empty());
  // The next write marks it again, durably.
  ASSERT_EQ(world_.write(peer, 0, pattern(4096, 2)), 0u);
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  EXPECT_EQ(world_.replica().answer().dirty, (std::vector<std::uint64_t>{0}));
}

TEST_F(Fence, PlainClientsWorkOnlyWithoutTokenAndWithoutEngine) {
  make();
  const PeerId plain = world_.connect_plain();
  ASSERT_TRUE(world_.accepted.contains(plain));
  EXPECT_EQ(world_.write(plain, 4096, pattern(512, 1)), 0u);
  EXPECT_EQ(world_.call(plain, world_.snapshot_of(PeerOp::snapshot_create, "s"))->reply.error, nbd::kErrPerm);
  const PeerId engine = world_.connect(1);
  EXPECT_TRUE(world_.accepted.contains(engine));
  EXPECT_EQ(world_.closed.at(plain), PeerRefusal::superseded);
  EXPECT_EQ(world_.refused.at(world_.connect_plain()), PeerRefusal::other_engine);
  world_.replica().closed(engine);
  EXPECT_TRUE(world_.accepted.contains(world_.connect_plain()));

  SimDisk other(3);
  ReplicaCreate options;
  options.size = kSize;
  options.token = "t";
  ASSERT_TRUE(SimReplica::create(other, options).ok());
  SimReplica guarded(other);
  ASSERT_TRUE(guarded.start().ok());
  EXPECT_EQ(guarded.refused.at(guarded.connect_plain()), PeerRefusal::wrong_token);
}

TEST_F(Fence, GenerationsAreDurableAndNeverGoBack) {
  make();
  const PeerId peer = world_.connect(1);
  PeerRequest store;
  store.op = PeerOp::store_generation;
  store.argument = 12;
  EXPECT_EQ(world_.call(peer, store)->reply.error, 0u);
  store.argument = 11;
  EXPECT_EQ(world_.call(peer, store)->reply.error, nbd::kErrInvalid);
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  EXPECT_EQ(world_.replica().answer().generation, 12u);
}

TEST_F(Fence, AStopEndsWhileTwoEnginesWaitForAThirdToDrain) {
  make();
  const PeerId peer = world_.connect(1);
  const auto bytes = pattern(4096, 1);
  world_.submit(peer, SimReplica::request_of(PeerOp::write, {0, bytes.size()}), bytes);
  world_.begin_hello(SimReplica::hello_of(2, "e2"));
  world_.begin_hello(SimReplica::hello_of(3, "e3"));
  ASSERT_TRUE(world_.stop().ok()) << "those that come in wait for each other";
  ASSERT_TRUE(world_.start().ok());
  EXPECT_EQ(world_.read(world_.connect(4), 0, 4096), bytes);
}

TEST_F(Fence, ACleanStopIsRecordedAndTheNextWriteTakesItBack) {
  make();
  PeerId peer = world_.connect(1);
  ASSERT_EQ(world_.write(peer, 0, pattern(4096, 1)), 0u);
  ASSERT_TRUE(world_.stop().ok());
  EXPECT_EQ(world_.closed.at(peer), PeerRefusal::shutting_down);
  world_.crash();
  ASSERT_TRUE(world_.start().ok());
  EXPECT_TRUE(world_.replica().answer().clean);
  peer = world_.connect(2);
  EXPECT_EQ(world_.read(peer, 0, 4096), pattern(4096, 1));
  ASSERT_EQ(world_.write(peer, 0, pattern(4096, 2)), 0u);
  EXPECT_FALSE(world_.replica().answer().clean);
}

}  // namespace
}  // namespace moor::block
