// The loop with both ends of NBD on it: front and link in one process, over real sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

#include "block/io/loop.h"
#include "block/io/memory_backend.h"
#include "block/io/nbd_front.h"
#include "block/io/nbd_link.h"

namespace moor::block::io {
namespace {

using nbd::Command;

// Collects what a link says.
struct Heard final : NbdLinkHandler {
  std::vector<nbd::ClientReply> replies;
  std::optional<nbd::RemoteExport> ready;
  std::optional<nbd::Refused> refused;
  std::string farewell;
  bool closed = false;
  std::optional<Error> why;
  std::function<void()> on_reply;

  void on_event(nbd::ClientEvent event) override {
    if (auto* got = std::get_if<nbd::Ready>(&event)) ready = got->remote;
    if (auto* no = std::get_if<nbd::Refused>(&event)) refused = *no;
    if (auto* word = std::get_if<nbd::Farewell>(&event)) farewell = word->message;
    if (auto* reply = std::get_if<nbd::ClientReply>(&event)) {
      replies.push_back(std::move(*reply));
      if (on_reply) on_reply();
    }
  }
  void on_closed(std::optional<Error> reason) override {
    closed = true;
    why = std::move(reason);
  }
};

nbd::ClientRequest request(std::uint64_t id, Command command, std::uint64_t offset, std::uint32_t length) {
  nbd::ClientRequest made;
  made.id = id;
  made.command = static_cast<std::uint16_t>(command);
  made.offset = offset;
  made.length = length;
  return made;
}

class NbdIo : public ::testing::Test {
 protected:
  NbdIo() {
    std::string name = std::filesystem::temp_directory_path() / "moor-io-XXXXXX";
    directory_ = mkdtemp(name.data());
    address_ = parse_address("unix:" + directory_ + "/nbd").value();
  }
  ~NbdIo() override { std::filesystem::remove_all(directory_); }

  void serve(NbdFrontOptions options = {}) {
    front_ = std::make_unique<NbdFront>(*loop_, pool_, *backend_, options);
    backend_->attach(*front_);
    ASSERT_TRUE(front_->listen(address_));
  }
  std::unique_ptr<NbdLink> connect(Heard& heard, const std::string& name = "memory") {
    NbdLinkOptions options;
    options.client.export_name = name;
    return std::make_unique<NbdLink>(*loop_, pool_, address_, options, heard);
  }
  // Turns the loop until it is so; a minute is the bound, reached only when something is broken.
  ::testing::AssertionResult until(const std::function<bool()>& so) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!so()) {
      if (std::chrono::steady_clock::now() > limit)
        return ::testing::AssertionFailure() << "it never came to pass";
      const auto turned = loop_->run_once(std::chrono::seconds(1));
      if (!turned) return ::testing::AssertionFailure() << turned.error().message;
    }
    return ::testing::AssertionSuccess();
  }

  std::string directory_;
  Address address_;
  BufferPool pool_;
  std::unique_ptr<Loop> loop_ = Loop::create(64).value();
  std::unique_ptr<MemoryBackend> backend_ = MemoryBackend::create(64 << 20, "memory").value();
  std::unique_ptr<NbdFront> front_;
};

