// moorblk device end to end: real file systems and real programs on a real loop device. Needs root, /dev/fuse
// and loop devices; skipped, saying so, where they are missing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>

#include "support.h"

namespace moor::block::e2e {
namespace {

using std::chrono::steady_clock;

// Looks again until it holds; the bound is far above what a slow machine needs.
bool eventually(const std::function<bool()>& holds, int seconds = 20) {
  const auto until = steady_clock::now() + std::chrono::seconds(seconds);
  while (!holds()) {
    if (steady_clock::now() > until) return false;
    ::poll(nullptr, 0, 20);
  }
  return true;
}

class DeviceTest : public ::testing::Test {
 protected:
  static constexpr int kReplicas = 3;
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/fuse";
    if (::access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "needs loop devices";
    std::filesystem::create_directory(mnt());
  }
  // Whatever a failed test left: a mount, a device, a process.
  void TearDown() override {
    if (::geteuid() != 0) return;
    for (auto& server : servers_) server->signal(SIGCONT);
    run("umount -l " + mnt());
    run(remove_command());
  }

  std::string link() const { return directory_ / "dev"; }
  std::string control() const { return directory_ / "dev.ctl"; }
  std::string mnt() const { return directory_ / "mnt"; }
  std::string socket() const { return "unix:" + (directory_ / "v.sock"); }
  std::string ctl(const std::string& words) const { return moorblk() + " ctl " + control() + " " + words; }
  std::string remove_command() const {
    return moorblk() + " device --path " + link() + " --control " + control() + " --force-remove";
  }

  Server& start(std::vector<std::string> words) {
    words.insert(words.begin(), {moorblk(), "--log-level", "off"});
    servers_.push_back(std::make_unique<Server>(std::move(words)));
    return *servers_.back();
  }
  Server& memory(const std::string& size, const std::string& id = "") {
    std::vector<std::string> words{"memory", "--listen", socket(), "--size", size};
    if (!id.empty()) words.insert(words.end(), {"--export-id", id});
    return start(std::move(words));
  }
  Server& device(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"device", "--connect", socket(), "--path", link(), "--control", control()};
    words.insert(words.end(), more.begin(), more.end());
    return start(std::move(words));
  }
  void replicas() {
    for (int i = 0; i < kReplicas; ++i) {
      const std::string path = directory_ / ("r" + std::to_string(i));
      if (!std::filesystem::exists(path)) {
        ASSERT_EQ(run(moorblk() + " replica create " + path + " --size 64Mi").code, 0);
      }
      replicas_[i] = &start(
          {"replica", "serve", path, "--listen", "unix:" + path + ".sock", "--control", path + ".ctl"});
      ASSERT_FALSE(replicas_[i]->ready().empty());
    }
  }
  Server& engine(int epoch, const std::string& export_id) {
    std::vector<std::string> words{
        "engine", "--volume",  "v",    "--epoch",   std::to_string(epoch), "--listen",
        socket(), "--confirm", "auto", "--control", directory_ / "v.ctl"};
    if (!export_id.empty()) words.insert(words.end(), {"--export-id", export_id});
    for (int i = 0; i < kReplicas; ++i) {
      const std::string name = "r" + std::to_string(i);
      words.insert(words.end(), {"--replica", "unix:" + (directory_ / name) + ".sock,name=" + name});
    }
    return start(std::move(words));
  }
  static void kill(Server& server) {
    server.signal(SIGKILL);
    server.wait();
  }
  Output fio(const std::string& where, const std::string& more, int seconds = 90) const {
    return run("fio --name=t --filename=" + where +
                   " --ioengine=libaio --direct=1 --rw=randwrite --bsrange=512-128k --blockalign=512 "
                   "--iodepth=32 --verify=crc32c --verify_fatal=1 --do_verify=1 --output-format=terse " +
                   more,
               seconds);
  }
  std::string state() const {
    const std::string text = run(ctl("status")).text;
    const auto at = text.find("\"state\": \"");
    return at == std::string::npos ? "" : text.substr(at + 10, text.find('"', at + 10) - at - 10);
  }
  void expect_nothing_left() const {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(link())));
    EXPECT_FALSE(std::filesystem::exists(control() + ".fuse"));
    EXPECT_EQ(run("grep -c " + directory_.path() + " /proc/mounts").text, "0\n");
    EXPECT_TRUE(eventually([&] {
      return run("cat /sys/block/loop*/loop/backing_file").text.find(directory_.path()) == std::string::npos;
    }));
  }
  void use_as_file_system() {
    EXPECT_EQ(run("mkfs.ext4 -q " + link()).code, 0);
    ASSERT_EQ(run("mount -o discard " + link() + " " + mnt()).code, 0);
    const Output written = fio(mnt() + "/a", "--size=8m --fsync=64");
    EXPECT_EQ(written.code, 0) << written.text;
    EXPECT_EQ(run("head -c 3000000 /dev/urandom > " + mnt() + "/b && cp " + mnt() + "/b " + mnt() +
                  "/c && sync && rm " + mnt() + "/b && fstrim " + mnt())
                  .code,
              0);
    EXPECT_EQ(run("umount " + mnt()).code, 0);
    const Output checked = run("e2fsck -fn " + link());
    EXPECT_EQ(checked.code, 0) << checked.text;
  }

  TemporaryDirectory directory_;
  std::vector<std::unique_ptr<Server>> servers_;
  Server* replicas_[kReplicas] = {};
};

