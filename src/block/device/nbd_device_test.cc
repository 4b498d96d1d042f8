// The kernel's nbd driver is played by the test: it holds the other end of the socket and speaks as the
// driver does (drivers/block/nbd.c: no negotiation, simple replies, several requests under way).
#include "block/device/nbd_device.h"

#include <gtest/gtest.h>
#include <linux/nbd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace moor::block::device {
namespace {

struct Driver final : NbdControl {
  io::Descriptor socket;
  NbdDevice device;
  std::optional<Error> refusal;

  Result<void> check() override { return {}; }
  Result<std::string> connect(const NbdDevice& wanted) override {
    if (refusal) return *refusal;
    device = wanted;
    socket = io::Descriptor(::dup(wanted.socket));
    return std::string("/dev/nbd7");
  }
  Result<void> resize(const std::string&, std::uint64_t) override { return {}; }
  Result<void> disconnect(const std::string&) override { return {}; }
};

// A volume in memory that answers when it is told to.
struct Volume final : FrontHandler {
  std::vector<bridge::Request> requests;
  std::size_t room = 1000;
  bool gone = false;

  void on_request(bridge::Request request) override { requests.push_back(std::move(request)); }
  std::uint64_t volume_size() const override { return 1u << 20; }
  bool has_room() const override { return requests.size() < room; }
  void on_opens(unsigned) override {}
  bool may_open() const override { return true; }
  void on_gone() override { gone = true; }
};

struct Reply {
  std::uint32_t error = 0;
  std::uint64_t cookie = 0;
};

class NbdDeviceTest : public ::testing::Test {
 protected:
  void attach(bool read_only = false) {
    NbdDeviceOptions options;
    options.size = 1u << 20;
    options.read_only = read_only;
    options.owner = "someone";
    front_ = NbdDeviceFront::attach(*loop_, pool_, driver_, options, volume_).value();
  }
  void send(std::uint32_t type, std::uint64_t cookie, std::uint64_t offset, std::uint32_t length,
            std::string_view payload = {}) {
    nbd_request request{};
    request.magic = htobe32(NBD_REQUEST_MAGIC);
    request.type = htobe32(type);
    std::memcpy(reinterpret_cast<char*>(&request) + 8, &cookie, sizeof cookie);
    request.from = htobe64(offset);
    request.len = htobe32(length);
    ASSERT_EQ(::send(driver_.socket.get(), &request, sizeof request, 0),
              static_cast<ssize_t>(sizeof request));
    if (!payload.empty()) {
      ASSERT_EQ(::send(driver_.socket.get(), payload.data(), payload.size(), 0),
                static_cast<ssize_t>(payload.size()));
    }
  }
  template <class Condition>
  void until(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i)
      ASSERT_TRUE(loop_->run_once(std::chrono::milliseconds(10)));
    ASSERT_TRUE(condition());
  }
  void until_requests(std::size_t count) {
    until([&] { return volume_.requests.size() >= count; });
  }
  void answer(const bridge::Request& request, int error = 0, std::string_view data = {}) {
    bridge::Answer made{request.id, request.op, request.length, error, {}};
    if (!data.empty()) made.data = pool_.copy_of(std::as_bytes(std::span(data)));
    front_->answer(made);
  }
  // What the driver reads, once it is all there.
  std::string receive(std::size_t size) {
    std::string got;
    until([&] {
      std::string part(size - got.size(), '\0');
      const ssize_t count = ::recv(driver_.socket.get(), part.data(), part.size(), MSG_DONTWAIT);
      if (count > 0) got.append(part, 0, static_cast<std::size_t>(count));
      return got.size() == size;
    });
    return got;
  }
  Reply reply() {
    const std::string bytes = receive(16);
    std::uint32_t magic = 0;
    Reply made;
    std::memcpy(&magic, bytes.data(), 4);
    std::memcpy(&made.error, bytes.data() + 4, 4);
    std::memcpy(&made.cookie, bytes.data() + 8, 8);
    EXPECT_EQ(be32toh(magic), static_cast<std::uint32_t>(NBD_REPLY_MAGIC));
    made.error = be32toh(made.error);
    return made;
  }

  std::unique_ptr<io::Loop> loop_ = io::Loop::create().value();
  BufferPool pool_;
  Driver driver_;
  Volume volume_;
  std::unique_ptr<NbdDeviceFront> front_;
};

TEST_F(NbdDeviceTest, TheDriverIsToldWhatHolds) {
  attach();
  EXPECT_EQ(front_->path(), "/dev/nbd7");
  EXPECT_EQ(driver_.device.size, 1u << 20);
  EXPECT_EQ(driver_.device.owner, "someone");
  EXPECT_EQ(driver_.device.flags,
            static_cast<unsigned>(NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_TRIM));
}

