#include "block/core/nbd_client.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "block/core/nbd_server.h"
#include "block/core/nbd_test_support.h"

namespace moor::block::nbd {
namespace {

using namespace testing;  // NOLINT: the messages read like the protocol

constexpr std::uint64_t kSize = 1 << 20;

class ClientTest : public ::testing::Test {
 protected:
  void start(bool block_status = true, bool tls = false) {
    ClientOptions options;
    options.export_name = "disk";
    options.block_status = block_status;
    options.tls = tls;
    client_.emplace(pool_, options);
    replies_.clear();
    failure_.clear();
  }
  std::string feed(std::string bytes, std::size_t piece = 0) {
    while (!bytes.empty()) {
      const auto part = piece == 0 ? bytes.size() : std::min(piece, bytes.size());
      const auto taken = client_->feed(as_bytes(bytes).first(part));
      for (auto& event : client_->take_events()) {
        if (auto* reply = std::get_if<ClientReply>(&event)) replies_.push_back(std::move(*reply));
        if (auto* ready = std::get_if<Ready>(&event)) ready_ = std::move(ready->remote);
        if (auto* refused = std::get_if<Refused>(&event)) refused_ = std::move(*refused);
        if (auto* farewell = std::get_if<Farewell>(&event)) farewell_ = farewell->message;
        if (auto* failed = std::get_if<ClientFailed>(&event)) failure_ = failed->why;
      }
      bytes.erase(0, taken);
      if (taken < part) return bytes;
    }
    return {};
  }
  static std::string greeting() { return u64(kServerMagic) + u64(kOptionMagic) + u16(3); }
  static std::string ready_replies() {
    return option_reply(Option::structured_reply, OptionReply::ack) +
           option_reply(Option::set_meta_context, OptionReply::meta_context, u32(7) + kAllocationContext) +
           option_reply(Option::set_meta_context, OptionReply::ack) +
           option_reply(Option::go, OptionReply::info, u16(0) + u64(kSize) + u16(kHasFlags)) +
           option_reply(Option::go, OptionReply::info, u16(0x8001) + "answer") +
           option_reply(Option::go, OptionReply::info, u16(0x7777) + "unknown") +
           option_reply(Option::go, OptionReply::ack);
  }
  void become_ready(std::size_t piece = 0) {
    start();
    feed(greeting() + ready_replies(), piece);
    EXPECT_TRUE(client_->is_ready()) << failure_;
    drain(client_->out());
  }
  void send(std::uint64_t id, Command command, std::uint64_t offset, std::uint32_t length) {
    ClientRequest request;
    request.id = id;
    request.command = number(command);
    request.offset = offset;
    request.length = length;
    if (command == Command::write) request.payload = pool_.allocate(length);
    client_->send(std::move(request));
    const auto bytes = drain(client_->out());
    cookies_[id] = load_big_endian<std::uint64_t>(as_bytes(bytes).data() + 8);
  }

  BufferPool pool_;
  std::optional<Client> client_;
  std::vector<ClientReply> replies_;
  std::optional<RemoteExport> ready_;
  std::optional<Refused> refused_;
  std::string farewell_;
  std::string failure_;
  std::map<std::uint64_t, std::uint64_t> cookies_;
};

TEST_F(ClientTest, NegotiatesInAnySplitAndKeepsThePrivateAnswer) {
  for (const std::size_t piece : {1, 3, 19, 0}) {
    become_ready(piece);
    ASSERT_TRUE(ready_);
    EXPECT_EQ(ready_->size, kSize);
    EXPECT_TRUE(ready_->structured);
    EXPECT_TRUE(ready_->block_status);
    EXPECT_EQ(as_text(ready_->hello_answer), "answer");
  }
}

TEST_F(ClientTest, AServerWithoutExtrasWillDo) {
  start();
  feed(greeting() + option_reply(Option::structured_reply, OptionReply::error_unsupported) +
       option_reply(Option::go, OptionReply::info, u16(0) + u64(kSize) + u16(kHasFlags)) +
       option_reply(Option::go, OptionReply::ack));
  ASSERT_TRUE(ready_);
  EXPECT_FALSE(ready_->structured);
  drain(client_->out());
  send(1, Command::read, 0, 4);
  feed(simple(0, cookies_[1]) + "data", 1);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].data.text(), "data");
}