TEST_F(DeviceTest, CarriesAFileSystemAndIsRemovedCleanly) {
  memory("128Mi");
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  use_as_file_system();
  ASSERT_EQ(run("mount " + link() + " " + mnt()).code, 0);
  const Output refused = run(ctl("shutdown"));
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.text.find("in use"), std::string::npos) << refused.text;
  dev.signal(SIGTERM);  // waits until nobody uses it
  EXPECT_EQ(run("ls " + mnt() + "/c && umount " + mnt()).code, 0);
  EXPECT_EQ(dev.wait(), 0);
  expect_nothing_left();
}

TEST_F(DeviceTest, CarriesAFileSystemOnThreeReplicas) {
  replicas();
  Server& served = engine(1, "");
  ASSERT_FALSE(served.ready().empty());
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  use_as_file_system();
  dev.signal(SIGTERM);
  EXPECT_EQ(dev.wait(), 0);
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  for (Server* replica : replicas_) {
    replica->signal(SIGTERM);
    EXPECT_EQ(replica->wait(), 0);
  }
  for (int i = 0; i < kReplicas; ++i) {
    const Output checked = run(moorblk() + " replica check " + (directory_ / ("r" + std::to_string(i))));
    EXPECT_EQ(checked.code, 0) << checked.text;
  }
}

TEST_F(DeviceTest, TakesSectorsZeroesAndDiscards) {
  memory("32Mi");
  ASSERT_FALSE(device().ready().empty());
  const Output raw = fio(link(), "--size=32m --io_size=24m");
  EXPECT_EQ(raw.code, 0) << raw.text;
  const std::string d = link();
  const Output zero = run("head -c 8M /dev/urandom | dd of=" + d +
                          " bs=1M oflag=direct conv=fsync iflag=fullblock && "
                          "blkdiscard -f -z -o 512 -l 3584 " +
                          d + " && blkdiscard -f -o 1M -l 1M " + d + " && blkdiscard -f -z -o 4M -l 2M " + d);
  EXPECT_EQ(zero.code, 0) << zero.text;
  EXPECT_EQ(run("cmp -n 3584 -i 512:0 " + d + " /dev/zero && cmp -n 1M -i 1M:0 " + d +
                " /dev/zero && cmp -n 2M -i 4M:0 " + d + " /dev/zero")
                .code,
            0);
  EXPECT_NE(run("cmp -n 512 " + d + " /dev/zero").code, 0);
  EXPECT_NE(run("cmp -n 4096 -i 2M:0 " + d + " /dev/zero").code, 0);
}

TEST_F(DeviceTest, WithoutALoopDeviceTheFileItselfIsTheVolume) {
  memory("16Mi");
  Server& dev = device({"--no-loop"});
  ASSERT_FALSE(dev.ready().empty());
  const Output raw = fio(link(), "--size=16m --io_size=8m");
  EXPECT_EQ(raw.code, 0) << raw.text;
  dev.signal(SIGTERM);
  EXPECT_EQ(dev.wait(), 0);
  expect_nothing_left();
}