TEST_F(NbdIo, LinkAndFrontAgreeUnderARandomLoad) {
  serve();
  Heard heard;
  auto link = connect(heard);
  ASSERT_TRUE(until([&] { return heard.ready.has_value(); }));
  EXPECT_EQ(heard.ready->size, 64u << 20);
  EXPECT_TRUE(heard.ready->block_status);

  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::string model(64 << 20, '\0');
  for (int round = 0; round < 8; ++round) {
    // A round of writes to ranges of their own, then the same ranges are read.
    std::vector<Extent> ranges;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t length = 1 + random() % (i % 4 == 0 ? 1 << 20 : 9000);
      ranges.push_back({static_cast<std::uint64_t>(i) * (3 << 20) + random() % (1 << 20), length});
    }
    heard.replies.clear();
    for (const auto& range : ranges) {
      auto write = request(1, Command::write, range.offset, static_cast<std::uint32_t>(range.length));
      write.payload = pool_.allocate(range.length);
      for (auto& byte : write.payload.span()) byte = static_cast<std::byte>(random());
      model.replace(range.offset, range.length, write.payload.text());
      link->send(std::move(write));
    }
    ASSERT_TRUE(until([&] { return heard.replies.size() == ranges.size(); }));
    heard.replies.clear();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      link->send(request(i, Command::read, ranges[i].offset, static_cast<std::uint32_t>(ranges[i].length)));
    }
    ASSERT_TRUE(until([&] { return heard.replies.size() == ranges.size(); }));
    for (const auto& reply : heard.replies) {
      ASSERT_EQ(reply.error, 0u);
      const auto& range = ranges[reply.id];
      ASSERT_TRUE(reply.data.text() == std::string_view(model).substr(range.offset, range.length));
    }
  }
  link->disconnect();
  ASSERT_TRUE(until([&] { return heard.closed; }));
  EXPECT_FALSE(heard.why) << heard.why->message;
  ASSERT_TRUE(until([&] { return front_->connections() == 0; }));
}

TEST_F(NbdIo, NobodyListeningIsAnErrorAndNotAWait) {
  Heard heard;
  const auto link = connect(heard);
  ASSERT_TRUE(until([&] { return heard.closed; }));
  ASSERT_TRUE(heard.why);
  EXPECT_FALSE(heard.ready);
}

TEST_F(NbdIo, AnUnknownExportIsRefusedWithAReason) {
  serve();
  Heard heard;
  const auto link = connect(heard, "other");
  ASSERT_TRUE(until([&] { return heard.closed; }));
  ASSERT_TRUE(heard.refused);
  EXPECT_EQ(heard.refused->error, nbd::OptionReply::error_unknown);
}

TEST_F(NbdIo, ALinkMayBeDroppedAnywhere) {
  serve();
  for (int turns = 0; turns < 12; ++turns) {
    Heard heard;
    auto link = connect(heard);
    for (int i = 0; i < turns; ++i) ASSERT_TRUE(loop_->run_once(std::chrono::milliseconds(1)));
    for (int i = 0; i < 10 && link->can_send(); ++i) link->send(request(1, Command::read, 0, 1 << 20));
    for (int i = 0; i < turns % 2; ++i) ASSERT_TRUE(loop_->run_once(std::chrono::milliseconds(1)));
    link.reset();
  }
  ASSERT_TRUE(until([&] { return front_->connections() == 0; }));
}

TEST_F(NbdIo, ALinkMayBeDroppedInsideItsOwnCallback) {
  serve();
  Heard heard;
  auto link = connect(heard);
  ASSERT_TRUE(until([&] { return heard.ready.has_value(); }));
  heard.on_reply = [&] { link.reset(); };
  for (int i = 0; i < 10; ++i) link->send(request(1, Command::flush, 0, 0));
  ASSERT_TRUE(until([&] { return front_->connections() == 0; }));
  EXPECT_EQ(heard.replies.size(), 1u);
}

TEST_F(NbdIo, ADroppedClientHearsTheLastWord) {
  serve();
  Heard heard;
  const auto link = connect(heard);
  ASSERT_TRUE(until([&] { return heard.ready.has_value(); }));
  front_->drop(1, "moor:superseded: by another");
  ASSERT_TRUE(until([&] { return heard.closed; }));
  EXPECT_EQ(heard.farewell, "moor:superseded: by another");
}

TEST_F(NbdIo, ACutClientJustSeesTheEnd) {
  serve();
  Heard heard;
  const auto link = connect(heard);
  ASSERT_TRUE(until([&] { return heard.ready.has_value(); }));
  front_->cut(1);
  EXPECT_EQ(front_->connections(), 0u);
  ASSERT_TRUE(until([&] { return heard.closed; }));
}

