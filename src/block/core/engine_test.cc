// Single behaviours of the engine core, against members that answer only when told to.
#include "block/core/engine.h"

#include <gtest/gtest.h>
#include <cerrno>
#include <cstring>
#include <deque>

namespace moor::block::engine {

namespace {

using std::chrono::milliseconds;

struct Sent {
  MemberIndex member;
  SessionId session;
  PeerRequest request;
};

// Two members; private commands are answered at once, data requests wait for answer().
class EngineTest : public ::testing::Test {
 protected:
  void begin(std::uint32_t members = 2) {
    Config config;
    config.volume = "v";
    config.epoch = 7;
    config.engine = "e";
    config.fresh_export_id = "x7";
    config.clear_interval = Instant(0);
    for (std::uint32_t i = 0; i < members; ++i) {
      MemberConfig member;
      member.name = std::string(1, static_cast<char>('a' + i));
      config.members.push_back(member);
    }
    engine_.emplace(std::move(config), pool_);
    feed(Started{});
  }
  void feed(Event event) {
    Actions actions;
    engine_->step(std::move(event), now_, actions);
    for (Action& action : actions) perform(action);
    while (!later_.empty()) {
      Event next = std::move(later_.front());
      later_.pop_front();
      feed(std::move(next));
    }
  }
  void perform(Action& action) {
    if (auto* connect = std::get_if<Connect>(&action)) {
      HelloAnswer answer;
      answer.size = 64 << 20;
      answer.served = 3;
      sessions_[connect->member] = connect->hello.session;
      later_.push_back(PeerConnected{connect->member, connect->hello.session, answer});
    } else if (auto* send = std::get_if<SendPeer>(&action)) {
      const bool data = static_cast<std::uint16_t>(send->request.op) < 0x8000;
      if (data && serving_) {
        sent_.push_back({send->member, send->session, send->request});
      } else {
        PeerReplied replied{send->member, send->session, {}, {}};
        replied.reply.id = send->request.id;
        later_.push_back(std::move(replied));
      }
    } else if (auto* propose = std::get_if<Propose>(&action)) {
      proposals_.push_back(*propose);
    } else if (auto* reply = std::get_if<ReplyClient>(&action)) {
      replies_.push_back(reply->reply);
    } else if (std::get_if<Serve>(&action) != nullptr) {
      serving_ = true;
    } else if (auto* exit = std::get_if<Exit>(&action)) {
      exit_ = *exit;
    } else if (auto* done = std::get_if<CommandDone>(&action)) {
      done_.push_back(*done);
    }
  }
  void client(ClientOp op, std::uint64_t offset, std::uint32_t length, std::uint64_t cookie) {
    ClientRequest request;
    request.connection = 1;
    request.cookie = cookie;
    request.op = op;
    request.offset = offset;
    request.length = length;
    if (op == ClientOp::write) request.payload = pool_.allocate(length);
    feed(ClientRequested{std::move(request)});
  }
  std::size_t sent_to(MemberIndex member) const {
    return static_cast<std::size_t>(
        std::count_if(sent_.begin(), sent_.end(), [&](const Sent& s) { return s.member == member; }));
  }
  void answer(MemberIndex member, std::uint32_t error = 0) {
    const auto found =
        std::find_if(sent_.begin(), sent_.end(), [&](const Sent& s) { return s.member == member; });
    ASSERT_NE(found, sent_.end());
    const Sent sent = *found;
    sent_.erase(found);
    PeerReplied replied{sent.member, sent.session, {}, {}};
    replied.reply.id = sent.request.id;
    replied.reply.error = error;
    if (sent.request.op == PeerOp::read) replied.payload = pool_.allocate(sent.request.length);
    feed(std::move(replied));
  }
  void lose(MemberIndex member, PeerRefusal reason = PeerRefusal::none) {
    std::erase_if(sent_, [&](const Sent& s) { return s.member == member; });
    feed(PeerLost{member, sessions_[member], reason, ""});
  }

  BufferPool pool_;
  std::optional<Engine> engine_;
  Instant now_{milliseconds(1)};
  std::map<MemberIndex, SessionId> sessions_;
  std::deque<Event> later_;
  std::deque<Sent> sent_;
  std::vector<Propose> proposals_;
  std::vector<ClientReply> replies_;
  std::vector<CommandDone> done_;
  std::optional<Exit> exit_;
  bool serving_ = false;
};

}  // namespace

TEST_F(EngineTest, AWriteIsAcknowledgedWhenEveryMemberHasIt) {
  begin();
  ASSERT_TRUE(serving_);
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  EXPECT_TRUE(replies_.empty());
  answer(1);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].error, 0u);
}

TEST_F(EngineTest, AReadWaitsForTheWriteItOverlaps) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  client(ClientOp::read, 2048, 512, 2);
  client(ClientOp::read, 8192, 512, 3);
  EXPECT_EQ(sent_.size(), 3u);  // the write twice, and the read elsewhere
  answer(0);
  answer(1);
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_EQ(sent_to(0) + sent_to(1), 2u);
}

