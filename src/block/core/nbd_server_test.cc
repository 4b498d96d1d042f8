#include "block/core/nbd_server.h"

#include <gtest/gtest.h>

#include <random>

#include "block/core/nbd_test_support.h"

namespace moor::block::nbd {
namespace {

using namespace testing;  // NOLINT: the messages read like the protocol

constexpr std::uint64_t kExportBytes = 1 << 20;

// A server with its owner: answers opens by itself, keeps what it was asked.
class ServerTest : public ::testing::Test {
 protected:
  void start(TlsMode tls = TlsMode::none, ServerLimits limits = {}) { server_.emplace(pool_, tls, limits); }

  // Feeds in pieces of `piece` bytes, as the network may; 0: all at once. Returns what was not taken.
  std::string feed(std::string bytes, std::size_t piece = 0) {
    while (!bytes.empty()) {
      const auto part = piece == 0 ? bytes.size() : std::min(piece, bytes.size());
      const auto taken = server_->feed(as_bytes(bytes).first(part));
      collect();
      bytes.erase(0, taken);
      if (taken < part) return bytes;
    }
    return {};
  }
  void collect() {
    for (auto& event : server_->take_events()) {
      if (const auto* open = std::get_if<OpenRequested>(&event)) {
        opened_.push_back(*open);
        if (answer_opens_) server_->accept(description_);
      } else if (std::holds_alternative<ListRequested>(event)) {
        server_->list({{"one", "the first"}, {"two", ""}});
      } else if (auto* request = std::get_if<Request>(&event)) {
        requests_.push_back(std::move(*request));
      } else if (const auto* failed = std::get_if<Failed>(&event)) {
        failure_ = failed->why;
      } else if (std::holds_alternative<Disconnected>(event)) {
        disconnected_ = true;
      } else {
        tls_requested_ = true;
      }
    }
  }
  std::string out() { return drain(server_->out()); }
  // Into the transmission phase, with the greeting and the negotiation out of the way.
  void negotiate(bool structured = true, std::size_t piece = 0) {
    if (!server_) start();
    std::string bytes = u32(kFixedNewstyle | kNoZeroes);
    if (structured) {
      bytes += option(Option::structured_reply);
      bytes += option(Option::set_meta_context, context_body("disk", {kAllocationContext}));
    }
    bytes += option(Option::go, go_body("disk"));
    EXPECT_EQ(feed(bytes, piece), "");
    EXPECT_TRUE(server_->in_transmission());
    out();
  }
  std::string error_chunk(std::uint64_t cookie, std::uint32_t error, std::string_view message) {
    return chunk(kReplyFlagDone, static_cast<std::uint16_t>(ReplyType::error), cookie,
                 u32(error) + u16(message.size()) + std::string(message));
  }

