// Moves with all controllers and imagined agents: every row of 0300's table of interruptions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "control/testing/stage.h"

namespace moor::control {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

class Move : public testing::Test {
 protected:
  void SetUp() override {
    stage_.create_volume("v1", R"("size":"1073741824","accessMode":"rwx","migratable":true)");
    stage_.add_ticket("v1", "one", "csi-attacher", "node-1");
    ASSERT_EQ(stage_.state_of("v1"), "attached node-1 healthy");
  }
  void begin() {
    stage_.add_ticket("v1", "two", "csi-attacher", "node-2");
    ASSERT_EQ(stage_.move_of("v1"), "ready node-1 node-2") << stage_.blockers_of("v1", "two");
  }
  void activate() {
    stage_.write_on("node-2");
    ASSERT_EQ(stage_.move_of("v1"), "activated node-1 node-2");
  }
  void down(const std::string& node) {
    stage_.agent(node).up = false;
    stage_.pass(20s);
  }
  void up(const std::string& node) {
    stage_.agent(node).up = true;
    stage_.agent(node).heartbeat();
    stage_.settle();
  }
  // Exactly one engine on that node, no move, quiet (S23, S25, L8).
  void expect_on(const std::string& node, const std::string& robustness = "healthy") {
    EXPECT_EQ(stage_.state_of("v1"), "attached " + node + " " + robustness);
    EXPECT_EQ(stage_.move_of("v1"), "-");
    const auto volume = stage_.get<lh::Volume>("v1");
    EXPECT_EQ(volume->spec.node_id, node);
    EXPECT_EQ(volume->spec.migration_node_id + volume->status.current_migration_node_id, "");
    const auto grant = stage_.get<mr::Grant>("v1");
    ASSERT_TRUE(grant->spec.active);
    EXPECT_EQ(grant->spec.active->node, node);
    EXPECT_FALSE(grant->spec.standby);
    const auto engines = stage_.all<lh::Engine>();
    ASSERT_EQ(engines.size(), 1u);
    EXPECT_EQ(engines[0]->metadata.name, grant->spec.active->engine);
    EXPECT_TRUE(engines[0]->spec.active);
    EXPECT_EQ(engines[0]->spec.hold_epoch, 0);
    expect_quiet();
  }
  void expect_quiet() {
    stage_.settle();
    const std::uint64_t before = stage_.revision();
    stage_.settle();
    EXPECT_EQ(stage_.revision(), before);
    for (const auto& [start, count] : stage_.reality.starts) EXPECT_EQ(count, 1) << start << " (S3)";
  }
  Stage stage_;
};

TEST_F(Move, TwoTicketsBringAStandbyUpAndTheSecondIsSatisfiedOnlyThen) {
  stage_.agent("node-2").broken_engines = true;
  stage_.add_ticket("v1", "two", "csi-attacher", "node-2");
  EXPECT_EQ(stage_.move_of("v1"), "preparing node-1 node-2");
  EXPECT_FALSE(stage_.is_satisfied("v1", "two"));
  EXPECT_THAT(stage_.blockers_of("v1", "two"), HasSubstr("EngineFailing"));
  EXPECT_TRUE(stage_.is_satisfied("v1", "one"));
  EXPECT_EQ(stage_.get<lh::Volume>("v1")->status.current_migration_node_id, "");
  stage_.agent("node-2").broken_engines = false;
  stage_.pass(2min);
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
  EXPECT_EQ(stage_.get<lh::Volume>("v1")->status.current_migration_node_id, "node-2");
  EXPECT_TRUE(stage_.is_satisfied("v1", "two"));
  EXPECT_TRUE(stage_.is_satisfied("v1", "one"));
  const auto grant = stage_.get<mr::Grant>("v1");
  EXPECT_EQ(grant->spec.active->node, "node-1");
  EXPECT_EQ(grant->spec.standby->node, "node-2");
  EXPECT_EQ(stage_.get<lh::Engine>("v1-e")->status.holding, grant->spec.standby->epoch);
  EXPECT_FALSE(stage_.get<lh::Engine>("v1-e-b")->spec.active);
  expect_quiet();
}

TEST_F(Move, TheSourcesTicketGoneConfirmsFromReady) {
  begin();
  stage_.remove_ticket("v1", "one");
  expect_on("node-2");
  EXPECT_TRUE(stage_.is_satisfied("v1", "two"));
  EXPECT_EQ(stage_.reality.engines.size(), 1u);
}

TEST_F(Move, TheSourcesTicketGoneConfirmsAfterTheDestinationTookOver) {
  begin();
  activate();
  EXPECT_TRUE(stage_.is_satisfied("v1", "one")) << "its clients are kept";
  EXPECT_TRUE(stage_.is_satisfied("v1", "two"));
  EXPECT_EQ(stage_.reality.engines.size(), 2u) << "the source holds its clients";
  expect_quiet();
  stage_.remove_ticket("v1", "one");
  expect_on("node-2");
}

TEST_F(Move, ATicketAsksForTheActivationByItsParameter) {
  begin();
  stage_.add_ticket("v1", "two", "csi-attacher", "node-2", R"(,"parameters":{"activate":"true"})");
  EXPECT_EQ(stage_.move_of("v1"), "activated node-1 node-2");
}

TEST_F(Move, TheDestinationsTicketGoneRollsBack) {
  begin();
  const auto epoch = stage_.get<mr::Grant>("v1")->spec.epoch;
  stage_.remove_ticket("v1", "two");
  expect_on("node-1");
  const auto grant = stage_.get<mr::Grant>("v1");
  EXPECT_GT(grant->spec.active->epoch, epoch) << "above every epoch so far";
  EXPECT_TRUE(stage_.is_satisfied("v1", "one"));
}

TEST_F(Move, RollsBackAfterTheActivationAndTellsTheSourceWhatItsClientsSaw) {
  begin();
  activate();
  stage_.hold = true;
  stage_.remove_ticket("v1", "two");
  for (int i = 0; i < 300 && stage_.move_of("v1") != "rolling-back node-1 node-2"; ++i) stage_.nudge(1);
  EXPECT_EQ(stage_.get<lh::Engine>("v1-e")->spec.last_served, 1);
  stage_.hold = false;
  stage_.settle();
  expect_on("node-1");
  bool fenced = false;
  const auto grant = stage_.get<mr::Grant>("v1");
  for (const auto& proof : grant->spec.proofs) fenced |= proof.holder.node == "node-2";
  EXPECT_TRUE(fenced) << "S12";
}

TEST_F(Move, GoesThereAndBackThroughBothSlots) {
  begin();
  stage_.remove_ticket("v1", "one");
  expect_on("node-2");
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->engine, "v1-e-b");
  stage_.add_ticket("v1", "three", "csi-attacher", "node-3");
  EXPECT_EQ(stage_.move_of("v1"), "ready node-2 node-3");
  stage_.remove_ticket("v1", "two");
  expect_on("node-3");
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->engine, "v1-e");
  stage_.remove_ticket("v1", "three");
  EXPECT_EQ(stage_.state_of("v1"), "detached - unknown");
}

