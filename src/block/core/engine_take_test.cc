// The source of a move, one rule at a time: read through, superseded, held, rolled back.
#include <gtest/gtest.h>

#include "block/core/engine_test_move.h"

namespace moor::block::engine {

namespace {

using test_move::kSize;
using test_move::Move;

Hello forward_hello(const std::string& token = "secret") {
  Hello hello;
  hello.volume = "v";
  hello.epoch = 8;
  hello.engine = "d";
  hello.session = 1;
  hello.mode = HelloMode::forward;
  hello.token = token;
  return hello;
}

TEST_F(Move, OnlyAStandbyOfThisVolumeReadsThroughTheSource) {
  begin();
  feed(ForwardOpened{1, forward_hello("wrong")});
  Hello other = forward_hello();
  other.volume = "w";
  feed(ForwardOpened{2, other});
  Hello active = forward_hello();
  active.mode = HelloMode::active;
  feed(ForwardOpened{3, active});
  ASSERT_EQ(refused_.size(), 3u);
  EXPECT_EQ(refused_[0].reason, PeerRefusal::wrong_token);
  EXPECT_EQ(refused_[1].reason, PeerRefusal::wrong_volume);
  feed(ForwardOpened{4, forward_hello()});
  ASSERT_EQ(accepted_.size(), 1u);
  EXPECT_EQ(accepted_[0].answer.size, kSize);
  EXPECT_EQ(accepted_[0].export_id, "x");
  EXPECT_EQ(engine_->status().forwards, 1u);
}

TEST_F(Move, AForwardingSessionReadsAndCannotWrite) {
  begin();
  feed(ForwardOpened{1, forward_hello()});
  PeerRequest request;
  request.length = 512;
  for (const PeerOp op : {PeerOp::read, PeerOp::write, PeerOp::trim, PeerOp::write_zeroes, PeerOp::flush,
                          PeerOp::snapshot_create, PeerOp::chain}) {
    ++request.id;
    request.op = op;
    feed(ForwardRequested{1, request});
  }
  ASSERT_EQ(sent_.size(), 1u) << "one read, to one member";
  ASSERT_EQ(forward_replies_.size(), 6u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(forward_replies_[i].reply.error, std::uint32_t{EPERM});
  EXPECT_TRUE(forward_replies_[5].reply.state.has_value());
  answer_all();
  ASSERT_EQ(forward_replies_.size(), 7u);
  EXPECT_EQ(forward_replies_[6].payload.size(), 512u);
  EXPECT_TRUE(replies_.empty());
}

TEST_F(Move, AForwardedReadWaitsForAnOverlappingWrite) {
  begin();
  feed(ForwardOpened{1, forward_hello()});
  client(ClientOp::write, 0, 4096, 1);
  PeerRequest request;
  request.id = 5;
  request.length = 512;
  feed(ForwardRequested{1, request});
  EXPECT_EQ(sent_.size(), 2u) << "the write, twice";
  answer_all();
  EXPECT_TRUE(is_answered(1));
  EXPECT_EQ(forward_replies_.size(), 1u);
}

TEST_F(Move, ASupersededSourceAnswersNoReadOfAStandby) {
  config_.hold_when_superseded = true;
  begin();
  feed(ForwardOpened{1, forward_hello()});
  PeerRequest request;
  request.length = 512;
  feed(ForwardRequested{1, request});
  supersede();
  for (const PeerOp op : {PeerOp::read, PeerOp::block_status, PeerOp::chain}) {
    request.op = op;
    feed(ForwardRequested{1, request});
  }
  ASSERT_EQ(forward_replies_.size(), 4u);
  for (const ForwardReply& reply : forward_replies_) EXPECT_EQ(reply.reply.error, std::uint32_t{ESHUTDOWN});
  EXPECT_TRUE(forward_ends_.empty()) << "the one that took over asks what is unsettled";
  feed(ForwardOpened{2, forward_hello()});
  EXPECT_EQ(refused_.back().reason, PeerRefusal::superseded);
  feed(ForwardClosed{1});
}

TEST_F(Move, AForwardedReadIsNotFailedByTheSourcesFault) {
  begin();
  feed(ForwardOpened{1, forward_hello()});
  PeerRequest request;
  request.length = 512;
  feed(ForwardRequested{1, request});
  client(ClientOp::read, 4096, 512, 1);
  feed(PeerLost{0, sessions_[0], PeerRefusal::shutting_down, ""});
  feed(PeerLost{1, sessions_[1], PeerRefusal::shutting_down, ""});
  ASSERT_TRUE(exit_);
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_TRUE(forward_replies_.empty());
  EXPECT_EQ(forward_ends_.size(), 1u);
}

TEST_F(Move, WithoutAMoveASupersededEngineEnds) {
  begin();
  supersede();
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
}

TEST_F(Move, AHeldEngineKeepsItsClientsUntilTheHoldEnds) {
  begin();
  EXPECT_EQ(command(HoldClients{true}), 0u);
  client(ClientOp::write, 0, 512, 1);
  answer(0);
  supersede();
  EXPECT_FALSE(exit_);
  EXPECT_EQ(state(), State::superseded);
  client(ClientOp::read, 0, 512, 2);
  client(ClientOp::flush, 0, 0, 3);
  EXPECT_TRUE(replies_.empty()) << "neither done nor failed";
  EXPECT_EQ(command(HoldClients{false}), 0u);
  EXPECT_TRUE(is_answered(1, EIO) && is_answered(2, EIO) && is_answered(3, EIO));
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
}

TEST_F(Move, AHeldEngineTakesBackWhatItHadProposed) {
  config_.hold_when_superseded = true;
  begin();
  confirms_ = false;
  feed(PeerLost{0, sessions_[0], PeerRefusal::none, ""});
  ASSERT_NE(engine_->open_proposal(), nullptr);
  feed(Superseded{"the Grant names another", 0});
  EXPECT_EQ(state(), State::superseded);
  EXPECT_EQ(engine_->open_proposal(), nullptr) << "its agent would answer it again and again";
}

TEST_F(Move, AHeldEngineThatIsAskedToEndFailsItsClients) {
  config_.hold_when_superseded = true;
  begin();
  client(ClientOp::write, 0, 512, 1);
  supersede();
  command(Shutdown{});
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_TRUE(exit_);
}

TEST_F(Move, ARollbackSendsEveryUnacknowledgedWriteToEveryMemberAgain) {
  config_.hold_when_superseded = true;
  answers_[0].wrote = answers_[1].wrote = 7;  // our own
  begin();
  client(ClientOp::write, 513, 77, 1);
  client(ClientOp::trim, 1 << 20, 4096, 2);
  client(ClientOp::write_zeroes, 2 << 20, 4096, 3);
  client(ClientOp::write, 600, 10, 4);  // waits for the first
  client(ClientOp::read, 4 << 20, 512, 5);
  answer(0);  // answers of the old epoch count for nothing
  answer(1);
  ASSERT_TRUE(replies_.contains(1)) << "acknowledged before the fence";
  client(ClientOp::write, 8 << 20, 512, 6);
  answer(0);
  supersede();
  client(ClientOp::write, 9 << 20, 512, 7);     // came while superseded
  answers_[0].served = answers_[1].served = 8;  // the destination had begun
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(hellos_[0].epoch, 9u);
  EXPECT_EQ(engine_->status().epoch, 9u);
  EXPECT_TRUE(ends_.empty()) << "sessions go on";
  for (const MemberIndex member : {0u, 1u}) {
    std::vector<std::uint64_t> writes;
    for (const test_move::Sent& sent : sent_to(member)) {
      if (sent.request.op != PeerOp::read) writes.push_back(sent.request.offset);
    }
    std::sort(writes.begin(), writes.end());
    EXPECT_EQ(writes, (std::vector<std::uint64_t>{600, 1 << 20, 2 << 20, 8 << 20, 9 << 20}));
  }
  EXPECT_EQ(replies_.size(), 1u);
  answer_all();
  for (std::uint64_t cookie = 1; cookie <= 7; ++cookie) EXPECT_TRUE(is_answered(cookie)) << cookie;
  EXPECT_EQ(serves_.back().export_id, "x");
}

TEST_F(Move, OverlappingWritesKeepTheirOrderWhenTheyAreSentAgain) {
  config_.hold_when_superseded = true;
  begin();
  client(ClientOp::write, 0, 4096, 1);
  client(ClientOp::write, 512, 512, 2);
  client(ClientOp::read, 0, 4096, 3);
  supersede();
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  ASSERT_EQ(sent_.size(), 2u) << "the first only, to both";
  EXPECT_EQ(sent_[0].request.length, 4096u);
  answer_all();
  EXPECT_EQ(order_, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(Move, ARollbackAfterTheDestinationWroteEndsTheSessions) {
  for (const Epoch wrote : {Epoch{8}, Epoch{12}}) {  // it may have died and come back with another epoch
    for (const MemberIndex who : {0u, 1u}) {
      sessions_.clear();
      replies_.clear();
      sent_.clear();
      ends_.clear();
      proposals_.clear();
      answers_[0].wrote = answers_[1].wrote = 7;
      config_.hold_when_superseded = true;
      begin();
      client(ClientOp::write, 0, 512, 1);
      supersede();
      client(ClientOp::read, 0, 512, 2);
      answers_[who].wrote = wrote;
      EXPECT_EQ(command(TakeEpoch{13, grant(), 0}), 0u);
      EXPECT_TRUE(is_answered(1, EIO) && is_answered(2, EIO));
      EXPECT_EQ(ends_, std::vector<bool>{true});
      EXPECT_TRUE(sent_.empty()) << "nothing of the old sessions may follow the destination's write";
      ASSERT_EQ(proposals_.size(), 1u);
      EXPECT_EQ(proposals_[0].next.export_id, "v-13");
      EXPECT_EQ(serves_.back().export_id, "v-13");
      EXPECT_TRUE(serves_.back().missed_writes);
      EXPECT_EQ(state(), State::serving);
    }
  }
}

TEST_F(Move, ARollbackWithoutAContinuousMemberEndsTheSessions) {
  config_.hold_when_superseded = true;
  begin();
  client(ClientOp::write, 0, 512, 1);
  supersede();
  answers_[0].served = answers_[1].served = 0;
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_EQ(serves_.back().export_id, "v-9");
}

TEST_F(Move, AResyncIsNobodysWrite) {
  config_.hold_when_superseded = true;
  answers_[0].wrote = answers_[1].wrote = 7;
  begin();
  client(ClientOp::write, 0, 512, 1);
  supersede();
  answers_[0].dirty = answers_[1].dirty = {0};
  silent_[1] = true;
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  feed(PeerConnected{1, sessions_[1], answers_[1], ""});
  EXPECT_EQ(state(), State::serving);
  EXPECT_GT(resync_writes_, 0);  // each says that it is a copy
  EXPECT_TRUE(ends_.empty());
  // What was sent again after it is the client's, and ours: no mark of 9 is anybody else's.
  ASSERT_FALSE(sent_to(0).empty());
  EXPECT_FALSE(sent_to(0).back().request.copy);
  supersede();
  answers_[0].wrote = answers_[1].wrote = 9;
  EXPECT_EQ(command(TakeEpoch{11, grant(4), 0}), 0u);
  feed(PeerConnected{1, sessions_[1], answers_[1], ""});
  EXPECT_TRUE(ends_.empty());
  supersede();
  answers_[0].wrote = 12;
  EXPECT_EQ(command(TakeEpoch{13, grant(4), 0}), 0u);
  feed(PeerConnected{1, sessions_[1], answers_[1], ""});
  EXPECT_EQ(ends_, std::vector<bool>{true});
}

TEST_F(Move, AWriteSeenOnceIsNotForgottenWhenItsMemberIsLost) {
  config_.hold_when_superseded = true;
  answers_[0].wrote = answers_[1].wrote = 7;
  begin();
  client(ClientOp::write, 0, 512, 1);
  supersede();
  answers_[0].wrote = 8;
  answers_[0].dirty = answers_[1].dirty = {0};
  confirms_ = false;
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  ASSERT_EQ(proposals_.size(), 1u);
  feed(PeerLost{0, sessions_[0], PeerRefusal::none, ""});  // the one that knew
  silent_[0] = true;
  confirms_ = true;
  feed(MembershipConfirmed{proposals_[0].proposal});
  now_ += config_.start_wait;
  feed(Tick{});
  now_ += config_.start_wait;
  feed(Tick{});
  EXPECT_EQ(state(), State::serving);
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_EQ(serves_.back().export_id, "v-9");
}

TEST_F(Move, ARollbackBeforeTheActivationFindsAServingSource) {
  begin();
  client(ClientOp::write, 0, 512, 1);
  answer(0);
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  EXPECT_EQ(sent_to(0).size(), 1u);
  EXPECT_EQ(sent_to(1).size(), 1u);
  answer_all();
  EXPECT_TRUE(is_answered(1));
  EXPECT_TRUE(ends_.empty());
}

TEST_F(Move, ALateWordAboutTheOldEpochDoesNotSupersedeTheNewOne) {
  config_.hold_when_superseded = true;
  begin();
  supersede();
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  feed(Superseded{"the Grant names another engine", 7});  // the answer to a proposal of then
  EXPECT_EQ(state(), State::serving);
  feed(Superseded{"the Grant names another engine", 9});
  EXPECT_EQ(state(), State::superseded);
}

TEST_F(Move, AnEngineThatWasAskedToEndTakesNoEpoch) {
  begin();
  client(ClientOp::write, 0, 512, 1);
  feed(Commanded{1, Shutdown{}});
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), std::uint32_t{EAGAIN}) << "it drains";
  sessions_.clear();
  sent_.clear();
  begin();
  silent_[0] = silent_[1] = true;
  feed(PeerLost{0, sessions_[0], PeerRefusal::none, ""});
  feed(PeerLost{1, sessions_[1], PeerRefusal::none, ""});
  feed(Commanded{2, Shutdown{}});
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), std::uint32_t{EAGAIN})
      << "it waits for a last answer, then ends";
}

TEST_F(Move, EpochsThatCannotBeTaken) {
  begin();
  EXPECT_EQ(command(TakeEpoch{7, grant(), 0}), std::uint32_t{ESTALE});
  EXPECT_EQ(command(TakeEpoch{9, std::nullopt, 0}), std::uint32_t{EINVAL});
  EXPECT_EQ(command(TakeEpoch{9, grant(4), 0}), 0u);
  const int connects = connects_[0];
  EXPECT_EQ(command(TakeEpoch{9, grant(4), 0}), 0u) << "asked again";
  EXPECT_EQ(connects_[0], connects);
  EXPECT_EQ(command(TakeEpoch{8, grant(4), 0}), std::uint32_t{ESTALE});
  EXPECT_EQ(command(TakeEpoch{10, grant(3), 0}), std::uint32_t{EINVAL}) << "a Grant from before";
}

TEST_F(Move, ARollbackGoesByTheMembersOfTheGrant) {
  config_.hold_when_superseded = true;
  begin();
  client(ClientOp::write, 0, 512, 1);
  supersede();
  GrantView view = grant(9);
  view.members[1].mode = MemberMode::err;
  const int before = connects_[1];
  EXPECT_EQ(command(TakeEpoch{9, view, 0}), 0u);
  EXPECT_EQ(connects_[1], before);
  EXPECT_EQ(sent_to(1).size(), 0u);
  answer_all();
  EXPECT_TRUE(is_answered(1));
}

TEST_F(Move, ARollbackAbandonsWhatTheOldEpochWasDoing) {
  config_.hold_when_superseded = true;
  begin();
  feed(Commanded{1, Freeze{}});
  feed(Commanded{2, SnapshotCreate{"s", "", {}, true}});
  MemberConfig joining;
  joining.name = "c";
  feed(Commanded{3, AddMember{joining}});
  client(ClientOp::write, 0, 512, 1);
  supersede();
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  for (const std::uint64_t id : {1u, 2u, 3u}) EXPECT_TRUE(done_.contains(id)) << id;
  EXPECT_EQ(state(), State::serving);
  answer_all();
  EXPECT_TRUE(is_answered(1)) << "no longer frozen";
}

TEST_F(Move, ARollbackWhileTheLastMemberIsAskedGoesOn) {
  config_.hold_when_superseded = true;
  begin();
  client(ClientOp::write, 0, 512, 1);
  silent_[0] = silent_[1] = true;
  feed(PeerLost{0, sessions_[0], PeerRefusal::none, ""});
  feed(PeerLost{1, sessions_[1], PeerRefusal::none, ""});
  EXPECT_EQ(state(), State::stalled);
  silent_.clear();
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);
  EXPECT_EQ(state(), State::serving);
  answer_all();
  EXPECT_TRUE(is_answered(1));
}

TEST_F(Move, ANewProcessOfTheSourceLooksForWritesSinceItsClientsWereServed) {
  config_.last_served = 4;
  answers_[0].wrote = 6;
  begin();
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(serves_.back().export_id, "v-7") << "a bridge must not send its old writes over them";
  sessions_.clear();
  proposals_.clear();
  answers_[0].wrote = 4;
  begin();
  EXPECT_TRUE(proposals_.empty());
  EXPECT_EQ(serves_.back().export_id, "x");
}

}  // namespace

}  // namespace moor::block::engine
