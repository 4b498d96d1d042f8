// The story of a volume with all controllers and imagined agents: what people see, what really runs, and how
// many writes it takes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "control/testing/stage.h"
#include "model/longhorn/setting.h"

namespace moor::control {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Each epoch is started at most once (S3), and never two engines of a volume at once (S1).
void expect_starts_once(const Stage& stage) {
  for (const auto& [start, count] : stage.reality.starts) EXPECT_EQ(count, 1) << start;
}

// Without new input nothing is written any more (L8).
void expect_quiet(Stage& stage) {
  stage.settle();
  const std::uint64_t before = stage.revision();
  stage.settle();
  EXPECT_EQ(stage.revision(), before);
}

TEST(Story, AVolumeIsMadeAttachedAndDetached) {
  Stage stage;
  stage.create_volume("v1");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  EXPECT_EQ(stage.all<lh::Replica>().size(), 3u);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.epoch, 0);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.members.size(), 3u);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.next_replica, 4);

  stage.add_ticket("v1", "csi-1", "csi-attacher", "node-1");
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  EXPECT_TRUE(stage.is_satisfied("v1", "csi-1")) << stage.blockers_of("v1", "csi-1");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.active->epoch, 1);
  EXPECT_EQ(stage.get<lh::Engine>("v1-e")->status.epoch, 1);

  stage.remove_ticket("v1", "csi-1");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  const auto grant = stage.get<mr::Grant>("v1");
  EXPECT_FALSE(grant->spec.active);
  ASSERT_EQ(grant->spec.proofs.size(), 1u);
  EXPECT_EQ(grant->spec.proofs[0].type, mr::ProofType::unmounted);
  EXPECT_TRUE(stage.reality.engines.empty());
  EXPECT_TRUE(stage.reality.replicas.empty());
  expect_quiet(stage);
}

TEST(Story, AWholeAttachTakesABoundedNumberOfWrites) {
  Stage stage;
  stage.create_volume("v1");
  const std::uint64_t before = stage.revision();
  stage.add_ticket("v1", "csi-1", "csi-attacher", "node-1");
  ASSERT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  // The ticket; node and ticket's wait; attaching with three replicas; three reports; Grant with Engine; the
  // engine's report; attached; satisfied.
  EXPECT_LE(stage.revision() - before, 16u);
  expect_quiet(stage);
}

// What an attach costs when nobody else does anything: bench/attach counts the same of a real server.
TEST(Story, AttachingAndDetachingTakesABoundedNumberOfLooks) {
  constexpr std::uint64_t kPairs = 20;
  Stage stage;
  stage.create_volume("v1");
  const auto pair = [&] {
    stage.add_ticket("v1", "csi-1", "csi-attacher", "node-1");
    stage.remove_ticket("v1", "csi-1");
  };
  pair();
  const auto looks = [&](std::string_view controller) {
    const auto names = stage.runtime->names();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == controller) return stage.runtime->stats(i).reconciles;
    return std::uint64_t{0};
  };
  const std::uint64_t revisions = stage.revision();
  const std::uint64_t volume = looks("volume");
  const std::uint64_t attachment = looks("volume-attachment");
  for (std::uint64_t i = 0; i < kPairs; ++i) pair();
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  EXPECT_LE(stage.revision() - revisions, 26 * kPairs);
  EXPECT_LE(looks("volume") - volume, 10 * kPairs);
  EXPECT_LE(looks("volume-attachment") - attachment, 5 * kPairs);
  RecordProperty("writes", std::to_string(stage.revision() - revisions));
  RecordProperty("volume-looks", std::to_string(looks("volume") - volume));
  RecordProperty("attachment-looks", std::to_string(looks("volume-attachment") - attachment));
}

TEST(Story, SeveralRequestersShareOneAttachmentUntilTheLastLeaves) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi-1", "csi-attacher", "node-1");
  stage.add_ticket("v1", "ui", "longhorn-api", "node-1");
  stage.add_ticket("v1", "snap", "snapshot-controller", "node-1",
                   R"(,"parameters":{"disableFrontend":"any"})");
  for (const char* ticket : {"csi-1", "ui", "snap"}) EXPECT_TRUE(stage.is_satisfied("v1", ticket)) << ticket;
  stage.remove_ticket("v1", "csi-1");
  stage.remove_ticket("v1", "ui");
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  stage.remove_ticket("v1", "snap");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
}

TEST(Story, TheHigherPriorityWinsWhenTheVolumeIsFree) {
  Stage stage;
  stage.create_volume("v1");
  stage.stop_controllers();
  stage.add_ticket("v1", "snap", "snapshot-controller", "node-1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-2");
  stage.add_ticket("v1", "api", "longhorn-api", "node-3");
  stage.start_controllers();
  stage.settle();
  EXPECT_EQ(stage.state_of("v1"), "attached node-3 healthy");
  EXPECT_EQ(stage.blockers_of("v1", "csi"), "AttachedElsewhere");
}