  BufferPool pool_;
  std::optional<Server> server_;
  ExportDescription description_ = [] {
    ExportDescription description;
    description.size = kExportBytes;
    description.name = "disk";
    return description;
  }();
  bool answer_opens_ = true;
  std::vector<OpenRequested> opened_;
  std::vector<Request> requests_;
  std::string failure_;
  bool disconnected_ = false;
  bool tls_requested_ = false;
};

TEST_F(ServerTest, GreetsAsFixedNewstyle) {
  start();
  EXPECT_EQ(out(), u64(kServerMagic) + u64(kOptionMagic) + u16(kFixedNewstyle | kNoZeroes));
}

TEST_F(ServerTest, GoTellsSizeFlagsAndBlockSizes) {
  start();
  out();
  feed(u32(kFixedNewstyle | kNoZeroes) + option(Option::go, go_body("disk")));
  const std::uint16_t flags = kHasFlags | kSendFlush | kSendFua | kSendTrim | kSendWriteZeroes |
                              kCanMultiConn;  // no DF: not structured
  EXPECT_EQ(out(), option_reply(Option::go, OptionReply::info, u16(0) + u64(kExportBytes) + u16(flags)) +
                       option_reply(Option::go, OptionReply::info,
                                    u16(3) + u32(1) + u32(4096) + u32(kMaxRequestBytes)) +
                       option_reply(Option::go, OptionReply::ack));
  ASSERT_EQ(opened_.size(), 1u);
  EXPECT_EQ(opened_[0].name, "disk");
  EXPECT_TRUE(opened_[0].go);
}

TEST_F(ServerTest, AdvertisesOnlyWhatTheBackendHas) {
  description_.fast_zero = true;
  description_.trim = false;
  description_.flush = false;
  description_.fua = false;
  description_.multi_conn = false;
  start();
  out();
  feed(u32(kFixedNewstyle | kNoZeroes) + option(Option::structured_reply) +
       option(Option::go, go_body("disk")));
  const std::uint16_t flags = kHasFlags | kSendWriteZeroes | kSendFastZero | kSendDf;
  EXPECT_NE(out().find(u16(0) + u64(kExportBytes) + u16(flags)), std::string::npos);
}

TEST_F(ServerTest, ExportNameAnswersWithAndWithoutPadding) {
  start();
  out();
  feed(u32(kFixedNewstyle) + option(Option::export_name, "disk"));
  EXPECT_EQ(out().size(), 134u);
  start();
  out();
  feed(u32(kFixedNewstyle | kNoZeroes) + option(Option::export_name, "disk"));
  EXPECT_EQ(out().size(), 10u);
  EXPECT_TRUE(server_->in_transmission());
}

TEST_F(ServerTest, ListAndInfoLeaveTheNegotiationOpen) {
  start();
  out();
  feed(u32(kFixedNewstyle) + option(Option::list));
  EXPECT_EQ(out(), option_reply(Option::list, OptionReply::server, u32(3) + "onethe first") +
                       option_reply(Option::list, OptionReply::server, u32(3) + "two") +
                       option_reply(Option::list, OptionReply::ack));
  feed(option(Option::info, go_body("disk")));
  EXPECT_FALSE(opened_.back().go);
  EXPECT_FALSE(server_->in_transmission());
  feed(option(Option::go, go_body("disk")));
  EXPECT_TRUE(server_->in_transmission());
}

TEST_F(ServerTest, AbortIsAcknowledgedAndEnds) {
  start();
  out();
  feed(u32(kFixedNewstyle) + option(Option::abort));
  EXPECT_EQ(out(), option_reply(Option::abort, OptionReply::ack));
  EXPECT_TRUE(disconnected_);
}

TEST_F(ServerTest, UnknownOptionIsRefusedAndTheNextOneWorks) {
  start();
  out();
  feed(u32(kFixedNewstyle) + option(static_cast<Option>(99), "whatever"));
  EXPECT_EQ(out().substr(0, 16),
            option_reply(static_cast<Option>(99), OptionReply::error_unsupported).substr(0, 16));
  feed(option(Option::go, go_body("disk")));
  EXPECT_TRUE(server_->in_transmission());
}

TEST_F(ServerTest, MalformedOptionDataIsRefusedAndTheStreamGoesOn) {
  start();
  out();
  feed(u32(kFixedNewstyle));
  const std::string bad[] = {"",
                             u32(5) + "abc",
                             go_body("disk") + "x",
                             u32(4) + "disk" + u16(3) + u16(0),
                             u32(0xffffffff),
                             u32(4) + "disk" + u16(1000)};
  for (const auto& body : bad) {
    feed(option(Option::go, body));
    const auto reply = out();
    ASSERT_GE(reply.size(), kOptionReplyBytes);
    EXPECT_EQ(static_cast<unsigned char>(reply[12]) & 0x80, 0x80) << "an error is expected";
    EXPECT_EQ(failure_, "");
  }
  for (const auto type : {Option::list, Option::structured_reply, Option::start_tls}) {
    feed(option(type, "data"));
    EXPECT_EQ(static_cast<unsigned char>(out()[12]) & 0x80, 0x80);
  }
  EXPECT_TRUE(opened_.empty());
}

TEST_F(ServerTest, GarbageInTheNegotiationEndsTheConnection) {
  const std::string bad[] = {
      u32(0),                                                              // no fixed newstyle
      u32(0xffff),                                                         // unknown flags
      u32(kFixedNewstyle) + u64(12345) + u32(1) + u32(0),                  // wrong magic
      u32(kFixedNewstyle) + u64(kOptionMagic) + u32(7) + u32(0x7fffffff),  // absurd length
      u32(kFixedNewstyle) + option(Option::export_name, std::string(5000, 'n')),
  };
  for (const auto& bytes : bad) {
    failure_.clear();
    start();
    feed(bytes, 1);
    EXPECT_NE(failure_, "");
    EXPECT_TRUE(server_->ended());
    EXPECT_EQ(feed("more of it"), "") << "what follows is swallowed";
  }
}

TEST_F(ServerTest, AnOpenMayBeAnsweredLaterAndNothingIsReadMeanwhile) {
  answer_opens_ = false;
  start();
  out();
  const std::string after = raw({number(Command::flush), 7, 0, 0});
  const auto rest = feed(u32(kFixedNewstyle | kNoZeroes) + option(Option::go, go_body("disk")) + after);
  EXPECT_EQ(rest, after);
  EXPECT_TRUE(server_->paused());
  EXPECT_EQ(out(), "");
  server_->accept(description_);
  EXPECT_FALSE(server_->paused());
  EXPECT_EQ(feed(rest), "");
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(ServerTest, ARefusedOpenCarriesCodeAndMessage) {
  answer_opens_ = false;
  start();
  out();
  feed(u32(kFixedNewstyle) + option(Option::go, go_body("disk")));
  server_->refuse(OptionReply::error_policy, "moor:old-epoch: go away");
  EXPECT_EQ(out(), option_reply(Option::go, OptionReply::error_policy, "moor:old-epoch: go away"));
  feed(option(Option::export_name, "disk"));
  server_->refuse(OptionReply::error_unknown, "no");
  collect();
  EXPECT_NE(failure_, "") << "EXPORT_NAME can only hang up";
}

TEST_F(ServerTest, TlsRequiredRefusesEverythingElseFirst) {
  start(TlsMode::required);
  out();
  feed(u32(kFixedNewstyle) + option(Option::list));
  EXPECT_EQ(out().substr(12, 4), u32(static_cast<std::uint32_t>(OptionReply::error_tls_required)));
  const auto rest = feed(option(Option::start_tls) + "cipher text");
  EXPECT_TRUE(tls_requested_);
  EXPECT_EQ(rest, "cipher text") << "bytes behind STARTTLS are not ours to read";
  EXPECT_EQ(out(), option_reply(Option::start_tls, OptionReply::ack));
  server_->tls_started();
  feed(option(Option::go, go_body("disk")));
  EXPECT_TRUE(server_->in_transmission());
}

TEST_F(ServerTest, WhatWasAgreedBeforeTlsIsForgotten) {
  start(TlsMode::offered);
  feed(u32(kFixedNewstyle) + option(Option::structured_reply) + option(Option::start_tls));
  server_->tls_started();
  feed(option(Option::go, go_body("disk")));
  EXPECT_FALSE(server_->structured());
}

TEST_F(ServerTest, ByteByByteGivesTheSameRequests) {
  const std::string payload(10'000, 'w');
  const std::string stream = raw({number(Command::write), 1, 4096, 10'000, kFlagFua, payload}) +
                             raw({number(Command::read), 2, 0, 512}) +
                             raw({number(Command::flush), 3, 0, 0}) +
                             raw({number(Command::write_zeroes), 4, 0, 4096, kFlagNoHole}) +
                             raw({number(Command::trim), 5, 0, 4096}) +
                             raw({number(Command::block_status), 6, 0, 4096, kFlagReqOne});
  for (const std::size_t piece : {1, 7, 29, 4096, 0}) {
    requests_.clear();
    server_.reset();
    negotiate(true, piece);
    EXPECT_EQ(feed(stream, piece), "");
    ASSERT_EQ(requests_.size(), 6u);
    EXPECT_EQ(requests_[0].payload.text(), payload);
    EXPECT_EQ(requests_[0].offset, 4096u);
    EXPECT_TRUE(requests_[0].has(kFlagFua));
    EXPECT_TRUE(requests_[1].is(Command::read));
    EXPECT_TRUE(requests_[3].has(kFlagNoHole));
    EXPECT_EQ(failure_, "");
  }
}

TEST_F(ServerTest, ALargePayloadIsReceivedInPlace) {
  negotiate();
  const std::string payload(100'000, 'z');
  feed(raw({number(Command::write), 1, 0, 100'000, 0, payload.substr(0, 10)}));
  const Slice space = server_->direct_space();
  ASSERT_EQ(space.size(), payload.size() - 10);
  std::memcpy(space.data(), payload.data() + 10, 50'000);
  server_->direct_filled(50'000);
  EXPECT_EQ(feed(payload.substr(50'010)), "");
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].payload.text(), payload);
}

TEST_F(ServerTest, RepliesAreStructuredWhenAgreed) {
  negotiate();
  feed(raw({number(Command::read), 11, 512, 4}) + raw({number(Command::flush), 12, 0, 0}));
  server_->reply_read(requests_[0].tag, pool_.copy_of(as_bytes("data")));
  EXPECT_EQ(out(), chunk(kReplyFlagDone, 1, 11, u64(512) + "data"));
  server_->reply_done(requests_[1].tag);
  EXPECT_EQ(out(), simple(0, 12));
}

TEST_F(ServerTest, RepliesAreSimpleWhenNot) {
  negotiate(false);
  feed(raw({number(Command::read), 11, 512, 4}) + raw({number(Command::read), 12, 0, 4}));
  server_->reply_read(requests_[0].tag, pool_.copy_of(as_bytes("data")));
  server_->reply_error(requests_[1].tag, kErrIo, "lost");
  EXPECT_EQ(out(), simple(0, 11) + "data" + simple(kErrIo, 12));
}

TEST_F(ServerTest, HolesAreChunksUnlessTheClientForbidsFragments) {
  negotiate();
  feed(raw({number(Command::read), 1, 0, 300}) + raw({number(Command::read), 2, 0, 300, kFlagDf}));
  const auto pieces = [&] {
    return std::vector<ReadPiece>{{100, pool_.copy_of(as_bytes(std::string(100, 'a')))}, {200, {}}};
  };
  server_->reply_read(requests_[0].tag, pieces());
  EXPECT_EQ(out(), chunk(0, 1, 1, u64(0) + std::string(100, 'a')) +
                       chunk(kReplyFlagDone, 2, 1, u64(100) + u32(200)));
  server_->reply_read(requests_[1].tag, pieces());
  EXPECT_EQ(out(), chunk(kReplyFlagDone, 1, 2, u64(0) + std::string(100, 'a') + std::string(200, '\0')));
}

TEST_F(ServerTest, BlockStatusIsMergedCutAndLimitedToOne) {
  negotiate();
  feed(raw({number(Command::block_status), 1, 0, 8192}) +
       raw({number(Command::block_status), 2, 0, 8192, kFlagReqOne}));
  const std::vector<BlockStatus> extents{{1000, false, false}, {3096, false, false}, {100'000, true, true}};
  server_->reply_block_status(requests_[0].tag, extents);
  EXPECT_EQ(out(), chunk(kReplyFlagDone, 5, 1, u32(1) + u32(4096) + u32(0) + u32(4096) + u32(3)));
  server_->reply_block_status(requests_[1].tag, extents);
  EXPECT_EQ(out(), chunk(kReplyFlagDone, 5, 2, u32(1) + u32(4096) + u32(0)));
}

TEST_F(ServerTest, WrongRequestsGetAnErrorAndTheStreamStaysInStep) {
  negotiate();
  struct Case {
    RawRequest request;
    std::uint32_t error;
  };
  const std::string payload(512, 'x');
  const Case cases[] = {
      {{number(Command::read), 1, kExportBytes, 1}, kErrInvalid},
      {{number(Command::read), 2, kExportBytes - 1, 2}, kErrInvalid},
      {{number(Command::read), 3, ~std::uint64_t{0}, 100}, kErrInvalid},
      {{number(Command::read), 4, 0, 0}, kErrInvalid},
      {{number(Command::write), 5, kExportBytes - 1, 512, 0, payload}, kErrNoSpace},
      {{number(Command::write), 6, 0, 512, 1 << 9, payload}, kErrInvalid},
      {{number(Command::write_zeroes), 7, 0, 512, kFlagFastZero}, kErrInvalid},
      {{number(Command::write_zeroes), 8, kExportBytes, 1}, kErrNoSpace},
      {{number(Command::trim), 9, kExportBytes, 1}, kErrInvalid},
      {{number(Command::flush), 10, 1, 1}, kErrInvalid},
      {{number(Command::cache), 11, 0, 512}, kErrInvalid},
      {{77, 12, 0, 512}, kErrInvalid},
      {{0x8001, 13, 0, 0}, kErrInvalid},
      {{number(Command::read), 14, 0, 512, kFlagNoHole}, kErrInvalid},
  };
  for (const std::size_t piece : {1, 0}) {
    for (const auto& [request, error] : cases) {
      feed(raw(request), piece);
      const auto reply = out();
      ASSERT_GE(reply.size(), kChunkHeaderBytes + 6) << request.cookie;
      EXPECT_EQ(reply.substr(8, 8), u64(request.cookie));
      EXPECT_EQ(reply.substr(20, 4), u32(error)) << request.cookie;
      EXPECT_TRUE(requests_.empty());
    }
  }
  feed(raw({number(Command::read), 99, 0, 512}));
  EXPECT_EQ(requests_.size(), 1u);
  EXPECT_EQ(failure_, "");
}

TEST_F(ServerTest, AReadOnlyExportTakesNoChange) {
  description_.read_only = true;
  negotiate();
  feed(raw({number(Command::write), 1, 0, 512, 0, std::string(512, 'x')}));
  EXPECT_EQ(out(), error_chunk(1, kErrPerm, "the export is read-only"));
  feed(raw({number(Command::read), 2, 0, 512}));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(ServerTest, RequestsOffTheMinimumBlockAreRefused) {
  description_.minimum_block = 512;
  negotiate();
  feed(raw({number(Command::read), 1, 100, 512}) + raw({number(Command::read), 2, 512, 512}));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].offset, 512u);
}

TEST_F(ServerTest, AnOversizedWriteIsDrainedAndAbsurdOnesEndTheConnection) {
  description_.size = 1ull << 40;
  negotiate();
  const std::uint32_t length = kMaxRequestBytes + 1;
  feed(raw({number(Command::write), 1, 0, length}));
  const std::string megabyte(1 << 20, 'x');
  for (std::uint32_t fed = 0; fed < length; fed += static_cast<std::uint32_t>(megabyte.size())) {
    feed(megabyte.substr(0, std::min<std::size_t>(megabyte.size(), length - fed)));
  }
  EXPECT_EQ(out(), error_chunk(1, kErrInvalid, "the payload is too long"));
  feed(raw({number(Command::write), 2, 0, 0xffffffff}));
  EXPECT_NE(failure_, "");
}

TEST_F(ServerTest, ARequestWithoutMagicEndsTheConnection) {
  negotiate();
  feed(std::string(28, '\0'));
  EXPECT_NE(failure_, "");
}

TEST_F(ServerTest, BlockStatusNeedsItsContextForThisVeryExport) {
  start();
  feed(u32(kFixedNewstyle) + option(Option::structured_reply) +
       option(Option::set_meta_context, context_body("other", {kAllocationContext})) +
       option(Option::go, go_body("disk")));
  out();
  feed(raw({number(Command::block_status), 1, 0, 4096}));
  EXPECT_EQ(out(), error_chunk(1, kErrInvalid, "a command that was not offered"));
}

TEST_F(ServerTest, MetaContextsNeedStructuredReplies) {
  start();
  out();
  feed(u32(kFixedNewstyle) + option(Option::set_meta_context, context_body("disk", {kAllocationContext})));
  EXPECT_EQ(out().substr(12, 4), u32(static_cast<std::uint32_t>(OptionReply::error_invalid)));
}

TEST_F(ServerTest, TooManyRequestsInFlightStopTheReading) {
  start(TlsMode::none, {2, 1 << 20, 1 << 20});
  negotiate();
  const auto one = [](std::uint64_t cookie) { return raw({number(Command::read), cookie, 0, 512}); };
  const auto rest = feed(one(1) + one(2) + one(3) + one(4));
  EXPECT_EQ(requests_.size(), 2u);
  EXPECT_EQ(rest, one(4)) << "the third is held inside, the fourth stays with the owner";
  EXPECT_TRUE(server_->paused());
  server_->reply_error(requests_[0].tag, kErrIo);
  EXPECT_FALSE(server_->paused());
  server_->feed({});
  collect();
  EXPECT_EQ(requests_.size(), 3u);
}

TEST_F(ServerTest, BytesInFlightAreBoundedButOneRequestAlwaysPasses) {
  start(TlsMode::none, {100, 1000, 1 << 20});
  negotiate();
  feed(raw({number(Command::read), 1, 0, 5000}) + raw({number(Command::read), 2, 0, 1}));
  ASSERT_EQ(requests_.size(), 1u);
  server_->reply_error(requests_[0].tag, kErrIo);
  server_->feed({});
  collect();
  EXPECT_EQ(requests_.size(), 2u);
}

TEST_F(ServerTest, AClientThatReadsNoRepliesIsNotReadFrom) {
  start(TlsMode::none, {100, 1 << 20, 10'000});
  negotiate();
  std::string rest;
  for (std::uint64_t cookie = 0; cookie < 100 && rest.empty(); ++cookie) {
    rest = feed(raw({number(Command::read), cookie, 0, 4096}));
    for (auto& request : std::exchange(requests_, {})) server_->reply_read(request.tag, pool_.allocate(4096));
  }
  EXPECT_NE(rest, "");
  EXPECT_LT(server_->out().bytes(), 20'000u);
  out();
  EXPECT_FALSE(server_->paused());
}

TEST_F(ServerTest, DisconnectWaitsForWhatIsInFlight) {
  negotiate();
  feed(raw({number(Command::flush), 1, 0, 0}) + raw({number(Command::disconnect), 0, 0, 0}));
  EXPECT_FALSE(disconnected_);
  server_->reply_done(requests_[0].tag);
  collect();
  EXPECT_TRUE(disconnected_);
  EXPECT_EQ(out(), simple(0, 1));
}

TEST_F(ServerTest, PrivateCommandsCarryBodiesWhereAgreed) {
  description_.private_commands = true;
  negotiate();
  feed(raw({0x8004, 1, 0, 5, 0, "hello"}) + raw({0x8008, 2, 0, 0}), 1);
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(requests_[0].payload.text(), "hello");
  server_->reply_done(requests_[0].tag);
  server_->reply_private(requests_[1].tag, as_bytes("answer"));
  EXPECT_EQ(out(),
            chunk(kReplyFlagDone, 0, 1, "") +
                chunk(kReplyFlagDone, static_cast<std::uint16_t>(ReplyType::private_body), 2, "answer"));
}

TEST_F(ServerTest, TheLastWordNamesTheReason) {
  negotiate();
  server_->farewell("moor:superseded: a newer engine serves");
  EXPECT_EQ(out(), error_chunk(kFarewellCookie, kErrShutdown, "moor:superseded: a newer engine serves"));
  EXPECT_EQ(feed(raw({number(Command::read), 1, 0, 512})), "");
  EXPECT_TRUE(requests_.empty()) << "nothing is taken after the last word";
}

TEST_F(ServerTest, AnsweringTwiceIsABugOfOurs) {
  negotiate();
  feed(raw({number(Command::flush), 1, 0, 0}));
  server_->reply_done(requests_[0].tag);
  EXPECT_DEATH(server_->reply_done(requests_[0].tag), "not in flight");
}

}  // namespace
}  // namespace moor::block::nbd
