// The store's promises one by one: faults of the disk, damage, many snapshots, crash points of each chain
// operation.
#include <gtest/gtest.h>
#include <random>

#include "block/core/crc32c.h"
#include "block/core/nbd_protocol.h"
#include "block/core/replica_check.h"
#include "block/core/replica_testing.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kStoreBytes = 16u << 20;

std::unique_ptr<SimDisk> make_disk(std::uint64_t seed, std::uint64_t size = kStoreBytes) {
  auto disk = std::make_unique<SimDisk>(seed);
  ReplicaCreate options;
  options.size = size;
  EXPECT_TRUE(SimReplica::create(*disk, options).ok());
  return disk;
}

Task<void> keep_report(DiskFiles& files, BufferPool& pool, CheckReport& report) {
  report = co_await check_replica(files, pool);
}

CheckReport check(SimDisk& disk) {
  CheckReport report;
  Runner runner;
  BufferPool pool;
  DiskFiles files(disk, runner);
  runner.spawn(keep_report(files, pool, report));
  do {
    runner.run();
  } while (disk.step());
  runner.run();
  return report;
}

TEST(Crc32c, KnownValuesAndBothFormsAgree) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  for (std::size_t size : {0u, 1u, 7u, 8u, 9u, 63u, 4096u, 4099u}) {
    const auto bytes = pattern(size, 3);
    EXPECT_EQ(crc32c(bytes), crc32c_portable(bytes)) << size;
  }
}

TEST(ReplicaStore, AnyAlignmentReadsBackWhatWasWritten) {
  const auto disk = make_disk(1);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  std::vector<std::byte> image(64 * 1024);
  const std::vector<Extent> writes{{0, 1},       {4095, 2},  {5000, 10000},
                                   {8192, 4096}, {511, 513}, {20000, 12345}};
  std::uint8_t seed = 1;
  for (const Extent& extent : writes) {
    const auto bytes = pattern(extent.length, seed++);
    ASSERT_EQ(world.write(peer, extent.offset, bytes), 0u);
    std::copy(bytes.begin(), bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(extent.offset));
    ASSERT_EQ(world.read(peer, 0, 65536), image);
  }
  ASSERT_EQ(world.call(peer, SimReplica::request_of(PeerOp::trim, {6001, 9001}))->reply.error, 0u);
  std::fill(image.begin() + 6001, image.begin() + 15002, std::byte{0});
  EXPECT_EQ(world.read(peer, 0, 65536), image);
  EXPECT_EQ(world.read(peer, 777, 5555),
            std::vector<std::byte>(image.begin() + 777, image.begin() + 777 + 5555));
}

TEST(ReplicaStore, RequestsBeyondTheEndAreRefused) {
  const auto disk = make_disk(1);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  EXPECT_EQ(world.write(peer, kStoreBytes - 512, pattern(1024, 1)), nbd::kErrInvalid);
  EXPECT_EQ(world.call(peer, SimReplica::request_of(PeerOp::read, {UINT64_MAX - 5, 100}))->reply.error,
            nbd::kErrInvalid);
  EXPECT_EQ(world.call(peer, SimReplica::request_of(PeerOp::trim, {kStoreBytes, 1}))->reply.error,
            nbd::kErrInvalid);
}

TEST(ReplicaStore, ParentsShineThroughAndZerosHideThem) {
  const auto disk = make_disk(2);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  const auto old_bytes = pattern(32768, 1);
  ASSERT_EQ(world.write(peer, 0, old_bytes), 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
  ASSERT_EQ(world.write(peer, 512, pattern(512, 9)), 0u);
  ASSERT_EQ(world.call(peer, SimReplica::request_of(PeerOp::trim, {8192, 4096}))->reply.error, 0u);
  auto expected = old_bytes;
  const auto piece = pattern(512, 9);
  std::copy(piece.begin(), piece.end(), expected.begin() + 512);
  std::fill(expected.begin() + 8192, expected.begin() + 12288, std::byte{0});
  EXPECT_EQ(world.read(peer, 0, 32768), expected);
  const auto status =
      world.call(peer, SimReplica::request_of(PeerOp::block_status, {0, 65536}))->reply.extents;
  const std::vector<BlockStatus> wanted{
      {8192, false, false}, {4096, true, true}, {20480, false, false}, {32768, true, true}};
  EXPECT_EQ(status, wanted);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_revert, "s1").error, 0u);
  EXPECT_EQ(world.read(peer, 0, 32768), old_bytes);
}