TEST_F(Move, SourceTicketLeavesWhilePreparingIsAPlainDetachAndAttach) {
  stage_.agent("node-2").broken_engines = true;
  stage_.add_ticket("v1", "two", "csi-attacher", "node-2");
  stage_.agent("node-2").broken_engines = false;
  stage_.hold = true;
  stage_.remove_ticket("v1", "one");
  stage_.hold = false;
  stage_.settle();
  stage_.pass(2min);
  expect_on("node-2");
}

TEST_F(Move, BothTicketsLeaveInAnyPhaseAndBothEnginesStop) {
  for (const bool activated : {false, true}) {
    begin();
    if (activated) activate();
    stage_.hold = true;
    stage_.remove_ticket("v1", "one");
    stage_.remove_ticket("v1", "two");
    stage_.hold = false;
    stage_.settle();
    EXPECT_EQ(stage_.state_of("v1"), "detached - unknown");
    EXPECT_EQ(stage_.move_of("v1"), "-");
    EXPECT_TRUE(stage_.reality.engines.empty());
    EXPECT_EQ(stage_.all<lh::Engine>().size(), 1u);
    expect_quiet();
    stage_.add_ticket("v1", "one", "csi-attacher", "node-1");
    expect_on("node-1");
  }
}

TEST_F(Move, DestinationNodeNotReadyRollsBackAndTheMoveIsTriedAgainWhenItIs) {
  begin();
  down("node-2");
  EXPECT_EQ(stage_.move_of("v1"), "-");
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->node, "node-1");
  EXPECT_THAT(stage_.blockers_of("v1", "two"), HasSubstr("AgentUnreachable"));
  EXPECT_TRUE(stage_.is_satisfied("v1", "one"));
  expect_quiet();
  up("node-2");
  stage_.pass(5s);
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
}