TEST_F(NbdDeviceTest, NothingIsSentBeforeTheFirstRequest) {
  attach();
  send(NBD_CMD_FLUSH, 1, 0, 0);
  until_requests(1);
  char byte = 0;
  EXPECT_EQ(::recv(driver_.socket.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(NbdDeviceTest, RequestsReachTheBridgeAndAnswersComeInAnyOrder) {
  attach();
  send(NBD_CMD_WRITE, 11, 512, 1024, std::string(1024, 'w'));
  send(NBD_CMD_READ, 12, 4096, 512);
  send(NBD_CMD_TRIM, 13, 8192, 4096);
  until_requests(3);
  const auto& [write, read, trim] = std::tie(volume_.requests[0], volume_.requests[1], volume_.requests[2]);
  EXPECT_EQ(write.op, bridge::Op::write);
  EXPECT_EQ(write.offset, 512u);
  ASSERT_EQ(write.payload.size(), 1024u);
  EXPECT_EQ(static_cast<char>(write.payload.data()[1023]), 'w');
  EXPECT_EQ(trim.op, bridge::Op::write_zeroes);
  EXPECT_FALSE(trim.no_hole);
  answer(trim);
  answer(read, 0, std::string(512, 'r'));
  answer(write);
  EXPECT_EQ(reply().cookie, 13u);
  EXPECT_EQ(reply().cookie, 12u);
  EXPECT_EQ(receive(512), std::string(512, 'r'));
  EXPECT_EQ(reply().cookie, 11u);
}

TEST_F(NbdDeviceTest, ErrorsKeepTheirMeaningAndTheStreamGoesOn) {
  attach();
  for (const auto& [error, wire] : {std::pair{ENOSPC, 28u}, {EIO, 5u}, {ESTALE, 5u}, {EROFS, 1u}}) {
    send(NBD_CMD_READ, 5, 0, 4096);
    until_requests(1);
    answer(volume_.requests[0], error);
    volume_.requests.clear();
    EXPECT_EQ(reply().error, wire);
  }
}

TEST_F(NbdDeviceTest, BeyondTheEndIsRefusedUntilTheVolumeHasGrown) {
  attach();
  send(NBD_CMD_READ, 1, 1u << 20, 4096);
  EXPECT_NE(reply().error, 0u);
  EXPECT_TRUE(volume_.requests.empty());
  front_->resize(2u << 20);
  send(NBD_CMD_READ, 2, 1u << 20, 4096);
  until_requests(1);
}

TEST_F(NbdDeviceTest, AReadOnlyVolumeTakesNoWrite) {
  attach(true);
  EXPECT_NE(driver_.device.flags & NBD_FLAG_READ_ONLY, 0u);
  send(NBD_CMD_WRITE, 1, 0, 512, std::string(512, 'w'));
  EXPECT_EQ(reply().error, 1u);
  EXPECT_TRUE(volume_.requests.empty());
}

TEST_F(NbdDeviceTest, TheDriversGoodbyeAndALostSocketEndIt) {
  attach();
  send(NBD_CMD_DISC, 0, 0, 0);
  until([&] { return volume_.gone; });
  volume_.gone = false;
  attach();
  driver_.socket = io::Descriptor();
  until([&] { return volume_.gone; });
}

TEST_F(NbdDeviceTest, AbortClosesTheDriversSocketAndLateAnswersAreForNobody) {
  attach();
  send(NBD_CMD_READ, 1, 0, 512);
  until_requests(1);
  front_->abort();
  EXPECT_TRUE(volume_.gone);
  answer(volume_.requests[0], EIO);
  char byte = 0;
  until([&] { return ::recv(driver_.socket.get(), &byte, 1, MSG_DONTWAIT) == 0; });
}

TEST_F(NbdDeviceTest, ADriverThatRefusesIsAnError) {
  driver_.refusal = make_error(Errc::exhausted, "no free device");
  NbdDeviceOptions options;
  options.size = 4096;
  EXPECT_TRUE(NbdDeviceFront::attach(*loop_, pool_, driver_, options, volume_).is(Errc::exhausted));
}

// Where the module is loaded there is nothing to see here: making a device would be the test.
TEST(KernelNbd, AKernelWithoutTheDriverIsSaidPlainly) {
  const Result<void> there = kernel_nbd().check();
  if (there.ok()) GTEST_SKIP() << "this kernel has nbd";
  EXPECT_TRUE(there.is(Errc::unavailable)) << there.error().message;
  EXPECT_NE(there.error().message.find("modprobe nbd"), std::string::npos);
  EXPECT_TRUE(kernel_nbd().connect({}).is(Errc::unavailable));
  EXPECT_TRUE(nbds_of("nobody").empty());
}

TEST(KernelNbd, OnlyNbdDevicesAreTouched) {
  for (const char* name : {"/dev/loop0", "/dev/nbd", "/dev/nbd1x", "nbd1", ""}) {
    EXPECT_TRUE(kernel_nbd().disconnect(name).is(Errc::invalid)) << name;
    EXPECT_TRUE(kernel_nbd().resize(name, 4096).is(Errc::invalid)) << name;
  }
}

}  // namespace
}  // namespace moor::block::device