TEST_F(DeviceTest, LosesNothingWhenTheEngineIsKilledUnderAWriter) {
  replicas();
  Server* serving = &engine(1, "");
  ASSERT_FALSE(serving->ready().empty());
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  const std::string before = run(ctl("status")).text;
  EXPECT_NE(before.find("\"export_id\": \"v-1\""), std::string::npos) << before;
  auto writer = std::async(std::launch::async,
                           [&] { return fio(link(), "--size=48m --io_size=48m --fsync=32 --rate=8m", 120); });
  for (int epoch = 2; epoch <= 3; ++epoch) {
    const auto written = [&] { return run(ctl("stats")).text.find("\"writes\": 0,") == std::string::npos; };
    ASSERT_TRUE(eventually(written));
    // Held up first, so that it dies with something in flight however slow the writer is.
    serving->signal(SIGSTOP);
    const auto in_flight = [&] {
      return run(ctl("status")).text.find("\"open_requests\": 0,") == std::string::npos;
    };
    ASSERT_TRUE(eventually(in_flight));
    kill(*serving);
    EXPECT_TRUE(eventually([&] { return state() == "waiting"; }));
    serving = &engine(epoch, "v-1");
    ASSERT_FALSE(serving->ready().empty());
    EXPECT_TRUE(eventually([&] { return state() == "serving"; }));
  }
  const Output done = writer.get();
  EXPECT_EQ(done.code, 0) << done.text;
  const std::string stats = run(ctl("stats")).text;
  EXPECT_NE(stats.find("\"connections\": 3"), std::string::npos) << stats;
  EXPECT_EQ(stats.find("\"resent\": 0,"), std::string::npos) << "nothing was in flight: " << stats;
  use_as_file_system();
  dev.signal(SIGTERM);
  EXPECT_EQ(dev.wait(), 0);
  expect_nothing_left();
}

TEST_F(DeviceTest, AStartWithoutAContinuousReplicaGivesErrors) {
  replicas();
  Server& first = engine(1, "");
  ASSERT_FALSE(first.ready().empty());
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  EXPECT_EQ(run("dd if=/dev/urandom of=" + link() + " bs=64k count=16 oflag=direct conv=fsync").code, 0);
  kill(first);
  for (Server* replica : replicas_) kill(*replica);
  replicas();
  ASSERT_FALSE(engine(2, "v-1").ready().empty());
  EXPECT_TRUE(eventually([&] { return state() == "ended"; }));
  EXPECT_NE(run("dd if=" + link() + " of=/dev/null bs=4k count=1 iflag=direct").code, 0);
  EXPECT_NE(run("dd if=/dev/zero of=" + link() + " bs=4k count=1 oflag=direct").code, 0);
  dev.signal(SIGTERM);
  EXPECT_EQ(dev.wait(), 0);
  Server& again = device();  // reopened: all that was flushed is there
  ASSERT_FALSE(again.ready().empty());
  EXPECT_EQ(run("dd if=" + link() + " of=/dev/null bs=64k count=16 iflag=direct").code, 0);
}

TEST_F(DeviceTest, GrowsWithTheVolume) {
  Server& small = memory("32Mi", "same");
  ASSERT_FALSE(device().ready().empty());
  kill(small);
  memory("64Mi", "same");
  EXPECT_TRUE(eventually([&] { return run("blockdev --getsize64 " + link()).text == "67108864\n"; }));
  EXPECT_EQ(run("dd if=/dev/zero of=" + link() + " bs=1M seek=63 count=1 oflag=direct").code, 0);
}

TEST_F(DeviceTest, AHungEngineHoldsNobodyAfterForcedRemoval) {
  Server& hung = memory("32Mi");
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  EXPECT_EQ(run("mkfs.ext4 -q " + link() + " && mount " + link() + " " + mnt()).code, 0);
  hung.signal(SIGSTOP);
  auto writer = std::async(std::launch::async, [&] {
    return run("dd if=/dev/zero of=" + mnt() + "/f bs=1M count=4 conv=fsync", 60);
  });
  EXPECT_TRUE(eventually([&] {
    const std::string text = run(ctl("status")).text;
    return text.find("\"open_requests\"") != std::string::npos &&
           text.find("\"open_requests\": 0") == std::string::npos;
  }));
  const auto began = steady_clock::now();
  const Output removed = run(remove_command());
  EXPECT_EQ(removed.code, 0) << removed.text;
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(15));
  EXPECT_NE(writer.get().code, 0);  // it ended, with an error
  EXPECT_EQ(dev.wait(), 0);
  EXPECT_EQ(run("umount " + mnt()).code, 0);
  expect_nothing_left();
}