TEST_F(Move, DestinationNodeDiesAfterActivationRollsBackByTheFence) {
  begin();
  activate();
  down("node-2");
  EXPECT_EQ(stage_.move_of("v1"), "-");
  const auto grant = stage_.get<mr::Grant>("v1");
  EXPECT_EQ(grant->spec.active->node, "node-1");
  EXPECT_EQ(grant->spec.proofs.back().type, mr::ProofType::fenced);
  EXPECT_EQ(grant->spec.proofs.back().holder.node, "node-2");
  EXPECT_TRUE(stage_.is_satisfied("v1", "one"));
}

TEST_F(Move, DestinationsProcessDiesBeforeActivationAndComesBackAsAStandby) {
  begin();
  const auto epoch = stage_.get<mr::Grant>("v1")->spec.standby->epoch;
  stage_.kill_engine_on("node-2");
  stage_.pass(5s);
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
  EXPECT_GT(stage_.get<mr::Grant>("v1")->spec.standby->epoch, epoch);
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->epoch, 1) << "the source notices nothing";
}

TEST_F(Move, SourcesProcessDiesBeforeActivationAndTheMoveGoesOn) {
  begin();
  stage_.kill_engine_on("node-1");
  stage_.pass(5s);
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
  const auto grant = stage_.get<mr::Grant>("v1");
  EXPECT_GT(grant->spec.standby->epoch, grant->spec.active->epoch);
  EXPECT_EQ(stage_.get<lh::Volume>("v1")->status.move->source_served, grant->spec.active->epoch);
  EXPECT_EQ(stage_.get<lh::Engine>("v1-e-b")->status.epoch, grant->spec.standby->epoch);
  stage_.remove_ticket("v1", "one");
  expect_on("node-2");
}

// The destination's agent may be taking over by that word just now: without a write of the Grant nothing
// keeps it from that, so the record must not say otherwise (S22).
TEST_F(Move, WhatWasSaidToBeReadyStaysSoWhileTheGrantIsTheSame) {
  begin();
  const auto grant = stage_.get<mr::Grant>("v1");
  stage_.agent("node-1").up = false;
  stage_.agent("node-2").up = false;
  const auto source = stage_.get<lh::Engine>("v1-e");
  auto silent = *source;
  silent.status.holding = 0;  // as an agent says that has just started
  ASSERT_TRUE(stage_.update(source, silent, "status"));
  const auto destination = stage_.get<lh::Engine>("v1-e-b");
  auto starting = *destination;
  starting.status.current_state = lh::InstanceState::starting;
  ASSERT_TRUE(stage_.update(destination, starting, "status"));
  stage_.settle();
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
  EXPECT_EQ(stage_.get<lh::Engine>("v1-e-b")->spec.ready_epoch, grant->spec.standby->epoch);
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->metadata.resource_version, grant->metadata.resource_version);
  stage_.remove_ticket("v1", "one");
  EXPECT_EQ(stage_.move_of("v1"), "confirming node-1 node-2") << "not a detach and an attach";
  up("node-1");
  up("node-2");
  expect_on("node-2");
}

