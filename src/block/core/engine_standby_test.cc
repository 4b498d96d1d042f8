// The destination of a move, one rule at a time. Whole moves under faults: engine_world_test.
#include <gtest/gtest.h>

#include "block/core/engine_test_move.h"

namespace moor::block::engine {

namespace {

using test_move::kSize;
using test_move::Move;

TEST_F(Move, StandbySaysHelloToTheSourceAndToNobodyElse) {
  begin_standby();
  EXPECT_EQ(state(), State::standby);
  EXPECT_EQ(hellos_[kSourceLink].mode, HelloMode::forward);
  EXPECT_EQ(hellos_[kSourceLink].token, "secret");
  EXPECT_EQ(engine_->member(kSourceLink).address, "tcp:s:1");
  EXPECT_FALSE(engine_->status().standby->ready);
  source_up();
  EXPECT_TRUE(engine_->status().standby->ready);
  EXPECT_EQ(engine_->status().chain.front().id, "l1");
  ASSERT_EQ(serves_.size(), 1u);
  EXPECT_TRUE(serves_[0].standby);
  EXPECT_EQ(serves_[0].export_id, "x");
  EXPECT_EQ(serves_[0].size, kSize);
  EXPECT_EQ(connects_[0] + connects_[1], 0) << "a member that hears of it would fence the source";
}

TEST_F(Move, StandbyForwardsReadsAndBlockStatusAndAnswersFlushAtOnce) {
  begin_standby();
  source_up();
  client(ClientOp::read, 4096, 512, 1);
  client(ClientOp::block_status, 0, 1 << 20, 2);
  client(ClientOp::flush, 0, 0, 3);
  EXPECT_TRUE(is_answered(3));
  ASSERT_EQ(sent_to(kSourceLink).size(), 2u);
  EXPECT_EQ(sent_to(kSourceLink)[0].request.op, PeerOp::read);
  EXPECT_EQ(sent_to(kSourceLink)[0].request.offset, 4096u);
  EXPECT_EQ(sent_to(kSourceLink)[1].request.op, PeerOp::block_status);
  answer(kSourceLink);
  answer(kSourceLink, EIO);
  EXPECT_TRUE(is_answered(1));
  EXPECT_TRUE(is_answered(2, EIO)) << "what the source's members cannot read is the client's to know";
  EXPECT_TRUE(wants_.empty());
}

TEST_F(Move, TheFirstChangeAsksForActivationAndHoldsEverything) {
  struct Case {
    ClientOp op;
    std::uint64_t offset;
    std::uint32_t length;
  };
  for (const Case& each : {Case{ClientOp::write, 4096, 4096}, Case{ClientOp::write, 513, 77},
                           Case{ClientOp::trim, 1, 99}, Case{ClientOp::write_zeroes, 0, 1 << 20}}) {
    sessions_.clear();
    replies_.clear();
    wants_.clear();
    sent_.clear();
    begin_standby();
    source_up();
    client(each.op, each.offset, each.length, 1);
    ASSERT_EQ(wants_.size(), 1u);
    EXPECT_EQ(wants_[0].epoch, 7u);
    client(ClientOp::read, 0, 512, 2);
    client(ClientOp::flush, 0, 0, 3);
    client(ClientOp::write, 0, 512, 4);
    EXPECT_TRUE(sent_.empty());
    EXPECT_TRUE(replies_.empty());
    EXPECT_EQ(wants_.size(), 1u) << "asked once";
    EXPECT_EQ(connects_[0], 0);
    EXPECT_EQ(engine_->status().operations, 4u);
  }
}

TEST_F(Move, ARequestThatCannotBeDoneDoesNotActivate) {
  begin_standby();
  source_up();
  client(ClientOp::write, kSize - 512, 1024, 1);
  client(ClientOp::write, 0, 0, 2);
  client(ClientOp::read, kSize, 512, 3);
  EXPECT_TRUE(is_answered(1, ENOSPC));
  EXPECT_TRUE(is_answered(2));
  EXPECT_TRUE(is_answered(3, EINVAL));
  EXPECT_TRUE(wants_.empty());
}

TEST_F(Move, ActivationRunsTheStartRuleAndAnswersWhatWasHeld) {
  begin_standby();
  source_up();
  client(ClientOp::read, 0, 512, 1);  // under way at the source when the client begins to write
  const test_move::Sent early = sent_to(kSourceLink).front();
  client(ClientOp::write, 0, 512, 2);
  client(ClientOp::read, 0, 512, 3);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u);
  EXPECT_EQ(cuts_[kSourceLink], 1);
  EXPECT_EQ(hellos_[0].mode, HelloMode::active);
  EXPECT_EQ(hellos_[0].epoch, 7u);
  EXPECT_EQ(state(), State::serving);
  ASSERT_EQ(serves_.size(), 2u);
  EXPECT_FALSE(serves_[1].standby);
  EXPECT_TRUE(ends_.empty());
  PeerReplied late{kSourceLink, early.session, {}, pool_.allocate(512)};
  late.reply.id = early.request.id;
  feed(std::move(late));
  EXPECT_TRUE(replies_.empty()) << "an answer of the source after the link was let go";
  answer_all();
  EXPECT_EQ(order_, (std::vector<std::uint64_t>{1, 2, 3})) << "the read in front sees the old value";
  EXPECT_TRUE(is_answered(1) && is_answered(2) && is_answered(3));
}

TEST_F(Move, ActivationByRequestNeedsNoWrite) {
  begin_standby();
  source_up();
  EXPECT_EQ(command(Activate{}), 0u);
  EXPECT_EQ(command(Activate{}), 0u);
  EXPECT_EQ(wants_.size(), 1u);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u);
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(command(Activate{}), 0u) << "it has what it wants";
}

