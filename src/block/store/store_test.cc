// The replica on real files: the same promises as on SimDisk, as far as a test without power cuts can see
// them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "block/core/replica.h"
#include "block/core/replica_check.h"
#include "block/store/directory.h"

namespace moor::block {
namespace {

class Store : public ::testing::Test, public ReplicaSink {
 protected:
  void SetUp() override {
    char name[] = "/var/tmp/moor-store-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override {
    replica_.reset();
    std::filesystem::remove_all(root_);
  }

  std::string path() const { return root_ + "/r1"; }

  void make() {
    auto directory = Directory::create(path());
    ASSERT_TRUE(directory.ok());
    PlainDisk disk(**directory);
    Runner runner;
    DiskFiles files(disk, runner);
    Result<void> outcome = make_error(Errc::internal, "not run");
    ReplicaCreate options;
    options.size = 64u << 20;
    runner.spawn(keep(ReplicaStore::create(files, options), outcome));
    drive(disk, [&] { runner.run(); });
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  }
  template <class T>
  static Task<void> keep(Task<T> work, T& into) {
    into = co_await std::move(work);
  }
  template <class Run>
  static void drive(PlainDisk& disk, Run run) {
    do {
      run();
    } while (disk.run_one());
    run();
  }

  void start() {
    auto directory = Directory::open(path());
    ASSERT_TRUE(directory.ok());
    directory_ = std::move(*directory);
    disk_ = std::make_unique<PlainDisk>(*directory_);
    replica_ = std::make_unique<Replica>(*disk_, pool_, *this);
    replica_->open();
    pump();
    ASSERT_TRUE(outcome_.ok()) << outcome_.error().message;
    Hello hello;
    hello.epoch = ++epoch_;
    hello.engine = "e";
    replica_->hello(++peer_, hello);
    pump();
    ASSERT_TRUE(accepted_);
  }
  void end() {
    replica_->stop();
    pump();
    ASSERT_TRUE(outcome_.ok());
    replica_.reset();
    disk_.reset();
    directory_.reset();
  }
  void pump() {
    drive(*disk_, [&] { replica_->run(); });
  }
  std::uint32_t call(PeerRequest request, const std::vector<std::byte>& payload = {}) {
    replica_->request(peer_, std::move(request), payload.empty() ? Slice{} : pool_.copy_of(payload));
    pump();
    return reply_.error;
  }
  static PeerRequest request(PeerOp op, std::uint64_t offset, std::uint64_t length) {
    PeerRequest made;
    made.op = op;
    made.offset = offset;
    made.length = static_cast<std::uint32_t>(length);
    return made;
  }

  void opened(const Result<void>& outcome) override { outcome_ = outcome; }
  void accept(PeerId, const HelloAnswer&) override { accepted_ = true; }
  void refuse(PeerId, PeerRefusal, const std::string&) override { accepted_ = false; }
  void reply(PeerId, PeerReply reply, Slice data) override {
    reply_ = std::move(reply);
    data_.assign(data.span().begin(), data.span().end());
  }
  void close(PeerId, PeerRefusal, const std::string&) override {}
  void stopped(const Result<void>& outcome) override { outcome_ = outcome; }

  std::string root_;
  BufferPool pool_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<PlainDisk> disk_;
  std::unique_ptr<Replica> replica_;
  Result<void> outcome_;
  bool accepted_ = false;
  PeerReply reply_;
  std::vector<std::byte> data_;
  Epoch epoch_ = 0;
  PeerId peer_ = 0;
};

TEST_F(Store, ADirectoryInUseIsRefused) {
  make();
  const auto first = Directory::open(path());
  ASSERT_TRUE(first.ok());
  const auto second = Directory::open(path());
  ASSERT_TRUE(second.is(Errc::unavailable));
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
  EXPECT_TRUE(Directory::open(root_ + "/none").is(Errc::not_found));
}

TEST_F(Store, DataSnapshotsAndPurgeSurviveARestart) {
  make();
  start();
  const std::vector<std::byte> first(1u << 20, std::byte{1});
  const std::vector<std::byte> second(8192, std::byte{2});
  ASSERT_EQ(call(request(PeerOp::write, 4096, first.size()), first), 0u);
  PeerRequest snapshot = request(PeerOp::snapshot_create, 0, 0);
  snapshot.snapshot.name = "s1";
  snapshot.snapshot.layer_id = "l1";
  snapshot.snapshot.head_id = "h1";
  ASSERT_EQ(call(snapshot), 0u);
  ASSERT_EQ(call(request(PeerOp::write, 6000, second.size()), second), 0u);
  ASSERT_EQ(call(request(PeerOp::trim, 512u << 10, 65536)), 0u);
  std::vector<std::byte> expected(2u << 20);
  std::copy(first.begin(), first.end(), expected.begin() + 4096);
  std::copy(second.begin(), second.end(), expected.begin() + 6000);
  std::fill_n(expected.begin() + (512 << 10), 65536, std::byte{0});
  end();

  start();
  ASSERT_EQ(call(request(PeerOp::read, 0, expected.size())), 0u);
  EXPECT_EQ(data_, expected);
  PeerRequest removed = snapshot;
  removed.op = PeerOp::snapshot_mark_removed;
  ASSERT_EQ(call(removed), 0u);
  removed.op = PeerOp::snapshot_purge;
  removed.snapshot.layer_id = "merged";
  ASSERT_EQ(call(removed), 0u);
  EXPECT_TRUE(replica_->store().meta().layers.empty());
  EXPECT_FALSE(std::filesystem::exists(path() + "/layer.1.data"));
  end();

  start();
  ASSERT_EQ(call(request(PeerOp::read, 0, expected.size())), 0u);
  EXPECT_EQ(data_, expected);
  end();

  auto directory = Directory::open(path());
  ASSERT_TRUE(directory.ok());
  PlainDisk disk(**directory);
  Runner runner;
  DiskFiles files(disk, runner);
  CheckReport report;
  runner.spawn(keep(check_replica(files, pool_), report));
  drive(disk, [&] { runner.run(); });
  EXPECT_TRUE(report.problems.empty());
  EXPECT_GT(report.data_blocks, 200u);
}

}  // namespace
}  // namespace moor::block
