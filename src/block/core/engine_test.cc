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
    config.hold_when_superseded = hold_when_superseded_;
    for (std::uint32_t i = 0; i < members; ++i) {
      MemberConfig member;
      member.name = std::string(1, static_cast<char>('a' + i));
      config.members.push_back(member);
    }
    engine_.emplace(std::move(config), pool_);
    feed(Started{});
  }
  void reset() {
    engine_.reset();
    sessions_.clear();
    sent_.clear();
    asked_.clear();
    replies_.clear();
    exit_.reset();
    serving_ = false;
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
      EXPECT_GT(connect->hello.session, sessions_[connect->member]);
      sessions_[connect->member] = connect->hello.session;
      if (serving_) return asked_.push_back(connect->member);  // the test answers
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
    } else if (auto* cut = std::get_if<Disconnect>(&action)) {
      disconnected_[cut->member] = cut->session;
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
  void refuse(MemberIndex member, PeerRefusal reason) {
    feed(PeerRefused{member, sessions_[member], reason, ""});
  }

  BufferPool pool_;
  std::optional<Engine> engine_;
  Instant now_{milliseconds(1)};
  std::map<MemberIndex, SessionId> sessions_;
  std::map<MemberIndex, SessionId> disconnected_;
  std::vector<MemberIndex> asked_;  // connections that are opened while it serves
  std::deque<Event> later_;
  std::deque<Sent> sent_;
  std::vector<Propose> proposals_;
  std::vector<ClientReply> replies_;
  std::vector<CommandDone> done_;
  std::optional<Exit> exit_;
  bool serving_ = false;
  bool hold_when_superseded_ = false;
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
  refuse(0, PeerRefusal::none);
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

TEST_F(EngineTest, AnEngineThatMissedTheLastWordAsksForIt) {
  for (const PeerRefusal word : {PeerRefusal::old_epoch, PeerRefusal::other_engine, PeerRefusal::old_session,
                                 PeerRefusal::superseded}) {
    reset();
    begin(3);
    client(ClientOp::write, 0, 4096, 1);
    answer(0);
    answer(1);
    lose(0);
    lose(1);
    EXPECT_TRUE(asked_.empty());  // one can still be read
    lose(2);
    EXPECT_EQ(asked_, (std::vector<MemberIndex>{0, 1, 2}));
    client(ClientOp::read, 65536, 512, 2);
    refuse(1, PeerRefusal::none);
    EXPECT_FALSE(exit_);
    refuse(0, word);
    ASSERT_TRUE(exit_);
    EXPECT_EQ(exit_->reason, ExitReason::superseded);
    EXPECT_TRUE(replies_.empty());
  }
}

TEST_F(EngineTest, AHeldSourceKeepsItsClientsWhenItHadToAsk) {
  hold_when_superseded_ = true;
  begin();
  client(ClientOp::write, 0, 4096, 1);
  lose(0);
  lose(1);
  client(ClientOp::read, 0, 512, 2);
  refuse(1, PeerRefusal::old_epoch);
  EXPECT_FALSE(exit_);
  EXPECT_EQ(engine_->status().state, State::superseded);
  EXPECT_EQ(engine_->status().operations, 2u);
  EXPECT_TRUE(replies_.empty());
}

TEST_F(EngineTest, OnlyThoseThatWentWithoutAWordAreAsked) {
  begin(3);
  lose(0);
  feed(MembershipConfirmed{proposals_.at(0).proposal});  // long settled when the others go
  lose(1);
  lose(2, PeerRefusal::shutting_down);
  EXPECT_EQ(asked_, (std::vector<MemberIndex>{1}));
  refuse(1, PeerRefusal::old_epoch);
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
}

TEST_F(EngineTest, ALastWordThatIsNoFenceIsAFaultAtOnce) {
  begin(1);
  lose(0, PeerRefusal::shutting_down);
  EXPECT_TRUE(asked_.empty());
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::faulted);
}

TEST_F(EngineTest, AMemberThatTakesTheQuestionIsLetGoBeforeTheFault) {
  begin(1);
  client(ClientOp::write, 0, 4096, 1);
  lose(0);
  client(ClientOp::read, 0, 512, 2);
  HelloAnswer answer;
  answer.size = 64 << 20;
  feed(PeerConnected{0, sessions_[0], answer});
  EXPECT_EQ(disconnected_[0], sessions_[0]);
  EXPECT_TRUE(sent_.empty());
  ASSERT_EQ(replies_.size(), 2u);
  for (const ClientReply& reply : replies_) EXPECT_EQ(reply.error, static_cast<std::uint32_t>(EIO));
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::faulted);
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(EngineTest, AQuestionWithoutAnAnswerEndsInTime) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  lose(0);
  lose(1);
  const Instant asked = now_;
  for (int turns = 0; turns < 10 && !exit_; ++turns) {
    EXPECT_TRUE(replies_.empty());
    now_ = engine_->next_wake().value();
    feed(Tick{});
  }
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::faulted);
  EXPECT_EQ(now_ - asked, Config{}.ask_wait);
  EXPECT_EQ(replies_.size(), 1u);
}

