// The start rule as a table: who answered what, and what follows.
#include "block/core/engine_start_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moor::block::engine {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Case {
  Membership grant;
  std::vector<Candidate> candidates;
  InSync in_sync = InSync::grant;
  std::vector<std::uint64_t> reported_dirty;

  Candidate& member(const std::string& name, MemberMode mode = MemberMode::rw) {
    grant.members[name] = mode;
    Candidate candidate;
    candidate.index = static_cast<MemberIndex>(candidates.size());
    candidate.name = name;
    candidate.mode = mode;
    return candidates.emplace_back(std::move(candidate));
  }
  HelloAnswer& answers(const std::string& name, Epoch served, Generation generation = 5) {
    HelloAnswer& answer = member(name).answer.emplace();
    answer.size = 64 << 20;
    answer.served = served;
    answer.wrote = 1;
    answer.generation = generation;
    return answer;
  }
  std::optional<StartPlan> plan() {
    grant.generation = 5;
    grant.export_id = "old";
    static const std::string fresh = "fresh";
    return plan_start({grant, in_sync, candidates, fresh, reported_dirty});
  }
};

Layer layer(const std::string& id, const std::string& name) {
  Layer made;
  made.id = id;
  made.snapshot = name;
  return made;
}

}  // namespace

TEST(StartRule, AllContinuousAndCleanChangesNothing) {
  Case world;
  world.answers("a", 3);
  world.answers("b", 3);
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->change);
  EXPECT_FALSE(plan->fresh_export);
  EXPECT_THAT(plan->stay, ElementsAre(0, 1));
  EXPECT_THAT(plan->resync, IsEmpty());
}

TEST(StartRule, ARestartedMemberBecomesErrWhileAnotherIsContinuous) {
  Case world;
  world.answers("a", 0);
  world.answers("b", 3);
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->source, 1u);
  EXPECT_EQ(plan->next.members.at("a"), MemberMode::err);
  EXPECT_EQ(plan->next.generation, 6u);
  EXPECT_EQ(plan->next.export_id, "old");
}

TEST(StartRule, WithNoContinuousMemberAllStayUnderANewExportId) {
  Case world;
  world.answers("a", 0).dirty = {1, 7};
  world.answers("b", 0).dirty = {2, 7};
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->fresh_export);
  EXPECT_EQ(plan->next.export_id, "fresh");
  EXPECT_THAT(plan->stay, ElementsAre(0, 1));
  EXPECT_THAT(plan->resync, ElementsAre(1, 2, 7));
}

TEST(StartRule, SilentAndRebuildingMembersBecomeErr) {
  Case world;
  world.answers("a", 3);
  world.member("b");
  world.member("c", MemberMode::wo);
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->change);
  EXPECT_EQ(plan->next.members.at("b"), MemberMode::err);
  EXPECT_EQ(plan->next.members.at("c"), MemberMode::err);
}

TEST(StartRule, AMemberThatIsErrInTheGrantIsNeverASource) {
  Case world;
  world.answers("a", 3);
  world.candidates[0].mode = MemberMode::err;
  world.grant.members["a"] = MemberMode::err;
  world.member("b");
  EXPECT_FALSE(world.plan());
}

TEST(StartRule, AnUnprovenGrantGoesByTheHighestGeneration) {
  Case world;
  world.in_sync = InSync::highest_generation;
  world.answers("a", 9, 4);
  world.answers("b", 0, 8);
  world.candidates[1].mode = MemberMode::err;
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->stay, ElementsAre(1));
  EXPECT_EQ(plan->next.members.at("a"), MemberMode::err);
  EXPECT_EQ(plan->next.members.at("b"), MemberMode::rw);
  EXPECT_EQ(plan->next.generation, 9u);
}

TEST(StartRule, ASnapshotThatOneMemberMissedIsRolledForward) {
  Case world;
  world.answers("a", 3);
  HelloAnswer& ahead = world.answers("b", 3, 6);
  ahead.chain = {layer("snap-v.3.1", "s1")};
  ahead.head_id = "snap-v.3.2";
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->repairs.size(), 1u);
  EXPECT_EQ(plan->repairs[0].member, 0u);
  EXPECT_EQ(plan->repairs[0].op, PeerOp::snapshot_create);
  EXPECT_EQ(plan->repairs[0].command.layer_id, "snap-v.3.1");
  EXPECT_GT(plan->next.generation, 6u);
}

TEST(StartRule, APurgedLayerIsNotMadeAgain) {  // seed 18953 of the engine's world
  Case world;
  HelloAnswer& behind = world.answers("a", 3);
  behind.chain = {layer("snap-v.3.1", "s1")};
  behind.chain[0].removed = true;
  behind.head_id = "snap-v.3.2";
  world.answers("b", 3).head_id = "purge-v.3.3";
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->repairs.size(), 1u);
  EXPECT_EQ(plan->repairs[0].member, 0u);
  EXPECT_EQ(plan->repairs[0].op, PeerOp::snapshot_purge);
  EXPECT_EQ(plan->repairs[0].command.layer_id, "purge-v.3.3");
}

TEST(StartRule, ARevertThatOneMemberMissedIsRepeated) {
  Case world;
  HelloAnswer& behind = world.answers("a", 3);
  behind.chain = {layer("snap-v.3.1", "s1")};
  behind.head_id = "snap-v.3.2";
  HelloAnswer& ahead = world.answers("b", 3);  // `behind` may have moved
  ahead.chain = {layer("snap-v.3.1", "s1")};
  ahead.head_id = "revert-v.3.3@s1";
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->repairs.size(), 1u);
  EXPECT_EQ(plan->repairs[0].op, PeerOp::snapshot_revert);
  EXPECT_EQ(plan->repairs[0].command.name, "s1");
}

TEST(StartRule, AMemberWithAForeignChainBecomesErr) {
  Case world;
  HelloAnswer& one = world.answers("a", 3, 6);
  one.chain = {layer("snap-v.3.1", "s1")};
  one.head_id = "snap-v.3.2";
  HelloAnswer& two = world.answers("b", 3);
  two.chain = {layer("snap-w.1.1", "t1"), layer("snap-w.1.3", "t2")};
  two.head_id = "snap-w.1.4";
  const auto plan = world.plan();
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->stay, ElementsAre(0));
  EXPECT_EQ(plan->next.members.at("b"), MemberMode::err);
}

}  // namespace moor::block::engine