TEST_F(ClientTest, ARefusalIsHandedOnWithItsMessage) {
  start();
  feed(greeting() + option_reply(Option::structured_reply, OptionReply::ack) +
       option_reply(Option::set_meta_context, OptionReply::ack) +
       option_reply(Option::go, OptionReply::error_policy, "moor:old-epoch: no"));
  ASSERT_TRUE(refused_);
  EXPECT_EQ(refused_->error, OptionReply::error_policy);
  EXPECT_EQ(refused_->message, "moor:old-epoch: no");
}

TEST_F(ClientTest, AsksForTlsFirstAndStopsReadingThere) {
  start(true, true);
  const auto rest = feed(greeting() + option_reply(Option::start_tls, OptionReply::ack) + "cipher");
  EXPECT_EQ(rest, "cipher");
  const auto sent = drain(client_->out());
  EXPECT_EQ(sent, u32(3) + option(Option::start_tls)) << "nothing else in the clear";
  client_->tls_started();
  EXPECT_EQ(drain(client_->out()), option(Option::structured_reply));
}

TEST_F(ClientTest, GarbageInTheHandshakeFails) {
  const std::string bad[] = {
      std::string(18, 'x'),
      u64(kServerMagic) + u64(0x00420281861253) + u16(0),
      u64(kServerMagic) + u64(kOptionMagic) + u16(0),
      greeting() + std::string(20, 'y'),
      greeting() + option_reply(Option::go, OptionReply::ack),
      greeting() + u64(kOptionReplyMagic) + u32(8) + u32(1) + u32(0xffffffff),
      greeting() + option_reply(Option::structured_reply, OptionReply::server, "x"),
      greeting() + option_reply(Option::structured_reply, OptionReply::ack, "x"),
      greeting() + option_reply(Option::structured_reply, OptionReply::error_unsupported) +
          option_reply(Option::go, OptionReply::ack),  // no size
      greeting() + option_reply(Option::structured_reply, OptionReply::error_unsupported) +
          option_reply(Option::go, OptionReply::info, "x"),
  };
  for (const auto& bytes : bad) {
    start();
    feed(bytes, 1);
    EXPECT_NE(failure_, "");
    EXPECT_TRUE(client_->ended());
  }
}

TEST_F(ClientTest, RepliesMayComeInAnyOrderAndInChunks) {
  for (const std::size_t piece : {1, 5, 0}) {
    become_ready();
    send(1, Command::read, 100, 8);
    send(2, Command::write, 0, 4096);
    send(3, Command::block_status, 0, 8192);
    const auto done = kReplyFlagDone;
    feed(chunk(0, 2, cookies_[1], u64(104) + u32(4)) + simple(0, cookies_[2]) +
             chunk(done, 5, cookies_[3], u32(7) + u32(4096) + u32(0) + u32(9999) + u32(3)) +
             chunk(done, 1, cookies_[1], u64(100) + "data"),
         piece);
    ASSERT_EQ(replies_.size(), 3u) << failure_;
    EXPECT_EQ(replies_[0].id, 2u);
    EXPECT_EQ(replies_[1].extents, (std::vector<BlockStatus>{{4096, false, false}, {9999, true, true}}));
    EXPECT_EQ(replies_[2].data.text(), std::string("data") + std::string(4, '\0'));
    EXPECT_EQ(client_->in_flight(), 0u);
  }
}

TEST_F(ClientTest, AnErrorChunkEndsInAnErrorWithItsMessage) {
  become_ready();
  send(1, Command::read, 0, 8);
  feed(chunk(0, 1, cookies_[1], u64(0) + "half") +
       chunk(kReplyFlagDone, 0x8002, cookies_[1], u32(kErrIo) + u16(3) + "bad" + u64(4)));
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].error, kErrIo);
  EXPECT_EQ(replies_[0].message, "bad");
  EXPECT_TRUE(replies_[0].data.empty());
}