TEST_F(Move, ConfirmationsThatDoNotFit) {
  begin_standby();
  source_up();
  EXPECT_EQ(command(ActivateConfirm{6, grant()}), std::uint32_t{ESTALE}) << "of an epoch before";
  EXPECT_EQ(command(ActivateConfirm{7, std::nullopt}), std::uint32_t{EINVAL}) << "members may have changed";
  EXPECT_EQ(state(), State::standby);
  EXPECT_EQ(command(ActivateConfirm{9, grant()}), 0u) << "the Grant's epoch counts";
  EXPECT_EQ(hellos_[1].epoch, 9u);
  EXPECT_EQ(command(ActivateConfirm{9, grant()}), 0u) << "said twice";
  EXPECT_EQ(connects_[0], 1);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), std::uint32_t{ESTALE}) << "late";
  EXPECT_EQ(command(ActivateRefuse{"no"}), std::uint32_t{ESTALE});
  EXPECT_EQ(command(StandbyUpdate{11, std::nullopt}), std::uint32_t{ESTALE});
  EXPECT_EQ(state(), State::serving);
}

TEST_F(Move, ActivationGoesByTheMembersOfTheGrant) {
  begin_standby();
  source_up();
  GrantView view = grant(12);
  view.members[1].mode = MemberMode::err;  // the source lost it meanwhile
  MemberConfig added;
  added.name = "c";
  added.address = "unix:c";
  view.members.push_back(added);
  EXPECT_EQ(command(ActivateConfirm{7, view}), 0u);
  EXPECT_EQ(connects_[1], 0);
  EXPECT_EQ(connects_[2], 1);
  EXPECT_EQ(engine_->status().membership.generation, 12u);
  view.members.back().address.clear();
  sessions_.clear();
  begin_standby();
  EXPECT_EQ(command(ActivateConfirm{7, view}), std::uint32_t{EINVAL}) << "nobody knows where c is";
  EXPECT_EQ(state(), State::standby);
}

TEST_F(Move, ALostLinkLetsReadsWaitAndNeverActivates) {
  begin_standby();
  source_up();
  client(ClientOp::read, 0, 512, 1);
  client(ClientOp::read, 512, 512, 2);
  source_lost();
  EXPECT_FALSE(engine_->status().standby->ready);
  client(ClientOp::read, 1024, 512, 3);
  client(ClientOp::flush, 0, 0, 4);
  EXPECT_TRUE(is_answered(4));
  int before = connects_[kSourceLink];
  Instant pause{0};
  for (int i = 0; i < 8; ++i) {  // each pause is at least as long as the one before, up to the limit
    const Instant wake = engine_->next_wake().value();
    EXPECT_GE(wake - now_, pause);
    pause = std::min(wake - now_, config_.source_retry_limit);
    now_ = wake;
    feed(Tick{});
    EXPECT_EQ(connects_[kSourceLink], ++before);
    feed(PeerRefused{kSourceLink, sessions_[kSourceLink], PeerRefusal::none, "refused"});
  }
  EXPECT_EQ(pause, config_.source_retry_limit);
  EXPECT_TRUE(wants_.empty());
  EXPECT_EQ(connects_[0], 0);
  now_ = engine_->next_wake().value();
  feed(Tick{});
  source_up();
  EXPECT_EQ(sent_to(kSourceLink).size(), 3u);
  answer_all();
  EXPECT_EQ(order_, (std::vector<std::uint64_t>{4, 1, 2, 3}));
}