TEST(ReplicaStore, ZeroesThatKeepTheirSpaceAreWritten) {
  const auto disk = make_disk(2);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  PeerRequest zeroes = SimReplica::request_of(PeerOp::write_zeroes, {4096, 8192});
  zeroes.no_hole = true;
  zeroes.fast_zero = true;
  EXPECT_EQ(world.call(peer, zeroes)->reply.error, nbd::kErrNotSupported);
  zeroes.fast_zero = false;
  EXPECT_EQ(world.call(peer, zeroes)->reply.error, 0u);
  const auto status =
      world.call(peer, SimReplica::request_of(PeerOp::block_status, {4096, 8192}))->reply.extents;
  EXPECT_EQ(status, (std::vector<BlockStatus>{{8192, false, false}}));
}

TEST(ReplicaStore, NoSpaceIsAnErrorAndHarmsNothing) {
  const auto disk = make_disk(3);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  const auto bytes = pattern(65536, 1);
  ASSERT_EQ(world.write(peer, 0, bytes, true), 0u);
  disk->set_capacity(disk->used_bytes() + 8192);
  EXPECT_EQ(world.write(peer, 1u << 20, pattern(65536, 2)), nbd::kErrNoSpace);
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, nbd::kErrNoSpace);
  EXPECT_EQ(world.write(peer, 0, pattern(4096, 3)), 0u) << "what has its space can still be written";
  EXPECT_EQ(world.read(peer, 4096, 61440), std::vector<std::byte>(bytes.begin() + 4096, bytes.end()));
  EXPECT_EQ(world.read(peer, 1u << 20, 65536), std::vector<std::byte>(65536));
  disk->set_capacity(UINT64_MAX);
  EXPECT_EQ(world.flush(peer), 0u);
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
  world.crash();
  ASSERT_TRUE(world.start().ok());
  EXPECT_EQ(world.read(world.connect(2), 4096, 61440),
            std::vector<std::byte>(bytes.begin() + 4096, bytes.end()));
}

TEST(ReplicaStore, AfterAFailedSyncNothingIsServedUntilTheProcessStartsAnew) {
  for (const char* file : {"layer.1.data", "layer.1.map", "volume.meta", "dirty.log", "/"}) {
    const auto disk = make_disk(4);
    SimReplica world(*disk);
    ASSERT_TRUE(world.start().ok());
    const PeerId peer = world.connect(1);
    ASSERT_EQ(world.write(peer, 0, pattern(4096, 1), true), 0u);
    disk->fail_syncs_of(file);
    // Touches a new region, a new block and the metadata.
    const std::uint32_t written = world.write(peer, 8u << 20, pattern(4096, 2), true);
    const bool meta_only = std::string(file) == "volume.meta" || std::string(file) == "/";
    if (meta_only) {
      EXPECT_EQ(written, 0u);
      // The connection may end before the answer does.
      const auto heard = world.call(peer, world.snapshot_of(PeerOp::snapshot_create, "s"));
      EXPECT_TRUE(!heard || heard->reply.error != 0) << file;
    } else {
      EXPECT_EQ(written, nbd::kErrIo) << file;
    }
    // The disk would now say that all is well. The replica must not believe it.
    disk->fail_syncs_of("");
    EXPECT_EQ(world.closed.at(peer), PeerRefusal::damaged) << file;
    EXPECT_EQ(world.refused.at(world.connect(2)), PeerRefusal::damaged) << file;
    EXPECT_EQ(world.refused.at(world.connect_plain()), PeerRefusal::damaged) << file;
    world.crash();
    ASSERT_TRUE(world.start().ok());
    EXPECT_EQ(world.read(world.connect(3), 0, 4096), pattern(4096, 1));
  }
}