TEST_F(ClientTest, GarbageInRepliesFails) {
  const auto done = kReplyFlagDone;
  using Make = std::function<std::string(std::uint64_t read, std::uint64_t write, std::uint64_t status)>;
  const Make bad[] = {
      [](auto, auto, auto) { return std::string(16, 'g'); },
      [](auto r, auto, auto) { return simple(0, r + 100); },
      [](auto r, auto, auto) { return simple(0, r); },                              // read: structured only
      [&](auto r, auto, auto) { return chunk(done, 0, r, ""); },                    // no data at all
      [&](auto r, auto, auto) { return chunk(done, 1, r, u64(0) + "1234"); },       // half of it
      [&](auto r, auto, auto) { return chunk(done, 1, r, u64(4) + "12345678"); },   // beyond the end
      [&](auto r, auto, auto) { return chunk(done, 1, r, u64(0) + "123456789"); },  // too much
      [&](auto r, auto, auto) { return chunk(done, 1, r, u64(~0ull) + "12345678"); },
      [&](auto r, auto, auto) {
        return chunk(0, 1, r, u64(0) + "1234") + chunk(done, 1, r, u64(2) + "1234");
      },
      [&](auto r, auto, auto) { return chunk(done, 2, r, u64(0) + u32(9)); },
      [&](auto r, auto, auto) { return chunk(done, 5, r, u32(7) + u32(1) + u32(1)); },  // not asked
      [&](auto, auto w, auto) { return chunk(done, 1, w, u64(0) + "1234"); },
      [&](auto, auto w, auto) { return chunk(done, 0, w, "x"); },
      [&](auto, auto w, auto) { return chunk(0, 0, w, ""); },
      [&](auto, auto w, auto) { return chunk(done, 0x1234, w, ""); },
      [&](auto, auto w, auto) { return chunk(done, 0x8001, w, u32(0) + u16(0)); },  // an error without one
      [&](auto, auto w, auto) { return chunk(done, 0x8001, w, u32(5) + u16(9)); },
      [&](auto, auto w, auto) { return chunk(4, 0, w, ""); },
      [&](auto, auto, auto s) { return chunk(done, 5, s, u32(9) + u32(1) + u32(1)); },  // another context
      [&](auto, auto, auto s) { return chunk(done, 5, s, u32(7) + u32(0) + u32(1)); },
      [&](auto, auto, auto s) { return chunk(done, 5, s, u32(7)); },
      [&](auto, auto, auto s) { return chunk(done, 0, s, ""); },
      [&](auto, auto, auto s) { return simple(0, s); },
  };
  for (std::size_t i = 0; i < std::size(bad); ++i) {
    for (const std::size_t piece : {1, 0}) {
      become_ready();
      send(1, Command::read, 0, 8);
      send(2, Command::write, 0, 512);
      send(3, Command::block_status, 0, 512);
      feed(bad[i](cookies_[1], cookies_[2], cookies_[3]), piece);
      EXPECT_NE(failure_, "") << "case " << i;
      EXPECT_TRUE(replies_.empty()) << "case " << i;
    }
  }
}

TEST_F(ClientTest, HearsTheLastWord) {
  become_ready();
  const std::string word = "moor:superseded: by epoch 7";
  feed(chunk(kReplyFlagDone, 0x8001, kFarewellCookie, u32(kErrShutdown) + u16(word.size()) + word), 1);
  EXPECT_EQ(farewell_, word);
  EXPECT_TRUE(client_->ended());
}

TEST_F(ClientTest, DisconnectSaysSo) {
  become_ready();
  client_->disconnect();
  EXPECT_EQ(drain(client_->out()), raw({number(Command::disconnect), 0, 0, 0}));
  EXPECT_FALSE(client_->can_send());
}

// Both machines against a model, with every byte stream cut at random.
class Pair {
 public:
  explicit Pair(unsigned seed)
      : random_(seed), client_(pool_, options()), server_(pool_), model_(kSize, '\0') {}

  void run(int operations) {
    int sent = 0;
    int steps = 0;
    while (completed_ < operations) {
      ASSERT_LT(++steps, 10'000'000);
      if (sent < operations && client_.can_send() && client_.in_flight() < 16 && random_() % 2 == 0) {
        send(static_cast<std::uint64_t>(sent++));
      }
      exchange();
      if (HasFatalFailure()) return;
    }
  }
  static bool HasFatalFailure() { return ::testing::Test::HasFatalFailure(); }

