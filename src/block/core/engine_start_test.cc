// The start of an engine, message by message: the gaps that decision 0100 closes, each as the story that
// showed it. Members hold what they are sent until the test lets them work.
#include <gtest/gtest.h>
#include <array>

#include "block/core/engine_test_member.h"

namespace moor::block::engine::test {

namespace {

constexpr std::uint64_t kVolume = 64 * 1024;

class EngineStart : public ::testing::Test {
 protected:
  EngineStart() {
    for (int i = 0; i < 3; ++i) {
      members_[i] = std::make_unique<FakeMember>(std::string(1, static_cast<char>('a' + i)), kVolume, pool_);
      members_[i]->violation = [](const std::string& text) { ADD_FAILURE() << text; };
    }
    config_.volume = "v";
    config_.engine = "e";
    config_.epoch = 7;
    config_.export_id = "x3";
    config_.fresh_export_id = "x7";
    config_.clear_interval = Instant(0);
    config_.peer_timeout = Instant(0);
  }
  // An engine of epoch 3 has served this member and left it so.
  void give(int member, PeerOp op, std::uint64_t argument) {
    PeerRequest request;
    request.op = op;
    request.argument = argument;
    Slice none;
    members_[member]->process(request, {}, 3, none);
  }
  void write(int member, std::uint64_t value) {
    PeerRequest request;
    request.op = PeerOp::write;
    request.length = kSector;
    Slice bytes = pool_.allocate(kSector);
    std::memset(bytes.data(), 0, kSector);
    std::memcpy(bytes.data(), &value, sizeof value);
    Slice none;
    members_[member]->process(request, bytes, 3, none);
  }
  void begin(std::vector<MemberMode> modes) {
    for (std::size_t i = 0; i < modes.size(); ++i) {
      MemberConfig member;
      member.name = members_[i]->name();
      member.mode = modes[i];
      config_.members.push_back(member);
    }
    engine_.emplace(config_, pool_);
    feed(Started{});
  }
  void feed(Event event) {
    Actions actions;
    engine_->step(std::move(event), now_, actions);
    for (Action& action : actions) {
      if (auto* connect = std::get_if<Connect>(&action)) hello_[connect->member] = connect->hello;
      if (auto* send = std::get_if<SendPeer>(&action)) {
        inbox_[send->member].emplace_back(std::move(send->request), std::move(send->payload));
      }
      if (auto* cut = std::get_if<Disconnect>(&action)) inbox_[cut->member].clear();
      if (auto* propose = std::get_if<Propose>(&action)) proposals_.push_back(*propose);
      if (auto* serve = std::get_if<Serve>(&action)) serve_ = *serve;
    }
  }
  // The member takes the open HELLO.
  void answer(MemberIndex member) {
    ASSERT_TRUE(hello_[member]) << "nobody asked";
    const Hello hello = *std::exchange(hello_[member], std::nullopt);
    session_[member] = hello.session;
    feed(PeerConnected{member, hello.session, members_[member]->accept(hello)});
  }
  bool work(MemberIndex member) {
    if (inbox_[member].empty()) return false;
    const auto [request, payload] = std::move(inbox_[member].front());
    inbox_[member].pop_front();
    PeerReplied replied{member, session_[member], {}, {}};
    replied.reply = members_[member]->process(request, payload, config_.epoch, replied.payload);
    feed(std::move(replied));
    return true;
  }
  void work_all() {
    bool some = true;
    while (some) {
      some = false;
      for (MemberIndex i = 0; i < 3; ++i) some = work(i) || some;
    }
  }
  // Everybody works until this member has something of this kind to do.
  void work_until(MemberIndex member, PeerOp op) {
    for (int turn = 0; turn < 1000; ++turn) {
      if (!inbox_[member].empty() && inbox_[member].front().first.op == op) return;
      bool some = false;
      for (MemberIndex i = 0; i < 3 && !some; ++i) some = work(i);
      ASSERT_TRUE(some) << "the start is stuck: " << engine_->status().detail;
    }
  }
  void lose(MemberIndex member) {
    inbox_[member].clear();
    feed(PeerLost{member, session_[member], PeerRefusal::none, ""});
  }
  void pass_deadline() {
    now_ += config_.start_wait;
    feed(Tick{});
  }