TEST(ReplicaStore, BitFlipsInMetadataMapsAndDirtyLogAreFound) {
  const auto disk = make_disk(5);
  {
    SimReplica world(*disk);
    ASSERT_TRUE(world.start().ok());
    const PeerId peer = world.connect(1);
    ASSERT_EQ(world.write(peer, 0, pattern(65536, 1)), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
    ASSERT_EQ(world.write(peer, 9u << 20, pattern(65536, 2), true), 0u);
    ASSERT_TRUE(world.stop().ok());
  }
  ASSERT_TRUE(check(*disk).problems.empty());
  std::mt19937_64 random(11);
  for (const std::string name : {"volume.meta", "layer.1.map", "layer.2.map", "dirty.log"}) {
    for (int i = 0; i < 40; ++i) {
      const auto copy = disk->clone(1);
      const std::uint64_t bit = random() % (copy->size_of(name) * 8);
      copy->flip_bit(name, bit);
      SimReplica world(*copy);
      const Result<void> started = world.start();
      ASSERT_FALSE(started.ok()) << name << " bit " << bit;
      EXPECT_TRUE(started.is(Errc::corrupt) || started.is(Errc::unsupported)) << started.error().message;
      EXPECT_FALSE(check(*copy).problems.empty()) << name << " bit " << bit;
    }
  }
  // A whole sector of a map that turned into zeros is no bit flip, and found all the same.
  for (const std::string name : {"layer.1.map", "layer.2.map"}) {
    const auto copy = disk->clone(1);
    copy->put(name, std::vector<std::byte>(copy->size_of(name)));
    SimReplica world(*copy);
    EXPECT_TRUE(world.start().is(Errc::corrupt)) << name;
  }
}

TEST(ReplicaStore, RottenBlocksOfSummedLayersAreErrorsAndNeverData) {
  const auto disk = make_disk(6);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  ASSERT_EQ(world.write(peer, 0, pattern(65536, 1)), 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
  world.pump();  // the checksums are done
  ASSERT_TRUE(world.replica().answer().chain.at(0).summed);
  EXPECT_EQ(world.read(peer, 0, 65536), pattern(65536, 1));
  disk->flip_bit("layer.1.data", (5 * 4096 + 77) * 8 + 3);
  EXPECT_EQ(world.call(peer, SimReplica::request_of(PeerOp::read, {0, 65536}))->reply.error, nbd::kErrIo);
  EXPECT_EQ(world.call(peer, SimReplica::request_of(PeerOp::read, {5 * 4096, 512}))->reply.error,
            nbd::kErrIo);
  // A write into a part of it would make rotten bytes look good: it fails too.
  EXPECT_EQ(world.write(peer, 5 * 4096, pattern(512, 2)), nbd::kErrIo);
  EXPECT_EQ(world.call(peer, SimReplica::request_of(PeerOp::read, {0, 5 * 4096}))->reply.error, 0u);
  EXPECT_EQ(world.write(peer, 5 * 4096, pattern(4096, 2)), 0u);
  EXPECT_EQ(world.read(peer, 5 * 4096, 4096), pattern(4096, 2));
  EXPECT_EQ(check(*disk->clone(1)).problems.size(), 1u);
  // Nor does a purge carry it on.
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_revert, "s1").error, 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_mark_removed, "s1").error, 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_purge, "s1").error, 0u);
  world.pump();
  EXPECT_FALSE(world.replica().store().purge_progress().error.empty());
  EXPECT_NE(world.replica().store().meta().by_snapshot("s1"), nullptr);
}

TEST(ReplicaStore, ANewerFormatIsRefusedByName) {
  const auto disk = make_disk(7);
  auto bytes = disk->get("volume.meta");
  bytes[8] = std::byte{99};
  disk->put("volume.meta", bytes);
  SimReplica world(*disk);
  const Result<void> started = world.start();
  ASSERT_TRUE(started.is(Errc::unsupported));
  EXPECT_NE(started.error().message.find("format 99"), std::string::npos);
}

TEST(ReplicaStore, AnyBytesAsMetadataGiveAnErrorAndNothingElse) {
  std::mt19937_64 random(5);
  const auto disk = make_disk(8);
  const auto good = disk->get("volume.meta");
  for (int i = 0; i < 2000; ++i) {
    auto bytes = good;
    bytes.resize(random() % (good.size() + 20));
    for (int k = 0; k < 4 && !bytes.empty(); ++k)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (bytes != good) {
      EXPECT_FALSE(decode_meta(bytes).ok());
    }
  }
}

