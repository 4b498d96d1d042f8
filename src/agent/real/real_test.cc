// The real host on this machine: processes and their locks, disks, file systems on loop devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/mounts.h"
#include "agent/real/machine.h"
#include "agent/real/real_host.h"
#include "agent/real/spawn.h"

namespace moor::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

class RealHostTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "moor-h-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto made = RealHost::make(loop_, random_, {directory_, "/bin/sh"});
    ASSERT_TRUE(made.ok()) << made.error().message;
    host_ = *std::move(made);
  }
  void TearDown() override {
    for (const int pid : started_) ::kill(pid, SIGKILL);
    if (!mount_.empty()) (void)run_to_end({"umount", "-l", mount_}, 10'000);
    if (!loop_device_.empty()) (void)run_to_end({"losetup", "-d", loop_device_}, 10'000);
    host_.reset();
    fs::remove_all(directory_);
  }
  template <class T>
  T wait(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  Result<std::unique_ptr<Process>> start(const std::string& key, const std::string& script) {
    ProcessSpec spec{key, {"-c", script}, Json::object({{"epoch", 7}})};
    auto process = wait(host_->start(std::move(spec)));
    if (process) started_.push_back((*process)->pid());
    return process;
  }
  ProcessEnd end_of(Process& process) {
    auto end = wait(process.wait({}));
    EXPECT_TRUE(end.ok());
    return end ? *end : ProcessEnd{};
  }
  // A loop device over a file of that size; empty: not possible here.
  std::string make_loop(const std::string& size) {
    const std::string file = directory_ + "/image";
    if (::geteuid() != 0 || !run_to_end({"truncate", "-s", size, file}, 10'000)) return {};
    const auto device = run_to_end({"losetup", "-f", "--show", file}, 10'000);
    loop_device_ = device ? *device : "";
    return loop_device_;
  }

  Loop loop_;
  RealRandom random_;
  std::string directory_;
  std::unique_ptr<RealHost> host_;
  std::vector<int> started_;
  std::string loop_device_;
  std::string mount_;
};

TEST_F(RealHostTest, TheRecordIsThereBeforeTheProcessAndItsEndIsKnown) {
  const std::string record = directory_ + "/run/a.json";
  const auto process = start("a", "cat " + record + "; exit 3");
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_EQ(end_of(**process).code, 3);
  EXPECT_EQ(wait(host_->output("a")).value(), "{\"epoch\":7}\n");
  const auto killed = start("b", "kill -9 $$");
  EXPECT_EQ(end_of(**killed).signal, 9);
  EXPECT_EQ(end_of(**start("c", "echo the end >&2; exit 1")).code, 1);
  EXPECT_EQ(wait(host_->last_words("c")), "the end");
}

TEST_F(RealHostTest, OneKeyHasOneProcess) {
  const auto first = start("a", "read nothing < /dev/tty; exec tail -f /dev/null");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(start("a", "exit 0").is(Errc::already_exists));
  EXPECT_TRUE(wait(host_->forget("a")).is(Errc::already_exists)) << "what lives is not forgotten";
  (*first)->signal(SIGKILL);
  EXPECT_EQ(end_of(**first).signal, 9);
  EXPECT_TRUE(start("a", "exit 0").ok());
}

TEST_F(RealHostTest, WhatLivesIsFoundAgainByItsLockAndNotByItsPid) {
  auto lives = start("lives", "exec tail -f /dev/null");
  auto died = start("died", "exit 0");
  ASSERT_TRUE(lives.ok() && died.ok());
  (void)end_of(**died);
  const int pid = (*lives)->pid();
  // A pid in a file that nobody holds means nothing, not even if such a process exists.
  std::ofstream(directory_ + "/run/died.lock") << pid;
  host_.reset();
  host_ = *RealHost::make(loop_, random_, {directory_, "/bin/sh"});
  const auto found = wait(host_->find_all());
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].key, "died");
  EXPECT_EQ((*found)[0].process, nullptr);
  ASSERT_NE((*found)[1].process, nullptr);
  EXPECT_EQ((*found)[1].process->pid(), pid);
  EXPECT_EQ((*found)[1].record.get_int64("epoch"), 7);
  (*found)[1].process->signal(SIGKILL);
  (void)end_of(*(*found)[1].process);
  EXPECT_TRUE(wait(host_->forget("lives")).ok());
  EXPECT_TRUE(wait(host_->forget("died")).ok());
  EXPECT_TRUE(wait(host_->find_all())->empty());
}

TEST_F(RealHostTest, AProgramThatCannotBeExecutedIsAnErrorAndUsesTheRecordUp) {
  fs::create_directory(directory_ + "/other");
  fs::copy("/bin/true", directory_ + "/program");
  auto host = *RealHost::make(loop_, random_, {directory_ + "/other", directory_ + "/program"});
  fs::remove(directory_ + "/program");
  ProcessSpec spec{"a", {}, Json::object()};
  const auto started = wait(host->start(std::move(spec)));
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message, HasSubstr("execute"));
  EXPECT_EQ(wait(host->find_all())->size(), 1u);
}

TEST_F(RealHostTest, ACommandSaysWhatWentWrongAndHasALimit) {
  EXPECT_EQ(wait(host_->run({{"echo", "x"}, 10s})).value(), "x");
  const auto failed = wait(host_->run({{"sh", "-c", "echo broken; exit 1"}, 10s}));
  EXPECT_THAT(failed.error().message, HasSubstr("broken"));
  EXPECT_TRUE(wait(host_->run({{"no-such-program"}, 10s})).is(Errc::not_found));
  EXPECT_TRUE(wait(host_->run({{"tail", "-f", "/dev/null"}, 50ms})).is(Errc::timed_out));
}

TEST_F(RealHostTest, ADiskGetsItsIdentityOnce) {
  const std::string disk = directory_ + "/disk";
  EXPECT_THAT(wait(host_->look_at_disk(disk, false)).problem, HasSubstr("no directory"));
  const DiskFacts fresh = wait(host_->look_at_disk(disk, true));
  EXPECT_EQ(fresh.problem, "");
  EXPECT_EQ(fresh.uuid.size(), 36u);
  EXPECT_GT(fresh.maximum, 0);
  EXPECT_EQ(wait(host_->look_at_disk(disk, true)).uuid, fresh.uuid);
  fs::remove(disk + "/mooring-disk.json");
  EXPECT_EQ(wait(host_->look_at_disk(disk, false)).uuid, "");
  std::ofstream(disk + "/mooring-disk.json") << "nonsense";
  EXPECT_NE(wait(host_->look_at_disk(disk, true)).problem, "");
}

TEST_F(RealHostTest, AnEmptyDeviceIsFormattedOnceAndAUsedOneNever) {
  const std::string device = make_loop("32M");
  if (device.empty()) GTEST_SKIP() << "needs root and loop devices";
  EXPECT_EQ(wait(find_filesystem(*host_, device)).value(), "");
  const FormatRequest request{device, "ext4"};
  const auto made = wait(format_if_empty(*host_, request));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto uuid = [&] {
    return run_to_end({"blkid", "-p", "-o", "value", "-s", "UUID", device}, 10'000).value();
  };
  const std::string first = uuid();
  ASSERT_TRUE(wait(format_if_empty(*host_, request)).ok());
  EXPECT_EQ(uuid(), first) << "twice is once";
  const FormatRequest other{device, "xfs"};
  EXPECT_TRUE(wait(format_if_empty(*host_, other)).is(Errc::conflict));
  const FormatRequest unknown{device, "ntfs"};
  EXPECT_TRUE(wait(format_if_empty(*host_, unknown)).is(Errc::unsupported));
  ASSERT_TRUE(run_to_end({"wipefs", "-a", "-q", device}, 10'000).ok());
  ASSERT_TRUE(run_to_end({"sh", "-c", "echo data | dd of=" + device + " seek=8 conv=fsync"}, 10'000).ok());
  EXPECT_TRUE(wait(format_if_empty(*host_, request)).is(Errc::conflict)) << "data without a file system";
}

TEST_F(RealHostTest, AMountIsMadeOnceFoundAndTakenAwayWithProof) {
  const std::string device = make_loop("32M");
  if (device.empty()) GTEST_SKIP() << "needs root and loop devices";
  const FormatRequest format{device, "ext4"};
  ASSERT_TRUE(wait(format_if_empty(*host_, format)).ok());
  mount_ = directory_ + "/a b";
  const MountRequest request{device, mount_, "ext4", {"noatime"}};
  const auto mounted = wait(mount_device(*host_, request));
  if (!mounted) GTEST_SKIP() << "cannot mount here: " << mounted.error().message;
  EXPECT_TRUE(wait(mount_device(*host_, request)).ok()) << "twice is once";
  const MountRequest other{"/dev/null", mount_, "ext4", {}};
  EXPECT_TRUE(wait(mount_device(*host_, other)).is(Errc::conflict));
  // A process outside of a chroot that this test may run in sees a longer path.
  EXPECT_THAT(
      wait(host_->users_of(device)),
      testing::Contains(testing::AllOf(testing::StartsWith("mounted at "), testing::EndsWith(mount_))));
  std::ofstream open_file(mount_ + "/x");
  open_file << "x" << std::flush;
  EXPECT_TRUE(wait(unmount_device(*host_, mount_)).is(Errc::conflict));
  open_file.close();
  const auto proof = wait(unmount_device(*host_, mount_));
  ASSERT_TRUE(proof.ok()) << proof.error().message;
  EXPECT_EQ(proof->device, device);
  EXPECT_EQ(wait(unmount_device(*host_, mount_))->device, "") << "nothing is there any more";
  EXPECT_TRUE(wait(host_->users_of(device)).empty());
}

TEST_F(RealHostTest, ADirectoryTooLongForSocketsIsRefused) {
  const auto made = RealHost::make(loop_, random_, {"/tmp/" + std::string(100, 'x'), "/bin/sh"});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("at most"));
}

}  // namespace
}  // namespace moor::agent
