// What the source of a move tells the destination that takes over from it, so that the start need not compare
// every region that was written lately. Whole moves under faults: engine_world_test.
#include <gtest/gtest.h>

#include "block/core/engine_test_move.h"

namespace moor::block::engine {

namespace {

using test_move::kSize;
using test_move::Move;

class Handover : public Move {
 protected:
  Handover() {
    answers_[0].dirty = answers_[1].dirty = {0, 5, 9};
    handover_ = Unsettled{3, {{5000, 100}, {kSize - 512, 512}}};
  }
  void activate() {
    begin_standby();
    source_up();
    EXPECT_EQ(command(ActivateConfirm{7, grant()}), 0u);
  }
  std::uint64_t compared_bytes() {
    std::uint64_t sum = 0;
    for (const Extent& extent : compared_[0]) sum += extent.length;
    return sum;
  }
  void open_forward() {
    Hello hello;
    hello.volume = "v";
    hello.epoch = 8;
    hello.engine = "d";
    hello.mode = HelloMode::forward;
    hello.token = "secret";
    feed(ForwardOpened{50, hello});
  }
  void ask_unsettled(std::uint64_t id) {
    PeerRequest request;
    request.id = id;
    request.op = PeerOp::unsettled;
    feed(ForwardRequested{50, request});
  }

  static constexpr std::uint64_t kAllRegions = 3 * kRegionSize;
};

TEST_F(Handover, OnlyWhatTheSourceLeftUnsettledIsCompared) {
  activate();
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(compared_[0], (std::vector<Extent>{{4096, 4096}, {kSize - 4096, 4096}})) << "whole blocks";
  EXPECT_EQ(compared_[0], compared_[1]);
  EXPECT_GT(resync_writes_, 0);
}

TEST_F(Handover, ASourceThatHadNothingUnderWayCostsNoComparison) {
  handover_->extents.clear();
  activate();
  EXPECT_EQ(state(), State::serving);
  EXPECT_TRUE(compared_.empty());
}

TEST_F(Handover, WithoutItsWordEveryDirtyRegionIsCompared) {
  handover_.reset();
  activate();
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(compared_bytes(), kAllRegions);
}

TEST_F(Handover, AMemberThatWasServedByAnotherEngineIsComparedWhole) {
  answers_[1].served = 2;
  activate();
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(compared_bytes(), kAllRegions);
}

TEST_F(Handover, AnExtentBeyondTheVolumeIsNoWordToRelyOn) {
  handover_->extents.push_back({kSize, 512});
  activate();
  EXPECT_EQ(compared_bytes(), kAllRegions);
}

TEST_F(Handover, ASlowSourceIsWaitedForAShortTime) {
  source_is_slow_ = true;
  activate();
  EXPECT_EQ(state(), State::starting);
  ASSERT_TRUE(engine_->next_wake());
  EXPECT_LE(*engine_->next_wake(), now_ + config_.handover_wait);
  now_ += config_.handover_wait;
  feed(Tick{});
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(compared_bytes(), kAllRegions);
}

TEST_F(Handover, ASourceThatIsLostIsNotWaitedFor) {
  source_is_slow_ = true;
  activate();
  source_lost();
  EXPECT_EQ(state(), State::serving);
  EXPECT_EQ(compared_bytes(), kAllRegions);
}

TEST_F(Handover, AMemberLostDuringTheStartDoesNotMakeTheWordInvalid) {
  source_is_slow_ = true;
  activate();
  silent_[1] = true;
  feed(PeerLost{1, sessions_[1], PeerRefusal::none, ""});
  ASSERT_FALSE(sent_to(kSourceLink).empty());
  PeerReplied replied{kSourceLink, sessions_[kSourceLink], {}, {}};
  replied.reply.id = sent_to(kSourceLink).back().request.id;
  replied.reply.unsettled = handover_;
  feed(std::move(replied));
  now_ += 4 * config_.start_wait;
  feed(Tick{});
  EXPECT_EQ(state(), State::serving);
  EXPECT_LT(compared_bytes(), kAllRegions);
}

TEST_F(Handover, ASupersededSourceTellsWhatIsNotAcknowledged) {
  config_.hold_when_superseded = true;
  begin();
  open_forward();
  client(ClientOp::write, 4096, 512, 1);
  answer_all();
  ASSERT_TRUE(is_answered(1));
  client(ClientOp::write, 8192, 4096, 2);
  client(ClientOp::trim, 1 << 20, 1 << 20, 3);
  client(ClientOp::flush, 0, 0, 4);
  client(ClientOp::read, 0, 512, 5);
  answer(0);  // one member has it: still not acknowledged
  ask_unsettled(70);
  EXPECT_TRUE(forward_replies_.empty()) << "it may still send and acknowledge";
  supersede();
  ASSERT_EQ(forward_replies_.size(), 1u);
  EXPECT_EQ(forward_replies_[0].reply.id, 70u);
  EXPECT_EQ(forward_replies_[0].reply.error, 0u);
  EXPECT_EQ(forward_replies_[0].reply.unsettled, (Unsettled{7, {{8192, 4096}, {1 << 20, 1 << 20}}}));
  // And who asks later hears the same, whatever clients have asked for since.
  client(ClientOp::write, 0, 512, 6);
  ask_unsettled(71);
  ASSERT_EQ(forward_replies_.size(), 2u);
  EXPECT_EQ(forward_replies_[1].reply.unsettled, forward_replies_[0].reply.unsettled);
}

TEST_F(Handover, ASourceThatDidNotServeDoesNotKnow) {
  config_.hold_when_superseded = true;
  begin();
  open_forward();
  answers_[0].dirty = answers_[1].dirty = {};
  confirms_ = false;
  supersede();
  silent_[1] = true;
  EXPECT_EQ(command(TakeEpoch{9, grant(), 0}), 0u);  // waits for a member, then is fenced again
  EXPECT_EQ(forward_ends_.size(), 1u) << "whoever read through it begins anew";
  supersede();
  open_forward();
  EXPECT_EQ(refused_.size(), 1u);
}

}  // namespace

}  // namespace moor::block::engine