// Every numbered crash point of each chain operation: afterwards it has happened with all it records, or not
// at all.
TEST(ReplicaStore, ChainOperationsAreAtomicAtEveryCrashPoint) {
  const auto base = make_disk(9);
  const auto first = pattern(65536, 1);
  const auto second = pattern(32768, 2);
  {
    SimReplica world(*base);
    ASSERT_TRUE(world.start().ok());
    const PeerId peer = world.connect(1);
    ASSERT_EQ(world.write(peer, 0, first), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
    ASSERT_EQ(world.write(peer, 0, second), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s2").error, 0u);
    ASSERT_EQ(world.write(peer, 4096, pattern(512, 3), true), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_mark_removed, "s1").error, 0u);
    world.pump();
    ASSERT_TRUE(world.stop().ok());
  }
  auto head = first;
  std::copy(second.begin(), second.end(), head.begin());
  const auto piece = pattern(512, 3);
  std::copy(piece.begin(), piece.end(), head.begin() + 4096);
  for (const PeerOp op : {PeerOp::snapshot_create, PeerOp::snapshot_purge, PeerOp::snapshot_revert}) {
    bool finished = false;
    for (std::uint64_t point = 0; !finished && point < 200; ++point) {
      const auto disk = base->clone(point);
      SimReplica world(*disk);
      ASSERT_TRUE(world.start().ok());
      const PeerId peer = world.connect(2);
      PeerRequest request = world.snapshot_of(op, op == PeerOp::snapshot_create  ? "s3"
                                                  : op == PeerOp::snapshot_purge ? "s1"
                                                                                 : "s2");
      request.snapshot.generation = 7;
      disk->stop_at(disk->operations() + point);
      const bool answered = world.call(peer, request).has_value();
      world.pump();
      finished = !disk->stopped();
      world.crash();
      ASSERT_TRUE(world.start().ok());
      world.pump();  // an interrupted purge goes on by itself
      const ReplicaMeta& meta = world.replica().store().meta();
      const bool happened = meta.generation == 7;
      EXPECT_TRUE(happened || !answered);
      const PeerId reader = world.connect(3);
      auto expected = head;
      if (op == PeerOp::snapshot_revert && happened) {
        expected = first;
        std::copy(second.begin(), second.end(), expected.begin());
      }
      EXPECT_EQ(world.read(reader, 0, 65536), expected) << "point " << point;
      EXPECT_EQ(meta.by_snapshot("s3") != nullptr, op == PeerOp::snapshot_create && happened);
      EXPECT_EQ(meta.by_snapshot("s1") == nullptr, op == PeerOp::snapshot_purge && happened);
      if (op == PeerOp::snapshot_purge && happened) {
        EXPECT_EQ(meta.by_snapshot("s2")->layer.id, request.snapshot.layer_id);
      }
      const CheckReport report = check(*disk->clone(1));
      EXPECT_TRUE(report.problems.empty()) << report.problems.front();
      // The same command again, after a lost answer, is no error and no second effect.
      if (happened && op != PeerOp::snapshot_purge) {
        EXPECT_EQ(world.call(reader, request)->reply.error, 0u);
        EXPECT_EQ(world.read(reader, 0, 65536), expected);
      }
    }
    EXPECT_TRUE(finished);
  }
}

TEST(ReplicaStore, AfterARevertNewerSnapshotsStayOnABranch) {
  const auto disk = make_disk(10);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  ASSERT_EQ(world.write(peer, 0, pattern(4096, 1)), 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
  ASSERT_EQ(world.write(peer, 0, pattern(4096, 2)), 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s2").error, 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_revert, "s1").error, 0u);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s3").error, 0u);
  const auto chain = world.replica().answer().chain;
  ASSERT_EQ(chain.size(), 3u);
  EXPECT_EQ(chain[1].parent, chain[0].id);
  EXPECT_EQ(chain[2].parent, chain[0].id);
  // With two children it cannot be merged away; the leaf of the branch just goes.
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_mark_removed, "s1").error, 0u);
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_purge, "s1").error, nbd::kErrInvalid);
  ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_mark_removed, "s2").error, 0u);
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_purge, "s2").error, 0u);
  world.pump();
  EXPECT_FALSE(disk->exists("layer.2.data"));
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_purge, "s1").error, 0u);
  world.pump();
  EXPECT_EQ(world.replica().answer().chain.size(), 1u);
  EXPECT_EQ(world.read(peer, 0, 4096), pattern(4096, 1));
}