TEST(Story, AnIncompatibleTicketWaitsAndSaysWhy) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.add_ticket("v1", "maintenance", "longhorn-api", "node-1",
                   R"(,"parameters":{"disableFrontend":"true"})");
  EXPECT_EQ(stage.blockers_of("v1", "maintenance"), "IncompatibleParameters");
  stage.remove_ticket("v1", "csi");
  EXPECT_TRUE(stage.is_satisfied("v1", "maintenance")) << stage.state_of("v1");
  EXPECT_TRUE(stage.get<lh::Engine>("v1-e")->spec.disable_frontend);
  EXPECT_TRUE(stage.get<lh::Volume>("v1")->status.frontend_disabled);
}

TEST(Story, ASnapshotYieldsToAWorkloadElsewhere) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "snap", "snapshot-controller", "node-1",
                   R"(,"parameters":{"disableFrontend":"any"})");
  ASSERT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-2");
  EXPECT_EQ(stage.state_of("v1"), "attached node-2 healthy");
  EXPECT_TRUE(stage.is_satisfied("v1", "csi"));
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.epoch, 2);
  expect_starts_once(stage);
}

TEST(Story, ATicketThatChangesItsNodeTakesTheVolumeAlong) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-3");
  EXPECT_EQ(stage.state_of("v1"), "attached node-3 healthy");
  EXPECT_TRUE(stage.is_satisfied("v1", "csi"));
  EXPECT_EQ(stage.get<lh::VolumeAttachment>("v1")->spec.attachment_tickets.at("csi").generation, 1);
}

TEST(Story, AnEngineThatDiesComesBackWithANewEpochAndTheVolumeStaysAttached) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.kill_engine("v1");
  stage.settle();
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  const auto grant = stage.get<mr::Grant>("v1");
  EXPECT_EQ(grant->spec.active->epoch, 2);
  EXPECT_EQ(stage.get<lh::Volume>("v1")->status.restarts.count, 1);
  EXPECT_THAT(stage.get<lh::Volume>("v1")->status.restarts.cause, HasSubstr("signal 9"));
  EXPECT_TRUE(stage.is_satisfied("v1", "csi"));
  stage.pass(11min);
  EXPECT_EQ(stage.get<lh::Volume>("v1")->status.restarts.count, 0);
  expect_starts_once(stage);
}

TEST(Story, AnEngineThatNeverComesUpIsTriedMoreAndMoreRarelyAndThenNoMore) {
  Stage stage;
  stage.create_volume("v1");
  stage.agent("node-1").broken_engines = true;
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.pass(20min);
  EXPECT_EQ(stage.get<lh::Volume>("v1")->status.restarts.count, 10);
  EXPECT_EQ(stage.reality.starts.size(), 11u);
  EXPECT_EQ(stage.blockers_of("v1", "csi"), "EngineFailing");
  expect_quiet(stage);
  // A person mends it and asks again.
  stage.agent("node-1").broken_engines = false;
  stage.remove_ticket("v1", "csi");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
}

TEST(Story, AVolumeWhoseMembersAllStoppedComesBackByItself) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  for (const char* replica : {"v1-r-1", "v1-r-2", "v1-r-3"}) stage.kill_replica(replica);
  stage.settle();
  stage.pass(5s);
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.active->epoch, 2);
}

TEST(Story, OneLostReplicaOfThreeLeavesTheVolumeDegradedAndAttached) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.kill_replica("v1-r-2");
  stage.settle();
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 degraded");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.members.at("v1-r-2"), mr::MemberMode::err);
  EXPECT_NE(stage.get<lh::Replica>("v1-r-2")->spec.failed_at, "");
  // S44: it does not return by itself.
  stage.remove_ticket("v1", "csi");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-2");
  EXPECT_EQ(stage.state_of("v1"), "attached node-2 degraded");
}

TEST(Story, ATicketForANodeThatIsNotReadyWaitsUntilItIs) {
  Stage stage;
  stage.create_volume("v1");
  stage.agent("node-2").up = false;
  stage.pass(15s);
  stage.add_ticket("v1", "csi", "csi-attacher", "node-2");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  EXPECT_EQ(stage.blockers_of("v1", "csi"), "AgentUnreachable");
  stage.agent("node-2").up = true;
  stage.agent("node-2").heartbeat();
  stage.settle();
  EXPECT_EQ(stage.state_of("v1"), "attached node-2 healthy");
}

TEST(Story, AnAttachGoesOnWithoutAMemberWhoseNodeIsAway) {
  Stage stage;
  stage.create_volume("v1");
  stage.agent("node-3").up = false;
  stage.pass(15s);
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 degraded");
}