 private:
  static ClientOptions options() {
    ClientOptions options;
    options.export_name = "disk";
    return options;
  }
  void send(std::uint64_t id) {
    ClientRequest request;
    request.id = id;
    const Command commands[] = {Command::read, Command::write, Command::write_zeroes, Command::block_status,
                                Command::flush};
    const Command command = commands[random_() % std::size(commands)];
    request.command = number(command);
    if (command != Command::flush) {
      request.length = 1 + static_cast<std::uint32_t>(random_() % (random_() % 8 == 0 ? 200'000 : 5'000));
      // Each request has a range of its own, so that the order of execution does not matter.
      request.offset = random_() % (kSize - request.length);
    }
    if (command == Command::write) {
      request.payload = pool_.allocate(request.length);
      for (auto& byte : request.payload.span()) byte = static_cast<std::byte>(random_());
    }
    client_.send(std::move(request));
  }
  void exchange() {
    to_server_ += drain(client_.out());
    to_client_ += drain(server_.out());
    const auto cut = [&](const std::string& from) { return from.empty() ? 0 : 1 + random_() % from.size(); };
    if (!server_.paused()) to_server_.erase(0, server_.feed(as_bytes(to_server_).first(cut(to_server_))));
    to_client_.erase(0, client_.feed(as_bytes(to_client_).first(cut(to_client_))));
    for (auto& event : server_.take_events()) on_server(event);
    for (auto& event : client_.take_events()) on_client(event);
  }
  void on_server(ServerEvent& event) {
    if (std::holds_alternative<OpenRequested>(event)) {
      ExportDescription description;
      description.size = kSize;
      return server_.accept(description);
    }
    auto* request = std::get_if<Request>(&event);
    ASSERT_NE(request, nullptr);
    const auto at = model_.begin() + static_cast<std::ptrdiff_t>(request->offset);
    if (request->is(Command::read)) {
      answer_read(*request);
    } else if (request->is(Command::block_status)) {
      server_.reply_block_status(request->tag, {{request->length, false, false}});
    } else if (random_() % 50 == 0) {
      server_.reply_error(request->tag, kErrIo, "by chance");
    } else {
      if (request->is(Command::write))
        std::copy(request->payload.text().begin(), request->payload.text().end(), at);
      if (request->is(Command::write_zeroes)) std::fill(at, at + request->length, '\0');
      server_.reply_done(request->tag);
    }
  }
  void answer_read(const Request& request) {
    const std::string_view bytes = std::string_view(model_).substr(request.offset, request.length);
    expected_.emplace_back(bytes);
    std::vector<ReadPiece> pieces;
    std::uint32_t at = 0;
    while (at < request.length) {
      const auto length = 1 + static_cast<std::uint32_t>(random_() % (request.length - at));
      const auto part = bytes.substr(at, length);
      const bool zero = part.find_first_not_of('\0') == std::string_view::npos;
      pieces.push_back({length, zero ? Slice() : pool_.copy_of(as_bytes(part))});
      at += length;
    }
    server_.reply_read(request.tag, std::move(pieces));
  }
  void on_client(ClientEvent& event) {
    if (std::holds_alternative<Ready>(event)) return;
    auto* reply = std::get_if<ClientReply>(&event);
    ASSERT_NE(reply, nullptr);
    ++completed_;
    if (reply->data.empty()) return;
    // This server answers in order, so reads come back in order too.
    ASSERT_FALSE(expected_.empty());
    ASSERT_EQ(reply->data.text(), expected_.front());
    expected_.erase(expected_.begin());
  }

  std::mt19937 random_;
  BufferPool pool_;
  Client client_;
  Server server_;
  std::string model_;
  std::string to_server_;
  std::string to_client_;
  std::vector<std::string> expected_;
  int completed_ = 0;
};

TEST(NbdPair, ClientAndServerAgreeHoweverTheStreamIsCut) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (unsigned i = 0; i < 10; ++i) {
    Pair pair(seed + i);
    pair.run(200);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace moor::block::nbd