  BufferPool pool_;
  Config config_;
  std::optional<Engine> engine_;
  Instant now_{std::chrono::milliseconds(1)};
  std::array<std::unique_ptr<FakeMember>, 3> members_;
  std::map<MemberIndex, std::optional<Hello>> hello_;
  std::map<MemberIndex, SessionId> session_;
  std::map<MemberIndex, std::deque<std::pair<PeerRequest, Slice>>> inbox_;
  std::vector<Propose> proposals_;
  std::optional<Serve> serve_;
};

}  // namespace

TEST_F(EngineStart, ADeadlineThatHasPassedDoesNotKeepTheEngineAwake) {
  // Seed 1558 of the simulator: with an answer outstanding that took its time, the engine woke every
  // nanosecond.
  config_.in_sync = InSync::highest_generation;
  begin({MemberMode::rw, MemberMode::rw});
  answer(0);
  ASSERT_TRUE(engine_->next_wake());
  EXPECT_EQ(*engine_->next_wake(), now_ + config_.start_wait);
  pass_deadline();
  EXPECT_FALSE(serve_) << "all of them are needed";
  EXPECT_TRUE(!engine_->next_wake() || *engine_->next_wake() >= now_ + std::chrono::milliseconds(1));
  answer(1);
  EXPECT_FALSE(proposals_.empty()) << "and the last one's answer is enough to go on";
}

TEST_F(EngineStart, AMemberThatIsAwaitedIsLookedForWhereItListensNow) {
  begin({MemberMode::rw});
  ASSERT_TRUE(hello_[0]);
  const SessionId old = hello_[0]->session;
  hello_[0].reset();  // goes to a port where nobody listens any more
  feed(Commanded{1, MemberMoved{"a", "tcp:h:2"}});
  ASSERT_TRUE(engine_->next_wake());
  EXPECT_LE(*engine_->next_wake(), now_ + Instant(1)) << "without waiting for the next try";
  now_ += Instant(1);
  feed(Tick{});
  ASSERT_TRUE(hello_[0]);
  EXPECT_GT(hello_[0]->session, old);
  EXPECT_EQ(engine_->status().members[0].config.address, "tcp:h:2");
  answer(0);
  feed(PeerRefused{0, old, PeerRefusal::none, ""});
  EXPECT_TRUE(engine_->status().members[0].connected) << "what the old connection says is of no interest";
}

TEST_F(EngineStart, StoresTheGrantsGenerationOnAMemberWithALowerOneThoughNothingChanges) {
  give(0, PeerOp::store_generation, 1);
  give(0, PeerOp::mark_served, 3);
  config_.generation = 2;  // {b = ERR} is committed, and the engine that did it died before a had stored it
  begin({MemberMode::rw, MemberMode::err});
  answer(0);
  work_all();
  EXPECT_TRUE(proposals_.empty());
  ASSERT_TRUE(serve_);
  EXPECT_EQ(members_[0]->disk().generation, 2u);
}

TEST_F(EngineStart, RegionsOfALostMemberStayInTheUnion) {
  for (int i = 0; i < 3; ++i) give(i, PeerOp::mark_served, 3);
  write(0, 42);  // reached a alone, then the old engine died: b and c are clean
  begin({MemberMode::rw, MemberMode::rw, MemberMode::rw});
  for (MemberIndex i = 0; i < 3; ++i) answer(i);
  work_until(2, PeerOp::write);
  ASSERT_FALSE(inbox_[1].empty());
  inbox_[1].clear();  // never arrives
  work(2);            // c has the copy; a copy marks its region like any write
  EXPECT_TRUE(members_[2]->disk().dirty.contains(0));
  lose(0);
  lose(1);
  now_ += config_.retry_delay;
  feed(Tick{});
  answer(1);
  pass_deadline();
  ASSERT_EQ(proposals_.size(), 1u);
  feed(MembershipConfirmed{proposals_[0].proposal});
  work_all();
  ASSERT_TRUE(serve_);
  EXPECT_EQ(members_[1]->current(), members_[2]->current());
}

TEST_F(EngineStart, JudgesAgainOnlyWhenNoCopyOfTheLastTryIsUnderWay) {
  for (int i = 0; i < 3; ++i) give(i, PeerOp::mark_served, 3);
  write(0, 42);
  write(1, 43);
  write(2, 44);
  begin({MemberMode::rw, MemberMode::rw, MemberMode::rw});
  for (MemberIndex i = 0; i < 3; ++i) answer(i);
  work_until(1, PeerOp::write);
  while (work(2)) {
  }
  lose(0);
  pass_deadline();
  EXPECT_TRUE(proposals_.empty()) << "the copy to b is still on its way";
  EXPECT_TRUE(inbox_[2].empty());
  ASSERT_TRUE(work(1));
  ASSERT_EQ(proposals_.size(), 1u);
  feed(MembershipConfirmed{proposals_[0].proposal});
  work_all();
  ASSERT_TRUE(serve_);
  EXPECT_EQ(members_[1]->current(), members_[2]->current());
}

TEST_F(EngineStart, NeverAbandonsAChangeThatItHasAskedFor) {
  for (int i = 0; i < 2; ++i) give(i, PeerOp::mark_served, 3);
  begin({MemberMode::rw, MemberMode::rw});
  answer(0);
  pass_deadline();
  ASSERT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(proposals_[0].next.members.at("b"), MemberMode::err);
  // The reply is late. Meanwhile a breaks off and both answer, so no change would be needed any more.
  lose(0);
  now_ += config_.retry_delay;
  feed(Tick{});
  answer(0);
  answer(1);
  work_all();
  pass_deadline();
  EXPECT_EQ(proposals_.size(), 1u);
  EXPECT_FALSE(serve_);
  ASSERT_NE(engine_->open_proposal(), nullptr);
  EXPECT_EQ(engine_->open_proposal()->next.members.at("b"), MemberMode::err);
  feed(MembershipConfirmed{proposals_[0].proposal});
  work_all();
  ASSERT_TRUE(serve_);
  EXPECT_EQ(engine_->status().membership.members.at("b"), MemberMode::err);
  EXPECT_TRUE(inbox_[1].empty()) << "b is out: nothing goes there";
}

TEST_F(EngineStart, ARefusedChangeIsJudgedByWhatHasAnsweredSince) {
  for (int i = 0; i < 2; ++i) give(i, PeerOp::mark_served, 3);
  begin({MemberMode::rw, MemberMode::rw});
  answer(0);
  pass_deadline();
  ASSERT_EQ(proposals_.size(), 1u);
  feed(MembershipRefused{proposals_[0].proposal, "conflict"});
  now_ += config_.retry_delay;
  feed(Tick{});
  answer(1);
  now_ += config_.propose_delay;
  feed(Tick{});
  work_all();
  ASSERT_TRUE(serve_);
  EXPECT_EQ(proposals_.size(), 1u);
  EXPECT_EQ(engine_->status().membership.members.at("b"), MemberMode::rw);
}

TEST_F(EngineStart, ServesUnderTheExportIdOfTheGrantWhoeverCommittedIt) {
  // An engine without a continuous member committed x3, marked its members and died before it served.
  for (int i = 0; i < 2; ++i) give(i, PeerOp::mark_served, 3);
  begin({MemberMode::rw, MemberMode::rw});
  answer(0);
  answer(1);
  work_all();
  ASSERT_TRUE(serve_);
  EXPECT_EQ(serve_->export_id, "x3");
}

}  // namespace moor::block::engine::test