TEST_F(Move, AStandbyThatIsLiftedAboveItsSourceIsNotReadyUntilItRunsThere) {
  std::size_t pieces = 0;
  for (bool more = true; more && pieces < 100; ++pieces) {
    Stage stage;
    stage.create_volume("v1", R"("size":"1073741824","accessMode":"rwx","migratable":true)");
    stage.add_ticket("v1", "one", "csi-attacher", "node-1");
    stage.add_ticket("v1", "two", "csi-attacher", "node-2");
    ASSERT_EQ(stage.move_of("v1"), "ready node-1 node-2");
    stage.hold = true;
    stage.kill_engine_on("node-1");
    stage.hold = false;
    more = stage.nudge(pieces);
    const auto grant = stage.get<mr::Grant>("v1");
    const auto standby = stage.get<lh::Engine>("v1-e-b");
    ASSERT_TRUE(grant->spec.standby);
    const bool runs = standby->status.epoch == grant->spec.standby->epoch;
    EXPECT_EQ(standby->spec.ready_epoch == grant->spec.standby->epoch,
              stage.move_of("v1") == "ready node-1 node-2")
        << "after " << pieces << " pieces of work";
    EXPECT_TRUE(runs || standby->spec.ready_epoch != grant->spec.standby->epoch)
        << "after " << pieces << " pieces of work";
  }
  EXPECT_GT(pieces, 5u);
}

TEST_F(Move, DestinationsProcessDiesAfterActivationAndGetsTheNextEpochThere) {
  begin();
  activate();
  const auto epoch = stage_.get<mr::Grant>("v1")->spec.active->epoch;
  stage_.kill_engine_on("node-2");
  stage_.pass(5s);
  EXPECT_EQ(stage_.move_of("v1"), "activated node-1 node-2");
  const auto grant = stage_.get<mr::Grant>("v1");
  EXPECT_EQ(grant->spec.active->node, "node-2");
  EXPECT_GT(grant->spec.active->epoch, epoch);
  stage_.remove_ticket("v1", "one");
  expect_on("node-2");
}

TEST_F(Move, SourcesProcessDiesAfterActivationAndIsNotStartedAgainUntilARollback) {
  begin();
  activate();
  stage_.kill_engine_on("node-1");
  stage_.pass(5s);
  EXPECT_EQ(stage_.reality.engines.size(), 1u);
  stage_.remove_ticket("v1", "two");
  stage_.pass(5s);
  expect_on("node-1");
}

TEST_F(Move, SourceNodeDiesWhenReadyConfirmsByFence) {
  for (const bool activated : {false, true}) {
    SCOPED_TRACE(activated);
    if (activated) {
      up("node-1");
      stage_.remove_ticket("v1", "two");
      stage_.pass(5s);
      expect_on("node-1");
      begin();
      activate();
    } else {
      begin();
    }
    down("node-1");
    stage_.pass(40s);
    EXPECT_THAT(stage_.state_of("v1"), StartsWith("attached node-2"));
    EXPECT_EQ(stage_.move_of("v1"), "-");
    EXPECT_TRUE(stage_.is_satisfied("v1", "two"));
    EXPECT_FALSE(stage_.is_satisfied("v1", "one"));
    bool fenced = false;
    const auto grant = stage_.get<mr::Grant>("v1");
    for (const auto& proof : grant->spec.proofs)
      fenced |= proof.type == mr::ProofType::fenced && proof.holder.node == "node-1";
    EXPECT_TRUE(fenced);
    if (activated) break;
  }
}

TEST_F(Move, SourceNodeDiesWhilePreparingEndsTheMove) {
  stage_.agent("node-2").broken_engines = true;
  stage_.add_ticket("v1", "two", "csi-attacher", "node-2");
  down("node-1");
  EXPECT_EQ(stage_.get<lh::Volume>("v1")->spec.migration_node_id, "");
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->node, "node-1");
  stage_.agent("node-2").broken_engines = false;
  up("node-1");
  stage_.pass(2min);
  EXPECT_EQ(stage_.move_of("v1"), "ready node-1 node-2");
}

TEST_F(Move, DestinationNodeDiesAfterTheConfirmAndNothingGoesBack) {
  begin();
  stage_.hold = true;
  stage_.agent("node-2").up = false;
  stage_.remove_ticket("v1", "one");
  stage_.hold = false;
  stage_.pass(30s);
  EXPECT_EQ(stage_.get<lh::Volume>("v1")->spec.node_id, "node-2");
  EXPECT_EQ(stage_.move_of("v1"), "confirming node-1 node-2");
  EXPECT_EQ(stage_.get<mr::Grant>("v1")->spec.active->node, "node-2");
  up("node-2");
  stage_.pass(5s);
  expect_on("node-2");
}