TEST_F(Move, ASourceThatEndsIsNoAnswer) {
  begin_standby();
  source_up();
  client(ClientOp::read, 0, 512, 1);
  answer(kSourceLink, ESHUTDOWN);
  EXPECT_TRUE(replies_.empty());
  EXPECT_EQ(cuts_[kSourceLink], 1);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u) << "the source's node is dead: activated by a fence";
  answer_all();
  EXPECT_TRUE(is_answered(1));
}

TEST_F(Move, ASilentSourceIsConnectedAgain) {
  begin_standby();
  source_up();
  client(ClientOp::read, 0, 512, 1);
  now_ += config_.peer_timeout;
  feed(Tick{});
  EXPECT_EQ(cuts_[kSourceLink], 1);
  EXPECT_TRUE(replies_.empty());
}

TEST_F(Move, AnUpdateGivesAnotherEpochAndAnotherSource) {
  begin_standby();
  source_up();
  client(ClientOp::write, 0, 512, 1);
  EXPECT_EQ(command(StandbyUpdate{6, std::nullopt}), std::uint32_t{ESTALE});
  EXPECT_EQ(command(StandbyUpdate{9, std::string("tcp:t:2")}), 0u);
  EXPECT_EQ(hellos_[kSourceLink].epoch, 9u);
  EXPECT_EQ(engine_->member(kSourceLink).address, "tcp:t:2");
  ASSERT_EQ(wants_.size(), 2u) << "it still wants to be activated, under the new epoch";
  EXPECT_EQ(wants_[1].epoch, 9u);
  EXPECT_EQ(engine_->status().epoch, 9u);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), std::uint32_t{ESTALE}) << "of the epoch before the update";
  EXPECT_EQ(command(ActivateConfirm{9, grant()}), 0u);
  EXPECT_EQ(hellos_[0].epoch, 9u);
  answer_all();
  EXPECT_TRUE(is_answered(1));
}

TEST_F(Move, ARefusedStandbyFailsItsClientsAndEnds) {
  begin_standby();
  source_up();
  client(ClientOp::read, 0, 512, 1);
  client(ClientOp::write, 0, 512, 2);
  EXPECT_EQ(command(ActivateRefuse{"rolled back"}), 0u);
  EXPECT_TRUE(is_answered(1, EIO) && is_answered(2, EIO));
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::refused);
  EXPECT_EQ(connects_[0], 0);
}

TEST_F(Move, AStandbyOfAnotherLifeEndsItsSessions) {
  begin_standby();
  source_up("x");
  client(ClientOp::read, 0, 512, 1);
  source_lost();
  now_ = engine_->next_wake().value();
  feed(Tick{});
  source_up("y");  // the source started with no continuous member
  EXPECT_EQ(ends_, std::vector<bool>{true});
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_EQ(serves_.back().export_id, "y");
}

TEST_F(Move, AnActivationWithoutAContinuousMemberEndsTheSessions) {
  answers_[0].served = answers_[1].served = 0;
  begin_standby();
  source_up();
  client(ClientOp::write, 0, 512, 1);
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u);
  EXPECT_EQ(state(), State::serving);
  EXPECT_TRUE(is_answered(1, EIO));
  EXPECT_EQ(ends_, std::vector<bool>{true});
  EXPECT_EQ(serves_.back().export_id, "v-7");
  EXPECT_TRUE(sent_.empty()) << "a write of an old session goes nowhere";
}

TEST_F(Move, AStandbyThatComesTooLateLearnsItFromTheMembers) {
  begin_standby();
  source_up();
  client(ClientOp::write, 0, 512, 1);
  silent_[0] = silent_[1] = true;
  EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u);
  feed(PeerRefused{0, sessions_[0], PeerRefusal::old_epoch, ""});  // rolled back before its HELLO
  ASSERT_TRUE(exit_);
  EXPECT_EQ(exit_->reason, ExitReason::superseded);
  EXPECT_FALSE(is_answered(1));
}

TEST_F(Move, AStartStoresTheHighestWrittenEpochOnEveryMember) {
  answers_[0].wrote = 6;
  begin();
  ASSERT_EQ(stored_wrote_.size(), 1u);
  EXPECT_EQ(stored_wrote_[1], 6u) << "it holds what epoch 6 wrote, after the resync, and must say so";
}

TEST_F(Move, ByHandAllMembersMustAnswerAtTheActivation) {
  config_.by_hand = true;
  config_.in_sync = InSync::highest_generation;
  silent_[1] = true;
  begin_standby();
  source_up("v-1");
  EXPECT_EQ(command(ActivateConfirm{7, std::nullopt}), 0u);
  EXPECT_EQ(state(), State::starting);
  feed(PeerConnected{1, sessions_[1], answers_[1], ""});
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(serves_.back().export_id, "v-1") << "the source's, which nobody else could tell";
}

}  // namespace

}  // namespace moor::block::engine