TEST(Story, AnEngineOnADeadNodeHoldsTheVolumeUntilItsReleaseIsProven) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.agent("node-1").up = false;
  stage.pass(20s);
  stage.remove_ticket("v1", "csi");
  stage.add_ticket("v1", "csi-2", "csi-attacher", "node-2");
  stage.pass(60s);
  EXPECT_EQ(stage.state_of("v1"), "detaching node-1 unknown");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.active->node, "node-1");
  // The node boots again: another life, so nothing of the old one runs.
  stage.reality.engines.clear();
  stage.agent("node-1").incarnation = 2;
  stage.agent("node-1").up = true;
  const auto node = stage.get<lh::Node>("node-1");
  lh::Node next = *node;
  next.status.incarnation = 2;
  ASSERT_TRUE(stage.update(node, next, "status", {"node-1", {}, "node-1"}));
  stage.pass(5s);
  EXPECT_EQ(stage.state_of("v1"), "attached node-2 healthy");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.proofs[0].type, mr::ProofType::incarnation_ended);
}

TEST(Story, WithoutADiskATicketWaitsAndTheFirstDiskEndsTheWait) {
  Stage stage({.nodes = 1, .disk_bytes = 0});
  stage.create_volume("v1", R"("size":"1073741824","numberOfReplicas":1)");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  EXPECT_EQ(stage.blockers_of("v1", "csi"), "InsufficientCapacity");
  const auto node = stage.get<lh::Node>("node-1");
  lh::Node next = *node;
  next.status.disk_status["default"].storage_maximum = 100ll << 30;
  next.status.disk_status["default"].storage_available = 100ll << 30;
  ASSERT_TRUE(stage.update(node, next, "status", {"node-1", {}, "node-1"}));
  stage.settle();
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
}

TEST(Story, NoDiskAtAllIsNamedAsSuch) {
  Stage stage({.nodes = 1});
  const auto node = stage.get<lh::Node>("node-1");
  lh::Node next = *node;
  next.spec.disks["default"].allow_scheduling = false;
  ASSERT_TRUE(stage.update(node, next));
  stage.create_volume("v1", R"("size":"1073741824","numberOfReplicas":1)");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  EXPECT_EQ(stage.blockers_of("v1", "csi"), "NoSchedulableDisk");
  EXPECT_FALSE(stage.is_satisfied("v1", "csi"));
}

TEST(Story, RoomOnADiskIsNotPromisedTwice) {
  Stage stage({.nodes = 1, .disk_bytes = 10ll << 30});
  for (const char* name : {"v1", "v2", "v3"})
    stage.create_volume(name, fmt::format(R"("size":"{}","numberOfReplicas":1)", 4ll << 30));
  EXPECT_EQ(stage.get<mr::Ledger>("node-1")->spec.disks.at("disk-of-node-1").size(), 2u);
  const auto scheduled = [&](const char* name) {
    const auto volume = stage.get<lh::Volume>(name);
    return model::is_condition_true(volume->status.conditions, lh::kVolumeScheduled);
  };
  EXPECT_TRUE(scheduled("v1") && scheduled("v2"));
  EXPECT_FALSE(scheduled("v3"));
  // Room that comes free is given out without anybody asking again.
  stage.remove(kind_of<lh::Volume>(), "v1");
  EXPECT_EQ(stage.state_of("v1"), "gone");
  EXPECT_TRUE(scheduled("v3"));
}

// The step that gives the place back and the one that takes it write the same Ledger.
TEST(Story, UnderALimitTheVolumeGoesFromOneTicketToTheNextOnItsNode) {
  Stage stage;
  stage.set_setting("node-attach-limit", "2");
  stage.create_volume("v1");
  stage.add_ticket("v1", "first", "longhorn-api", "node-1", R"(,"parameters":{"disableFrontend":"true"})");
  stage.add_ticket("v1", "second", "longhorn-api", "node-1", R"(,"parameters":{"disableFrontend":"false"})");
  EXPECT_TRUE(stage.is_satisfied("v1", "first"));
  EXPECT_FALSE(stage.is_satisfied("v1", "second"));
  stage.remove_ticket("v1", "first");
  EXPECT_TRUE(stage.is_satisfied("v1", "second"));
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
}

