// Real NBD clients against `moorblk memory`: what they see is the server machine, the loop and the front.
#include <gtest/gtest.h>
#include <libnbd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/json.h"
#include "block/io/address.h"
#include "support.h"

namespace moor::block::e2e {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Handle {
 public:
  Handle() : handle_(nbd_create()) {}
  ~Handle() { nbd_close(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator nbd_handle*() const { return handle_; }  // NOLINT: libnbd's functions take it

 private:
  nbd_handle* handle_;
};

std::string pattern(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(text.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return text;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_file(const std::string& path) {
  std::string content(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

class NbdClients : public ::testing::Test {
 protected:
  static std::vector<std::string> command(const std::string& socket) {
    return {moorblk(), "--log-level", "off", "memory", "--listen", "unix:" + socket, "--size", "64Mi"};
  }
  void SetUp() override { ASSERT_EQ(server_.ready(), "unix:" + socket_); }

  TemporaryDirectory directory_;
  std::string socket_ = directory_ / "nbd";
  std::string uri_ = "nbd+unix:///?socket=" + socket_;
  Server server_{command(socket_)};
};

TEST_F(NbdClients, NbdinfoSeesWhatWeOffer) {
  // What it complains about (some of its helpers may be missing, as in a chroot) goes elsewhere: this is
  // JSON.
  const auto output = run("nbdinfo --json --no-content \"" + uri_ + "\" 2>" + (directory_ / "complaints"));
  ASSERT_EQ(output.code, 0) << output.text << run("cat " + (directory_ / "complaints")).text;
  const auto parsed = parse_json(output.text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message << " in:\n" << output.text;
  const Json& info = *parsed;
  ASSERT_NE(info.find("exports"), nullptr) << output.text;
  ASSERT_EQ(info.find("exports")->size(), 1u) << output.text;
  EXPECT_EQ(info.get_string("protocol"), "newstyle-fixed");
  EXPECT_EQ(info.get_bool("structured"), true);
  const auto& disk = info.find("exports")->at(0);
  EXPECT_EQ(disk.get_uint64("export-size"), 64 * kMiB);
  EXPECT_EQ(disk.get_string("export-name"), "memory");
  for (const auto* yes :
       {"can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"}) {
    EXPECT_EQ(disk.get_bool(yes), true) << yes;
  }
  EXPECT_EQ(disk.get_bool("is_read_only"), false);
  EXPECT_EQ(disk.get_uint64("block_size_minimum"), 1u);
  EXPECT_EQ(disk.get_uint64("block_size_preferred"), 4096u);
  const auto list = run("nbdinfo --list \"" + uri_ + "\"");
  EXPECT_NE(list.text.find("export=\"memory\""), std::string::npos) << list.text;
  EXPECT_NE(run("nbdinfo \"nbd+unix:///other?socket=" + socket_ + "\"").code, 0) << "no such export";
}

TEST_F(NbdClients, NbdcopyBringsBackWhatItPutIn) {
  const auto content = pattern(64 * kMiB, 1);
  write_file(directory_ / "in", content);
  const auto in = run("nbdcopy --connections=4 " + (directory_ / "in") + " \"" + uri_ + "\"");
  ASSERT_EQ(in.code, 0) << in.text;
  const auto out = run("nbdcopy --connections=4 \"" + uri_ + "\" " + (directory_ / "out"));
  ASSERT_EQ(out.code, 0) << out.text;
  EXPECT_TRUE(read_file(directory_ / "out") == content);
}

TEST_F(NbdClients, QemuImgConvertsComparesAndMaps) {
  std::string content(64 * kMiB, '\0');
  content.replace(kMiB, kMiB, pattern(kMiB, 2));
  content.replace(40 * kMiB, 4096, pattern(4096, 3));
  write_file(directory_ / "in", content);
  const auto convert = run("qemu-img convert -n -f raw -O raw " + (directory_ / "in") + " \"" + uri_ + "\"");
  ASSERT_EQ(convert.code, 0) << convert.text;
  const auto compare = run("qemu-img compare -f raw -F raw " + (directory_ / "in") + " \"" + uri_ + "\"");
  EXPECT_EQ(compare.code, 0) << compare.text;
  const auto map = run("qemu-img map -f raw --output=json \"" + uri_ + "\"");
  ASSERT_EQ(map.code, 0) << map.text;
  const auto extents = parse_json(map.text).value();
  std::uint64_t data = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents.at(i).get_bool("data") == true) data += extents.at(i).get_uint64("length").value();
  }
  EXPECT_GE(data, kMiB + 4096);
  EXPECT_LE(data, 2 * kMiB) << "the holes are seen as holes";
}

TEST_F(NbdClients, QemuIoWritesZeroesDiscardsAndFlushes) {
  const auto output =
      run("qemu-io -f raw -c \"write -P 7 0 1M\" -c \"write -z 4k 8k\" -c \"write -z -u 64k 64k\" "
          "-c \"discard 256k 64k\" -c \"write -f -P 9 512k 4k\" -c flush -c \"read -P 7 0 4k\" "
          "-c \"read -P 0 4k 8k\" -c \"read -P 0 64k 64k\" -c \"read -P 0 256k 64k\" "
          "-c \"read -P 9 512k 4k\" -c \"read -P 7 516k 100k\" \"" +
          uri_ + "\"");
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_EQ(output.text.find("verification failed"), std::string::npos) << output.text;
}

TEST_F(NbdClients, FioVerifiesMixedSizes) {
  const auto output = run("cd " + directory_.path() + " && fio --name=mixed --ioengine=nbd --uri=\"" + uri_ +
                          "\" --rw=randrw --bsrange=512-128k --bs_unaligned=0 --blockalign=512 --iodepth=32 "
                          "--size=32M --io_size=64M --verify=crc32c --verify_fatal=1");
  EXPECT_EQ(output.code, 0) << output.text;
}

TEST_F(NbdClients, LibnbdUsesEveryCommand) {
  Handle nbd;
  ASSERT_EQ(nbd_add_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION), 0);
  ASSERT_EQ(nbd_connect_uri(nbd, uri_.c_str()), 0) << nbd_get_error();
  ASSERT_EQ(nbd_get_structured_replies_negotiated(nbd), 1);
  const auto content = pattern(300'001, 4);
  ASSERT_EQ(nbd_pwrite(nbd, content.data(), content.size(), 4097, LIBNBD_CMD_FLAG_FUA), 0) << nbd_get_error();
  std::string got(content.size(), '\0');
  ASSERT_EQ(nbd_pread(nbd, got.data(), got.size(), 4097, 0), 0) << nbd_get_error();
  EXPECT_TRUE(got == content);
  int chunks = 0;
  const auto count_chunk = [](void* data, const void*, std::size_t, std::uint64_t, unsigned, int*) {
    ++*static_cast<int*>(data);
    return 0;
  };
  ASSERT_EQ(nbd_pread_structured(nbd, got.data(), got.size(), 4097, {count_chunk, &chunks, nullptr},
                                 LIBNBD_CMD_FLAG_DF),
            0)
      << nbd_get_error();
  EXPECT_EQ(chunks, 1) << "not fragmented";
  ASSERT_EQ(nbd_zero(nbd, 8192, 8192, LIBNBD_CMD_FLAG_FAST_ZERO), 0) << nbd_get_error();
  EXPECT_EQ(nbd_zero(nbd, 8192, 8192, LIBNBD_CMD_FLAG_FAST_ZERO | LIBNBD_CMD_FLAG_NO_HOLE), -1);
  EXPECT_EQ(nbd_get_errno(), ENOTSUP) << "zeroing without a hole is no faster, and we say so";
  ASSERT_EQ(nbd_zero(nbd, 4096, 16384, LIBNBD_CMD_FLAG_NO_HOLE), 0) << nbd_get_error();
  ASSERT_EQ(nbd_trim(nbd, 4096, 32768, 0), 0) << nbd_get_error();
  ASSERT_EQ(nbd_flush(nbd, 0), 0) << nbd_get_error();
  std::string zeros(4096, 'x');
  ASSERT_EQ(nbd_pread(nbd, zeros.data(), zeros.size(), 8192, 0), 0);
  EXPECT_EQ(zeros, std::string(4096, '\0'));

  std::vector<std::uint32_t> entries;
  const auto collect = [](void* data, const char*, std::uint64_t, std::uint32_t* list, std::size_t count,
                          int*) {
    static_cast<std::vector<std::uint32_t>*>(data)->assign(list, list + count);
    return 0;
  };
  ASSERT_EQ(nbd_block_status(nbd, 24576, 0, {collect, &entries, nullptr}, 0), 0) << nbd_get_error();
  EXPECT_EQ(entries, (std::vector<std::uint32_t>{4096, 3, 4096, 0, 8192, 3, 8192, 0}))
      << "hole, data, the fast zero, then data and zeros that take space";
  EXPECT_EQ(nbd_shutdown(nbd, 0), 0) << nbd_get_error();
}

TEST_F(NbdClients, WrongRequestsGetErrorsAndTheConnectionLives) {
  Handle nbd;
  ASSERT_EQ(nbd_connect_uri(nbd, uri_.c_str()), 0);
  ASSERT_EQ(nbd_set_strict_mode(nbd, 0), 0);
  char byte = 0;
  EXPECT_EQ(nbd_pread(nbd, &byte, 1, 64 * kMiB, 0), -1);
  EXPECT_EQ(nbd_get_errno(), EINVAL);
  EXPECT_EQ(nbd_pwrite(nbd, &byte, 1, 64 * kMiB, 0), -1);
  EXPECT_EQ(nbd_get_errno(), ENOSPC);
  EXPECT_EQ(nbd_cache(nbd, 4096, 0, 0), -1);
  EXPECT_EQ(nbd_get_errno(), EINVAL);
  EXPECT_EQ(nbd_pread(nbd, &byte, 1, 0, 0), 0) << nbd_get_error();
}

TEST_F(NbdClients, AClientWithoutStructuredRepliesIsServed) {
  Handle nbd;
  ASSERT_EQ(nbd_set_request_structured_replies(nbd, false), 0);
  ASSERT_EQ(nbd_set_handshake_flags(nbd, 0), 0);  // then libnbd uses EXPORT_NAME, as the oldest clients do
  const bool connected = nbd_connect_unix(nbd, socket_.c_str()) == 0;
  EXPECT_FALSE(connected) << "we speak fixed newstyle only";
  Handle plain;
  ASSERT_EQ(nbd_set_request_structured_replies(plain, false), 0);
  ASSERT_EQ(nbd_connect_unix(plain, socket_.c_str()), 0) << nbd_get_error();
  const auto content = pattern(100'000, 5);
  ASSERT_EQ(nbd_pwrite(plain, content.data(), content.size(), 0, 0), 0);
  std::string got(content.size(), '\0');
  ASSERT_EQ(nbd_pread(plain, got.data(), got.size(), 0, 0), 0);
  EXPECT_TRUE(got == content);
}

TEST_F(NbdClients, SixtyFourConnectionsWorkAtOnce) {
  constexpr std::size_t kConnections = 64;
  constexpr std::size_t kEach = 16;
  constexpr std::size_t kBytes = 16 * 1024;
  std::vector<std::unique_ptr<Handle>> handles;
  std::vector<std::string> written;
  std::vector<std::pair<std::size_t, std::int64_t>> pending;
  for (std::size_t i = 0; i < kConnections; ++i) {
    handles.push_back(std::make_unique<Handle>());
    ASSERT_EQ(nbd_connect_unix(*handles[i], socket_.c_str()), 0) << nbd_get_error();
  }
  for (std::size_t i = 0; i < kConnections * kEach; ++i)
    written.push_back(pattern(kBytes, static_cast<unsigned>(i)));
  for (std::size_t i = 0; i < written.size(); ++i) {
    nbd_handle* nbd = *handles[i % kConnections];
    const auto cookie = nbd_aio_pwrite(nbd, written[i].data(), kBytes, i * kBytes, NBD_NULL_COMPLETION, 0);
    ASSERT_GT(cookie, 0) << nbd_get_error();
    pending.emplace_back(i % kConnections, cookie);
  }
  for (const auto& [index, cookie] : pending) {
    int done = 0;
    while ((done = nbd_aio_command_completed(*handles[index], static_cast<std::uint64_t>(cookie))) == 0) {
      ASSERT_NE(nbd_poll(*handles[index], 10'000), 0) << "no answer in ten seconds";
    }
    ASSERT_EQ(done, 1) << nbd_get_error();
  }
  // Read through another connection than the one that wrote: multi-conn is what we advertise.
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string got(kBytes, '\0');
    ASSERT_EQ(nbd_pread(*handles[(i + 7) % kConnections], got.data(), kBytes, i * kBytes, 0), 0);
    ASSERT_TRUE(got == written[i]) << "block " << i;
  }
}

io::Descriptor raw_connection(const std::string& socket) {
  return io::connect_blocking(io::parse_address("unix:" + socket).value()).value();
}

// Until the other side closes; false: it did not within the time.
bool is_closed(int socket) {
  const timeval limit{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char buffer[4096];
  for (;;) {  // each round takes bytes that the server sent, and it sends few
    const auto got = ::recv(socket, buffer, sizeof buffer, 0);
    if (got == 0) return true;
    if (got < 0) return errno == ECONNRESET;
  }
}

TEST_F(NbdClients, MalformedBytesEndOnlyTheirOwnConnection) {
  Handle good;
  ASSERT_EQ(nbd_connect_unix(good, socket_.c_str()), 0);
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 50; ++i) {
    const auto socket = raw_connection(socket_);
    std::string garbage = pattern(1 + random() % 2000, static_cast<unsigned>(random()));
    // Half of them get past the flags, and some past an option's magic.
    if (i % 2 == 0) garbage = std::string("\0\0\0\3", 4) + garbage;
    if (i % 4 == 0) garbage = std::string("\0\0\0\3IHAVEOPT", 12) + garbage;
    ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    ::shutdown(socket.get(), SHUT_WR);
    EXPECT_TRUE(is_closed(socket.get())) << "round " << i;
    char byte = 0;
    ASSERT_EQ(nbd_pread(good, &byte, 1, 0, 0), 0) << nbd_get_error();
  }
}

TEST_F(NbdClients, AClientThatDiesInTheMiddleOfAWriteHarmsNobody) {
  for (int i = 0; i < 20; ++i) {
    Handle dying;
    ASSERT_EQ(nbd_connect_unix(dying, socket_.c_str()), 0);
    const auto content = pattern(kMiB, 6);
    ASSERT_GT(nbd_aio_pwrite(dying, content.data(), content.size(), 0, NBD_NULL_COMPLETION, 0), 0);
  }
  Handle nbd;
  ASSERT_EQ(nbd_connect_unix(nbd, socket_.c_str()), 0);
  char byte = 0;
  EXPECT_EQ(nbd_pread(nbd, &byte, 1, 0, 0), 0);
}

TEST_F(NbdClients, SigtermEndsCleanlyAndASecondServerIsRefused) {
  Server second(command(socket_));
  EXPECT_EQ(second.ready(), "");
  EXPECT_EQ(second.wait(), 1);
  server_.signal(SIGTERM);
  EXPECT_EQ(server_.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(NbdClients, TheSocketOfAKilledServerIsTakenOver) {
  server_.signal(SIGKILL);
  EXPECT_EQ(server_.wait(), 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(socket_));
  Server second(command(socket_));
  EXPECT_EQ(second.ready(), "unix:" + socket_);
}

TEST(NbdTls, TcpIsServedOverTlsOnly) {
  TemporaryDirectory directory;
  const auto made =
      run("cd " + directory.path() +
          " && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca-key.pem -out ca-cert.pem "
          "-subj /CN=ca"
          " && openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost"
          " && echo subjectAltName=DNS:localhost,IP:127.0.0.1 > names"
          " && openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial "
          "-days 2 -extfile names -out cert.pem"
          " && mkdir other && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout other/ca-key.pem "
          "-out other/ca-cert.pem -subj /CN=other");
  ASSERT_EQ(made.code, 0) << made.text;
  Server server({moorblk(), "--log-level", "off", "memory", "--listen", "tcp:127.0.0.1:0", "--size", "16Mi",
                 "--tls-certificate", directory / "cert.pem", "--tls-key", directory / "key.pem"});
  ASSERT_TRUE(server.ready().starts_with("tcp:127.0.0.1:"));
  const auto port = server.ready().substr(14);

  Handle plain;
  EXPECT_EQ(nbd_connect_tcp(plain, "127.0.0.1", port.c_str()), -1) << "nothing in the clear";
  const auto uri = [&](const std::string& certificates) {
    return "nbds://localhost:" + port + "/?tls-certificates=" + certificates;
  };
  const auto distrusting = run("nbdinfo --size \"" + uri(directory / "other") + "\"");
  EXPECT_NE(distrusting.code, 0) << "an authority that it does not know: " << distrusting.text;
  const auto trusting = run("nbdinfo --size \"" + uri(directory.path()) + "\"");
  EXPECT_EQ(trusting.text, "16777216\n");

  Handle nbd;
  ASSERT_EQ(nbd_set_uri_allow_local_file(nbd, true), 0);
  ASSERT_EQ(nbd_connect_uri(nbd, uri(directory.path()).c_str()), 0) << nbd_get_error();
  EXPECT_EQ(nbd_get_tls_negotiated(nbd), 1);
  const auto content = pattern(5 * kMiB, 8);
  ASSERT_EQ(nbd_pwrite(nbd, content.data(), content.size(), 100, 0), 0) << nbd_get_error();
  std::string got(content.size(), '\0');
  ASSERT_EQ(nbd_pread(nbd, got.data(), got.size(), 100, 0), 0) << nbd_get_error();
  EXPECT_TRUE(got == content);
  EXPECT_EQ(nbd_shutdown(nbd, 0), 0) << nbd_get_error();
}

TEST(MoorblkCtl, DrivesAProcessAndSurvivesGarbage) {
  TemporaryDirectory directory;
  const auto control = directory / "ctl";
  Server server({moorblk(), "--log-level", "off", "memory", "--listen", "unix:" + (directory / "nbd"),
                 "--size", "1Mi", "--control", control});
  ASSERT_NE(server.ready(), "");
  for (const std::string& garbage : {std::string("\xff\xff\xff\xff"), std::string("\0\0\0\2{}", 6)}) {
    const auto socket = raw_connection(control);
    ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(is_closed(socket.get()));
  }
  const auto status = run(moorblk() + " ctl " + control + " status");
  ASSERT_EQ(status.code, 0) << status.text;
  EXPECT_EQ(parse_json(status.text).value().get_uint64("size"), kMiB);
  const auto hello = run(moorblk() + " ctl " + control + " hello");
  EXPECT_EQ(parse_json(hello.text).value().get_string("program"), "memory");
  const auto unknown = run(moorblk() + " ctl " + control + " snapshot create s1 --label a=b");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.text.find("not known here"), std::string::npos) << unknown.text;
  EXPECT_EQ(run(moorblk() + " ctl " + control + " call stats").code, 0);
  EXPECT_EQ(run(moorblk() + " ctl " + control + " shutdown").code, 0);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_EQ(run(moorblk() + " ctl " + control + " status").code, 1) << "nobody there";
}

}  // namespace
}  // namespace moor::block::e2e