TEST_F(EngineTest, WhileItAsksOnlyShutdownIsTaken) {
  begin();
  feed(Commanded{1, Freeze{}});
  client(ClientOp::write, 0, 4096, 1);
  lose(0);
  lose(1);
  EXPECT_EQ(engine_->status().state, State::stalled);
  EXPECT_NE(engine_->status().detail.find("asks a, b"), std::string::npos) << engine_->status().detail;
  done_.clear();
  feed(Commanded{2, SnapshotCreate{"s", "", {}, true}});
  feed(Commanded{3, RemoveMember{"a"}});
  feed(Commanded{4, AddMember{}});
  ASSERT_EQ(done_.size(), 3u);
  for (const CommandDone& done : done_) EXPECT_EQ(done.error, static_cast<std::uint32_t>(EAGAIN));
  feed(MembershipConfirmed{proposals_.at(0).proposal});
  feed(Commanded{5, Shutdown{}});
  EXPECT_FALSE(exit_);  // it would not be a clean end; the question is bounded
  feed(Commanded{6, Shutdown{true}});
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::forced);
  EXPECT_EQ(done_.size(), 5u);
}

TEST_F(EngineTest, AMemberThatIsJustBeingAddedDoesNotDisturbTheQuestion) {
  begin(1);
  MemberConfig added;
  added.name = "z";
  feed(Commanded{1, AddMember{added}});
  EXPECT_EQ(asked_, (std::vector<MemberIndex>{1}));
  lose(0);
  HelloAnswer answer;
  answer.size = 64 << 20;
  feed(PeerConnected{1, sessions_[1], answer});
  EXPECT_FALSE(exit_);
  EXPECT_EQ(disconnected_[1], sessions_[1]);
  refuse(0, PeerRefusal::old_epoch);
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
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

TEST_F(EngineTest, AsksForNoMoreRequestsWhileItHoldsEnough) {
  begin();
  constexpr std::uint32_t kMebibyte = 1u << 20;
  for (std::uint64_t i = 0; i < 3; ++i) client(ClientOp::write, i * kMebibyte, kMebibyte, i);
  EXPECT_TRUE(engine_->wants_requests());
  client(ClientOp::read, 8 * kMebibyte, kMebibyte, 9);  // its answer will take memory too
  EXPECT_FALSE(engine_->wants_requests());
  answer(0);
  answer(1);
  EXPECT_TRUE(engine_->wants_requests());
  // Writes that wait for the Grant must not keep reads out.
  client(ClientOp::write, 16 * kMebibyte, 2 * kMebibyte, 10);
  EXPECT_FALSE(engine_->wants_requests());
  lose(1);
  EXPECT_TRUE(engine_->wants_requests());
}

TEST_F(EngineTest, AnAddedMemberTakesWritesOnceTheGrantCallsItWo) {
  begin();
  MemberConfig added;
  added.name = "z";
  feed(Commanded{1, AddMember{added}});
  ASSERT_EQ(asked_, (std::vector<MemberIndex>{2}));
  client(ClientOp::write, 0, 4096, 1);
  EXPECT_EQ(sent_to(2), 0u);
  HelloAnswer hello;
  hello.size = 64 << 20;
  feed(PeerConnected{2, sessions_[2], hello});  // it stores that it is being rebuilt; then the Grant is asked
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(proposals_[0].next.members.at("z"), MemberMode::wo);
  EXPECT_TRUE(done_.empty());
  feed(MembershipConfirmed{proposals_[0].proposal});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].error, 0u);
  // The write that was under way reaches it before the client hears; the next one goes to all at once.
  answer(0);
  answer(1);
  EXPECT_TRUE(replies_.empty());
  answer(2);
  EXPECT_EQ(replies_.size(), 1u);
  client(ClientOp::write, 8192, 4096, 2);
  EXPECT_EQ(sent_to(2), 1u);
  // It holds no data yet: it is never read from.
  for (std::uint64_t i = 0; i < 6; ++i) client(ClientOp::read, 1 << 20, 4096, 10 + i);
  EXPECT_EQ(sent_to(2), 1u);
}

TEST_F(EngineTest, AMemberOfAnotherSizeIsNotAdded) {
  begin();
  MemberConfig added;
  added.name = "z";
  feed(Commanded{1, AddMember{added}});
  HelloAnswer hello;
  hello.size = 32 << 20;
  feed(PeerConnected{2, sessions_[2], hello});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].error, static_cast<std::uint32_t>(EIO));
  EXPECT_TRUE(proposals_.empty());
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  answer(1);
  EXPECT_EQ(replies_.size(), 1u);
  added.name = "a";
  feed(Commanded{2, AddMember{added}});
  ASSERT_EQ(done_.size(), 2u);
  EXPECT_EQ(done_[1].error, static_cast<std::uint32_t>(EEXIST));
}

TEST_F(EngineTest, ARemovedMemberLeavesTheGrantBeforeAnythingIsAcknowledged) {
  begin();
  client(ClientOp::write, 0, 4096, 1);
  answer(0);
  feed(Commanded{5, RemoveMember{"b"}});
  std::erase_if(sent_, [](const Sent& s) { return s.member == 1; });
  EXPECT_TRUE(replies_.empty());
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_FALSE(proposals_[0].next.members.contains("b"));
  feed(MembershipConfirmed{proposals_[0].proposal});
  EXPECT_EQ(replies_.size(), 1u);
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].error, 0u);
  EXPECT_EQ(engine_->status().members.size(), 1u);
  feed(Commanded{6, RemoveMember{"a"}});
  feed(Commanded{7, RemoveMember{"b"}});
  ASSERT_EQ(done_.size(), 3u);
  EXPECT_EQ(done_[1].error, static_cast<std::uint32_t>(EBUSY));
  EXPECT_EQ(done_[2].error, static_cast<std::uint32_t>(ENOENT));
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