TEST_F(NbdIo, SilentClientsAreLetGo) {
  NbdFrontOptions options;
  options.handshake_timeout = std::chrono::seconds(1);
  serve(options);
  const auto socket = connect_blocking(address_).value();
  ASSERT_TRUE(until([&] { return front_->connections() == 1; }));
  ASSERT_TRUE(until([&] { return front_->connections() == 0; }));
}

TEST_F(NbdIo, ConnectionsBeyondTheLimitAreClosed) {
  NbdFrontOptions options;
  options.max_connections = 2;
  serve(options);
  Heard heard[3];
  std::vector<std::unique_ptr<NbdLink>> links;
  for (auto& one : heard) {
    links.push_back(connect(one));
    ASSERT_TRUE(until([&] { return one.ready || one.closed; }));
  }
  EXPECT_TRUE(heard[1].ready);
  EXPECT_TRUE(heard[2].closed);
}

TEST_F(NbdIo, TimersFireInOrderAndNotEarly) {
  std::vector<int> fired;
  const auto start = std::chrono::steady_clock::now();
  Timer late(*loop_, [&] { fired.push_back(2); });
  Timer early(*loop_, [&] { fired.push_back(1); });
  Timer never(*loop_, [&] { fired.push_back(3); });
  late.start(std::chrono::milliseconds(30));
  early.start(std::chrono::milliseconds(10));
  never.start(std::chrono::milliseconds(1));
  never.stop();
  ASSERT_TRUE(until([&] { return fired.size() == 2; }));
  EXPECT_EQ(fired, (std::vector<int>{1, 2}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
}

TEST_F(NbdIo, SignalsArriveOnTheLoop) {
  int heard = 0;
  ASSERT_TRUE(loop_->on_signals({SIGUSR1}, [&](int number) { heard = number; }));
  ::kill(::getpid(), SIGUSR1);
  ASSERT_TRUE(until([&] { return heard != 0; }));
  EXPECT_EQ(heard, SIGUSR1);
}

struct Done final : Completion {
  std::optional<int> result;
  void on_complete(int value) override { result = value; }
};

TEST_F(NbdIo, FilesAreReadWrittenAndSynced) {
  const std::string path = directory_ + "/file";
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Slice out = pool_.copy_of(as_bytes("some bytes"));
  Done write;
  loop_->write(write, file.get(), out.span(), 4096);
  ASSERT_TRUE(until([&] { return write.result.has_value(); }));
  EXPECT_EQ(write.result, 10);
  Done sync;
  loop_->sync(sync, file.get(), true);
  Done allocate;
  loop_->allocate(allocate, file.get(), 0, 0, 1 << 20);
  ASSERT_TRUE(until([&] { return sync.result && allocate.result; }));
  EXPECT_EQ(sync.result, 0);
  EXPECT_EQ(allocate.result, 0);
  const Slice in = pool_.allocate(10);
  Done read;
  loop_->read(read, file.get(), in.span(), 4096);
  ASSERT_TRUE(until([&] { return read.result.has_value(); }));
  EXPECT_EQ(in.text(), "some bytes");
  Done bad;
  loop_->read(bad, -1, in.span(), 0);
  ASSERT_TRUE(until([&] { return bad.result.has_value(); }));
  EXPECT_EQ(bad.result, -EBADF);
}

TEST_F(NbdIo, MoreOperationsThanTheRingHoldsAllComplete) {
  const Descriptor file(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::vector<Done> done(1000);
  const Slice into = pool_.allocate(4096);
  for (auto& one : done) loop_->read(one, file.get(), into.span(), 0);
  ASSERT_TRUE(until([&] {
    return std::all_of(done.begin(), done.end(), [](const Done& one) { return one.result == 4096; });
  }));
}

}  // namespace
}  // namespace moor::block::io