TEST_F(DeviceTest, AHungDeviceProcessIsRemovedTooAndAKilledOneIsReplaced) {
  memory("32Mi", "same");
  Server& dev = device();
  ASSERT_FALSE(dev.ready().empty());
  dev.signal(SIGSTOP);
  auto reader = std::async(std::launch::async, [&] {
    return run("dd if=" + link() + " of=/dev/null bs=4k count=1 iflag=direct", 60);
  });
  const Output removed = run(remove_command());
  EXPECT_EQ(removed.code, 0) << removed.text;
  reader.get();
  EXPECT_EQ(dev.wait(), 128 + SIGKILL);
  expect_nothing_left();

  Server& second = device();
  ASSERT_FALSE(second.ready().empty());
  kill(second);
  Server& third = device();
  ASSERT_FALSE(third.ready().empty());
  EXPECT_EQ(run("dd if=" + link() + " of=/dev/null bs=4k count=1 iflag=direct").code, 0);
  third.signal(SIGTERM);
  EXPECT_EQ(third.wait(), 0);
  expect_nothing_left();
}

// A device over the standby of a move, held open by a client that reads through the page cache.
class MovedDeviceTest : public DeviceTest {
 protected:
  std::string source_socket() const { return "unix:" + (directory_ / "s.sock"); }
  std::vector<std::string> engine_words(int epoch, const std::string& listen, const std::string& ctl_name) {
    std::vector<std::string> words{
        "engine", "--volume",  "v",    "--epoch",   std::to_string(epoch), "--listen",
        listen,   "--confirm", "auto", "--control", directory_ / ctl_name};
    for (int i = 0; i < kReplicas; ++i) {
      const std::string name = "r" + std::to_string(i);
      words.insert(words.end(), {"--replica", "unix:" + (directory_ / name) + ".sock,name=" + name});
    }
    return words;
  }
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_NO_FATAL_FAILURE(replicas());
    auto source = engine_words(1, source_socket(), "s.ctl");
    source.insert(source.end(), {"--peer-listen", "unix:" + (directory_ / "peer.sock"), "--hold"});
    ASSERT_FALSE(start(std::move(source)).ready().empty());
    auto standby = engine_words(2, socket(), "v.ctl");
    standby.insert(standby.end(), {"--standby", "--source", "unix:" + (directory_ / "peer.sock")});
    ASSERT_FALSE(start(std::move(standby)).ready().empty());
    write_at_source(1);
    ASSERT_FALSE(device().ready().empty());
    fd_ = ::open(link().c_str(), O_RDWR);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(read_here(), 1);
    write_at_source(2);
    ASSERT_EQ(read_here(), 1) << "the page is not cached: this test would prove nothing";
  }
  void TearDown() override {
    if (fd_ >= 0) ::close(fd_);
    DeviceTest::TearDown();
  }
  void write_at_source(int pattern) const {
    const Output done = run("qemu-io -f raw \"nbd+unix:///v?socket=" + source_socket().substr(5) +
                            "\" -c \"write -P " + std::to_string(pattern) + " 0 64k\"");
    ASSERT_EQ(done.code, 0) << done.text;
  }
  int read_here() const {
    unsigned char byte = 0;
    return ::pread(fd_, &byte, 1, 4096) == 1 ? byte : -1;
  }
  bool says(const std::string& what) const { return run(ctl("status")).text.find(what) != std::string::npos; }

  int fd_ = -1;
};

TEST_F(MovedDeviceTest, PagesReadThroughTheStandbyAreDroppedAtAnActivationByRequest) {
  EXPECT_TRUE(says("\"standby\": true"));
  EXPECT_EQ(run(moorblk() + " ctl " + (directory_ / "v.ctl") + " activate").code, 0);
  EXPECT_TRUE(eventually([&] { return says("\"pages_dropped\": 1") && says("\"connected\": true"); }));
  EXPECT_EQ(read_here(), 2);
}

TEST_F(MovedDeviceTest, PagesReadThroughTheStandbyAreDroppedBeforeTheFirstWriteIsAnswered) {
  const Output written =
      run("dd if=/dev/zero of=" + link() + " bs=4k seek=100 count=1 oflag=direct conv=notrunc");
  EXPECT_EQ(written.code, 0) << written.text;
  EXPECT_EQ(read_here(), 2);
  EXPECT_TRUE(says("\"pages_dropped\": 1"));
}

TEST_F(MovedDeviceTest, PagesReadThroughAStandbyThatDiedAreDroppedAtTheEngineThatFollows) {
  kill(*servers_[servers_.size() - 2]);  // before the device
  auto next = engine_words(3, socket(), "v.ctl");
  next.insert(next.end(), {"--export-id", "v-1"});  // as the Grant would have it
  ASSERT_FALSE(start(std::move(next)).ready().empty());
  EXPECT_TRUE(eventually([&] { return says("\"pages_dropped\": 1") && says("\"connected\": true"); }));
  EXPECT_EQ(read_here(), 2);
}

}  // namespace
}  // namespace moor::block::e2e