TEST_F(EngineTest, OverlappingWritesGoOutOneAfterTheOther) {
  begin();
  client(ClientOp::write, 0, 8192, 1);
  client(ClientOp::write, 4096, 8192, 2);
  EXPECT_EQ(sent_.size(), 2u);
  answer(0);
  answer(1);
  EXPECT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_.front().request.offset, 4096u);
}

TEST_F(EngineTest, NothingIsAcknowledgedUntilTheGrantNamesTheLostMember) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  lose(1);
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(proposals_[0].next.members.at("b"), MemberMode::err);
  client(ClientOp::flush, 0, 0, 2);
  answer(0);
  client(ClientOp::read, 65536, 512, 3);
  answer(0);
  ASSERT_EQ(replies_.size(), 1u);  // only the read
  EXPECT_EQ(replies_[0].cookie, 3u);
  EXPECT_EQ(engine_->status().state, State::stalled);
  feed(MembershipConfirmed{proposals_[0].proposal});
  EXPECT_EQ(replies_.size(), 3u);
  EXPECT_EQ(engine_->status().state, State::serving);
}

TEST_F(EngineTest, ARefusedProposalIsMadeAgain) {
  begin();
  lose(0);
  ASSERT_EQ(proposals_.size(), 1u);
  feed(MembershipRefused{proposals_[0].proposal, "busy"});
  EXPECT_EQ(proposals_.size(), 1u);
  now_ = *engine_->next_wake();
  feed(Tick{});
  ASSERT_EQ(proposals_.size(), 2u);
  feed(MembershipConfirmed{proposals_[0].proposal});  // an answer to the old one means nothing
  EXPECT_EQ(engine_->status().state, State::stalled);
}

TEST_F(EngineTest, TheLastMemberIsNeverSetErr) {
  begin(1);
  client(ClientOp::write, 0, 4096, 1);
  lose(0);
  EXPECT_TRUE(proposals_.empty());
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].error, static_cast<std::uint32_t>(EIO));
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::faulted);
}

TEST_F(EngineTest, ASupersededEngineIsSilent) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  client(ClientOp::read, 65536, 512, 2);
  lose(0, PeerRefusal::superseded);
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
  EXPECT_TRUE(replies_.empty());
  EXPECT_TRUE(proposals_.empty());
}

TEST_F(EngineTest, AMemberThatFailsAWriteIsLost) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  answer(1, ENOSPC);
  EXPECT_TRUE(replies_.empty());
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(proposals_[0].next.members.at("b"), MemberMode::err);
}

TEST_F(EngineTest, AReadThatFailsIsTriedOnAnotherMember) {
  begin();
  client(ClientOp::read, 0, 4096, 1);
  const MemberIndex first = sent_.front().member;
  answer(first, EIO);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_NE(sent_.front().member, first);
  answer(sent_.front().member);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].error, 0u);
}

TEST_F(EngineTest, FreezeDrainsFlushesAndHoldsWritesBack) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  feed(Commanded{9, Freeze{}});
  client(ClientOp::write, 8192, 4096, 2);
  EXPECT_EQ(sent_.size(), 2u);
  answer(0);
  answer(1);
  EXPECT_TRUE(done_.empty());
  answer(0);  // the flush
  answer(1);
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_TRUE(sent_.empty());
  feed(Commanded{10, Thaw{}});
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(EngineTest, FastZeroWithoutAHoleIsRefusedHonestly) {
  begin();
  ClientRequest request;
  request.connection = 1;
  request.op = ClientOp::write_zeroes;
  request.length = 4096;
  request.fast_zero = request.no_hole = true;
  feed(ClientRequested{std::move(request)});
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0].error, static_cast<std::uint32_t>(ENOTSUP));
}

TEST_F(EngineTest, ShutdownWaitsForRequestsAndFlushes) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  feed(Commanded{9, Shutdown{}});
  EXPECT_FALSE(exit_);
  answer(0);
  answer(1);
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_FALSE(exit_);
  answer(0);
  answer(1);
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::drained);
}

TEST_F(EngineTest, ASilentMemberCountsAsLost) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  now_ += std::chrono::seconds(21);
  feed(Tick{});
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(proposals_[0].next.members.at("b"), MemberMode::err);
}

TEST(EngineHistogram, CountsByPowersOfTwo) {
  Histogram histogram;
  histogram.add(Instant(0));
  histogram.add(Instant(1000));
  histogram.add(Instant(1023));
  EXPECT_EQ(histogram.buckets()[0], 1u);
  EXPECT_EQ(histogram.buckets()[9], 2u);
  EXPECT_EQ(histogram.quantile(0.99), Instant(1024));
}

}  // namespace moor::block::engine