TEST_F(Move, AThirdNodesTicketWaitsAndNamesTheMove) {
  begin();
  stage_.add_ticket("v1", "page", "longhorn-api", "node-3");
  EXPECT_EQ(stage_.blockers_of("v1", "page"), "Moving");
  const auto book = stage_.get<lh::VolumeAttachment>("v1");
  const lh::Blocker& blocker = book->status.attachment_ticket_statuses.at("page").blockers[0];
  EXPECT_THAT(blocker.message, HasSubstr("from node node-1 to node node-2"));
  EXPECT_THAT(blocker.cleared_by, HasSubstr("--confirm"));
  EXPECT_TRUE(blocker.since);
}

TEST_F(Move, WaitsWhileAReplicaIsBeingRebuilt) {
  const auto grant = stage_.get<mr::Grant>("v1");
  mr::Grant next = *grant;
  next.spec.members["v1-r-3"] = mr::MemberMode::err;
  ++next.spec.generation;
  ASSERT_TRUE(stage_.update(grant, next, "", {"node-1", {}, "node-1"}));
  const auto erred = stage_.get<mr::Grant>("v1");
  next = *erred;
  next.spec.members["v1-r-3"] = mr::MemberMode::wo;
  ASSERT_TRUE(stage_.update(erred, next, "", {"node-1", {}, "node-1"}));
  stage_.settle();
  stage_.add_ticket("v1", "two", "csi-attacher", "node-2");
  EXPECT_EQ(stage_.move_of("v1"), "-");
  EXPECT_EQ(stage_.blockers_of("v1", "two"), "Moving");
}

TEST_F(Move, AVolumeThatIsDeletedInTheMiddleLeavesNothing) {
  begin();
  activate();
  stage_.remove(kind_of<lh::Volume>(), "v1");
  EXPECT_EQ(stage_.state_of("v1"), "gone");
  EXPECT_TRUE(stage_.reality.engines.empty());
  EXPECT_TRUE(stage_.all<lh::Engine>().empty());
}

TEST_F(Move, EachPhaseIsToldAndTheConditionGoesWithTheMove) {
  begin();
  const auto volume = stage_.get<lh::Volume>("v1");
  const model::Condition* moving = model::find_condition(volume->status.conditions, lh::kVolumeMoving);
  ASSERT_NE(moving, nullptr);
  EXPECT_EQ(moving->reason, "MoveReady");
  EXPECT_THAT(moving->message, HasSubstr("from node node-1 to node node-2"));
  stage_.remove_ticket("v1", "one");
  EXPECT_FALSE(model::is_condition_true(stage_.get<lh::Volume>("v1")->status.conditions, lh::kVolumeMoving));
}

TEST(MoveOfAnInstance, TwoTicketsOfOneOwnerMoveAnOrdinaryVolume) {
  Stage stage;
  stage.create_volume("v1");
  stage.create_volume("owner");
  const std::string owner = fmt::format(R"(,"owner":{{"apiVersion":"longhorn.io/v1beta2","kind":"Volume",)"
                                        R"("namespace":"longhorn-system","name":"owner","uid":"{}"}})",
                                        stage.get<lh::Volume>("owner")->metadata.uid);
  stage.add_ticket("v1", "one", "csi-attacher", "node-1", owner);
  stage.add_ticket("v1", "other", "csi-attacher", "node-3");
  EXPECT_EQ(stage.blockers_of("v1", "other"), "AttachedElsewhere") << "S21";
  stage.add_ticket("v1", "two", "csi-attacher", "node-2", owner);
  EXPECT_EQ(stage.move_of("v1"), "ready node-1 node-2") << stage.blockers_of("v1", "two");
  stage.remove_ticket("v1", "one");
  EXPECT_EQ(stage.state_of("v1"), "attached node-2 healthy");
}

}  // namespace
}  // namespace moor::control