TEST(Story, TheLimitOfANodeHoldsAndAPlaceThatComesFreeIsTaken) {
  Stage stage;
  stage.set_setting("node-attach-limit", "2");
  EXPECT_TRUE(stage.get<lh::Setting>("node-attach-limit")->status.applied);
  for (const char* name : {"v1", "v2", "v3"}) stage.create_volume(name);
  stage.stop_controllers();
  for (const char* name : {"v1", "v2", "v3"}) stage.add_ticket(name, "csi", "csi-attacher", "node-1");
  stage.start_controllers();
  stage.settle();
  int attached = 0;
  std::string waiting;
  std::string held;
  for (const char* name : {"v1", "v2", "v3"}) {
    const bool satisfied = stage.is_satisfied(name, "csi");
    attached += satisfied ? 1 : 0;
    (satisfied ? held : waiting) = name;
  }
  EXPECT_EQ(attached, 2);
  EXPECT_EQ(stage.blockers_of(waiting, "csi"), "NodeAttachLimit");
  EXPECT_EQ(stage.get<mr::Ledger>("node-1")->spec.attachments.size(), 2u);
  stage.remove_ticket(held, "csi");
  EXPECT_TRUE(stage.is_satisfied(waiting, "csi")) << stage.blockers_of(waiting, "csi");
}

TEST(Story, DeletingAVolumeTakesEverythingWithIt) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  stage.remove(kind_of<lh::Volume>(), "v1");
  EXPECT_EQ(stage.state_of("v1"), "gone");
  EXPECT_TRUE(stage.all<lh::Replica>().empty());
  EXPECT_TRUE(stage.all<lh::Engine>().empty());
  EXPECT_TRUE(stage.all<lh::VolumeAttachment>().empty());
  EXPECT_TRUE(stage.all<mr::Grant>().empty());
  EXPECT_TRUE(stage.all<model::core::Secret>().empty());
  EXPECT_TRUE(stage.reality.engines.empty());
  for (const auto& ledger : stage.all<mr::Ledger>()) EXPECT_TRUE(ledger->spec.disks.empty());
}

// Nothing but the snapshots says when it goes on: one that is made meanwhile wakes nobody, and is found.
TEST(Story, AVolumeThatGoesWaitsForItsSnapshotsAndForThoseThatAreMadeMeanwhile) {
  Stage stage;
  stage.create_volume("v1");
  const auto take = [&stage](const std::string& name) {
    const Json snapshot = *parse_json(fmt::format(
        R"({{"apiVersion":"longhorn.io/v1beta2","kind":"Snapshot","metadata":{{"name":"{}","namespace":"{}",)"
        R"("labels":{{"longhornvolume":"v1"}},"finalizers":["example.com/kept"]}},"spec":{{"volume":"v1"}}}})",
        name, lh::kDefaultNamespace));
    const auto made = stage.write(kind_of<lh::Snapshot>(), snapshot);
    ASSERT_TRUE(made) << made.error().error.message;
    stage.settle();
  };
  const auto let_go = [&stage](const std::string& name) {
    const auto kept = stage.get<lh::Snapshot>(name);
    ASSERT_TRUE(kept);
    EXPECT_TRUE(kept->metadata.is_being_deleted());
    lh::Snapshot freed = *kept;
    freed.metadata.finalizers.clear();
    ASSERT_TRUE(stage.update(kept, freed));
    stage.settle();
  };
  take("first");
  stage.remove(kind_of<lh::Volume>(), "v1");
  take("second");
  ASSERT_TRUE(stage.get<lh::Volume>("v1"));
  let_go("first");
  ASSERT_TRUE(stage.get<lh::Volume>("v1")) << "the second is still there";
  let_go("second");
  EXPECT_TRUE(stage.all<lh::Snapshot>().empty());
  EXPECT_EQ(stage.state_of("v1"), "gone");
}

TEST(Story, ADeletedAttachmentMeansNoTicketsAndANewOneComes) {
  Stage stage;
  stage.create_volume("v1");
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
  const std::string uid = stage.get<lh::VolumeAttachment>("v1")->metadata.uid;
  stage.remove(kind_of<lh::VolumeAttachment>(), "v1");
  ASSERT_TRUE(stage.get<lh::VolumeAttachment>("v1"));
  EXPECT_NE(stage.get<lh::VolumeAttachment>("v1")->metadata.uid, uid);
  EXPECT_TRUE(stage.get<lh::VolumeAttachment>("v1")->spec.attachment_tickets.empty());
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
}

TEST(Story, ATicketGoesWithItsOwner) {
  Stage stage;
  stage.create_volume("v1");
  stage.create_volume("owner");
  const std::string uid = stage.get<lh::Volume>("owner")->metadata.uid;
  stage.add_ticket("v1", "t", "csi-attacher", "node-1",
                   fmt::format(R"(,"owner":{{"apiVersion":"longhorn.io/v1beta2","kind":"Volume",)"
                               R"("namespace":"longhorn-system","name":"owner","uid":"{}"}})",
                               uid));
  ASSERT_TRUE(stage.is_satisfied("v1", "t"));
  stage.remove(kind_of<lh::Volume>(), "owner");
  EXPECT_TRUE(stage.get<lh::VolumeAttachment>("v1")->spec.attachment_tickets.empty());
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
}

}  // namespace
}  // namespace moor::control