TEST(ReplicaStore, AStopEndsWhateverStepOfAPurgeItMeets) {
  for (std::size_t steps = 0; steps < 80; ++steps) {
    const auto disk = make_disk(steps);
    SimReplica world(*disk);
    ASSERT_TRUE(world.start().ok());
    const PeerId peer = world.connect(1);
    ASSERT_EQ(world.write(peer, 0, pattern(4096, 1)), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
    ASSERT_EQ(world.write(peer, 0, pattern(4096, 2)), 0u);
    world.pump();
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_mark_removed, "s1").error, 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_purge, "s1").error, 0u);
    world.pump_steps(steps);
    ASSERT_TRUE(world.stop().ok()) << "told to stop after " << steps << " steps";
    ASSERT_TRUE(world.start().ok());
    EXPECT_EQ(world.read(world.connect(2), 0, 4096), pattern(4096, 2));
  }
}

TEST(ReplicaStore, ExpandKeepsDataAndSurvivesCrashes) {
  for (std::uint64_t point = 0; point < 16; ++point) {
    const auto disk = make_disk(point);
    SimReplica world(*disk);
    ASSERT_TRUE(world.start().ok());
    const PeerId peer = world.connect(1);
    ASSERT_EQ(world.write(peer, kStoreBytes - 4096, pattern(4096, 1)), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s1").error, 0u);
    disk->stop_at(disk->operations() + point);
    PeerRequest expand;
    expand.op = PeerOp::expand;
    expand.argument = 4 * kStoreBytes;
    const bool answered = world.call(peer, expand).has_value();
    world.crash();
    ASSERT_TRUE(world.start().ok());
    const PeerId again = world.connect(2);
    const std::uint64_t size = world.accepted.at(again).size;
    EXPECT_TRUE(size == 4 * kStoreBytes || (size == kStoreBytes && !answered));
    EXPECT_EQ(world.read(again, kStoreBytes - 4096, 4096), pattern(4096, 1));
    if (size == kStoreBytes) continue;
    EXPECT_EQ(world.write(again, 4 * kStoreBytes - 4096, pattern(4096, 2), true), 0u);
    world.crash();
    ASSERT_TRUE(world.start().ok());
    EXPECT_EQ(world.read(world.connect(3), 4 * kStoreBytes - 4096, 4096), pattern(4096, 2));
  }
}

TEST(ReplicaStore, TwoHundredFiftySnapshotsReadLikeOneAndNoMoreAreTaken) {
  const auto disk = make_disk(12);
  SimReplica world(*disk);
  ASSERT_TRUE(world.start().ok());
  const PeerId peer = world.connect(1);
  for (std::uint64_t i = 0; i < kMaxSnapshots; ++i) {
    ASSERT_EQ(world.write(peer, i * 4096, pattern(4096, static_cast<std::uint8_t>(i))), 0u);
    ASSERT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "s" + std::to_string(i)).error, 0u);
  }
  EXPECT_EQ(world.snapshot(peer, PeerOp::snapshot_create, "one-more").error, nbd::kErrInvalid);
  world.pump();
  ASSERT_TRUE(world.start().ok());
  world.pump();
  const PeerId again = world.connect(2);
  for (std::uint64_t i = 0; i < kMaxSnapshots; ++i) {
    // One block, one read of one file (and at most one page of sums), whatever the depth.
    const std::uint64_t before = disk->reads();
    ASSERT_EQ(world.read(again, i * 4096, 4096), pattern(4096, static_cast<std::uint8_t>(i)));
    EXPECT_LE(disk->reads() - before, 2u);
  }
}

}  // namespace
}  // namespace moor::block
