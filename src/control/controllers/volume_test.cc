// The volume controller as a table: given these objects, these writes.
#include <gmock/gmock.h>

#include "control/controllers/controllers.h"
#include "control/controllers/volume_steps.h"
#include "control/testing/table.h"

namespace moor::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using namespace std::chrono_literals;

class VolumeTable : public Table {
 protected:
  void SetUp() override {
    for (const char* name : {"n1", "n2"}) node(name, true, 1);
    given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"v","uid":"0123456789ab",
      "finalizers":["longhorn.io"]},
      "spec":{"size":"1000","numberOfReplicas":2,"frontend":"blockdev","dataEngine":"v1"}})");
  }
  void node(const std::string& name, bool ready, int incarnation) {
    given(fmt::format(R"({{"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{{"name":"{}"}},
      "spec":{{"allowScheduling":true,"disks":{{"d":{{"path":"/disk","allowScheduling":true}}}}}},
      "status":{{"incarnation":{},"conditions":[{{"type":"Ready","status":"{}"}}],"diskStatus":{{"d":
      {{"diskUUID":"u-{}","conditions":[{{"type":"Ready","status":"True"}}],"storageMaximum":1000000,
      "storageAvailable":1000000}}}}}}}})",
                      name, incarnation, ready ? "True" : "Unknown", name));
  }
  Plan plan() { return plan_of(*controller_, "v"); }
  void step() { apply(plan()); }
  void want(const std::string& node) {
    change("volumes.longhorn.io", "v", R"({"spec":{"nodeID":")" + node + R"("}})");
  }
  void replica_runs(const std::string& name, const std::string& state = "running") {
    change("replicas.longhorn.io", name,
           R"({"status":{"currentState":")" + state + R"(","ip":"10.0.0.1","port":7}})");
  }
  void engine_says(const std::string& state, int epoch) {
    change("engines.longhorn.io", "v-e",
           fmt::format(R"({{"status":{{"currentState":"{}","epoch":{},"replicaModeMap":{{"v-r-1":"RW"}}}}}})",
                       state, epoch));
  }
  void attached() {
    step();
    want("n1");
    step();
    replica_runs("v-r-1");
    replica_runs("v-r-2");
    step();
    engine_says("running", 1);
    step();
  }
  std::string state(const Plan& plan) { return text_at(written(plan, "Volume", "v"), {"status", "state"}); }
  std::string restarts() {
    const JsonPtr volume = shelf_.find(kind_of<lh::Volume>(), "longhorn-system", "v");
    return text_at(volume.get(), {"status", "restarts", "count"});
  }
  std::unique_ptr<Controller> controller_ = make_volume_controller();
};

TEST_F(VolumeTable, CreationIsOneTransaction) {
  const Plan made = plan();
  EXPECT_THAT(writes(made),
              UnorderedElementsAre("create VolumeAttachment v", "create Grant v", "create Secret v-token",
                                   "create Engine v-e", "create Replica v-r-1", "create Replica v-r-2",
                                   "create Ledger n1", "create Ledger n2", "update Volume v/status"));
  const Json* grant = written(made, "Grant", "v");
  EXPECT_EQ(text_at(grant, {"spec", "members"}), R"({"v-r-1":"RW","v-r-2":"RW"})");
  EXPECT_EQ(text_at(grant, {"spec", "nextReplica"}), "3");
  EXPECT_EQ(text_at(grant, {"spec", "epoch"}), "0");
  const Json* replica = written(made, "Replica", "v-r-1");
  EXPECT_EQ(text_at(replica, {"spec", "dataDirectoryName"}), "v-01234567-r-1");
  EXPECT_EQ(text_at(replica, {"spec", "nodeID"}), "n1");
  EXPECT_EQ(text_at(replica, {"spec", "diskID"}), "u-n1");
  EXPECT_EQ(text_at(replica, {"metadata", "labels", "longhornvolume"}), "v");
  EXPECT_EQ(text_at(written(made, "VolumeAttachment", "v"), {"metadata", "finalizers"}),
            R"(["longhorn.io"])");
  EXPECT_EQ(text_at(written(made, "Ledger", "n1"), {"spec", "disks"}),
            R"({"u-n1":{"longhorn-system/v-r-1":1000}})");
  EXPECT_EQ(state(made), "detached");
  apply(made);
  EXPECT_THAT(writes(plan()), IsEmpty());
}

TEST_F(VolumeTable, OpeningStartsTheReplicasAndThenGrantsAnEpochWithTheEngineInOneTransaction) {
  step();
  want("n1");
  const Plan opening = plan();
  EXPECT_THAT(writes(opening),
              UnorderedElementsAre("update Replica v-r-1", "update Replica v-r-2", "update Volume v/status"));
  EXPECT_EQ(state(opening), "attaching");
  apply(opening);
  EXPECT_THAT(writes(plan()), IsEmpty());
  replica_runs("v-r-1");
  EXPECT_EQ(text_at(written(plan(), "Grant", "v"), {"spec", "active"}), "-");
  replica_runs("v-r-2");
  const Plan granting = plan();
  EXPECT_THAT(writes(granting), Contains("update Grant v"));
  EXPECT_EQ(text_at(written(granting, "Grant", "v"), {"spec", "active"}),
            R"({"epoch":1,"engine":"v-e","node":"n1","incarnation":1})");
  EXPECT_EQ(text_at(written(granting, "Engine", "v-e"), {"spec", "replicaAddressMap"}),
            R"({"v-r-1":"10.0.0.1:7","v-r-2":"10.0.0.1:7"})");
  EXPECT_EQ(text_at(written(granting, "Engine", "v-e"), {"spec", "desireState"}), "running");
  apply(granting);
  EXPECT_THAT(writes(plan()), IsEmpty());
  engine_says("running", 1);
  EXPECT_EQ(state(plan()), "attached");
}

TEST_F(VolumeTable, AMemberThatDoesNotComeIsWaitedForHalfAMinute) {
  step();
  want("n1");
  step();
  replica_runs("v-r-1");
  step();
  EXPECT_EQ(plan().again_after, Duration(30s));
  now_ += 31s;
  EXPECT_EQ(text_at(written(plan(), "Engine", "v-e"), {"spec", "replicaAddressMap"}),
            R"({"v-r-1":"10.0.0.1:7"})");
}

TEST_F(VolumeTable, AnEngineOfAnotherEpochProvesNothing) {
  attached();
  want("");
  step();
  engine_says("stopped", 0);
  EXPECT_EQ(written(plan(), "Grant", "v"), nullptr);
  engine_says("stopped", 1);
  const Plan closing = plan();
  EXPECT_EQ(text_at(written(closing, "Grant", "v"), {"spec", "active"}), "-");
  EXPECT_THAT(text_at(written(closing, "Grant", "v"), {"spec", "proofs"}), HasSubstr("Unmounted"));
}

TEST_F(VolumeTable, AnEpochThatItsAgentHasNotTakenUpIsNotCalledBack) {
  step();
  want("n1");
  step();
  replica_runs("v-r-1");
  replica_runs("v-r-2");
  step();
  want("");
  EXPECT_EQ(written(plan(), "Engine", "v-e"), nullptr);
  step();
  engine_says("starting", 1);
  EXPECT_EQ(text_at(written(plan(), "Engine", "v-e"), {"spec", "desireState"}), "stopped");
}

TEST_F(VolumeTable, TheVolumeIsDetachedOnlyWhenItsReplicasHaveStopped) {
  attached();
  want("");
  step();
  engine_says("stopped", 1);
  const Plan closing = plan();
  EXPECT_EQ(text_at(written(closing, "Replica", "v-r-1"), {"spec", "desireState"}), "stopped");
  EXPECT_EQ(state(closing), "-");
  apply(closing);
  replica_runs("v-r-1", "stopped");
  EXPECT_EQ(state(plan()), "-");
  replica_runs("v-r-2", "stopped");
  EXPECT_EQ(state(plan()), "detached");
}

TEST_F(VolumeTable, AnEndedEngineGetsTheNextEpochWithTheProofOfTheOld) {
  attached();
  engine_says("error", 1);
  const Plan again = plan();
  EXPECT_EQ(text_at(written(again, "Grant", "v"), {"spec", "epoch"}), "2");
  EXPECT_THAT(text_at(written(again, "Grant", "v"), {"spec", "proofs"}), HasSubstr(R"("epoch":1)"));
  EXPECT_EQ(text_at(written(again, "Volume", "v"), {"status", "state"}), "attached");
  EXPECT_EQ(text_at(written(again, "Volume", "v"), {"status", "robustness"}), "unknown");
  apply(again);
  EXPECT_EQ(restarts(), "1");
  engine_says("error", 2);
  const Plan pause = plan();
  EXPECT_EQ(written(pause, "Grant", "v"), nullptr);
  EXPECT_EQ(pause.again_after, Duration(1s));
  now_ += 1s;
  EXPECT_EQ(text_at(written(plan(), "Grant", "v"), {"spec", "epoch"}), "3");
}

TEST_F(VolumeTable, AnEngineInErrorHasLeftItsDeviceAndDoesNotFreeItsNode) {
  attached();
  engine_says("error", 1);
  want("");
  const Plan closing = plan();
  EXPECT_EQ(written(closing, "Grant", "v"), nullptr);
  EXPECT_EQ(text_at(written(closing, "Engine", "v-e"), {"spec", "desireState"}), "stopped");
  apply(closing);
  EXPECT_EQ(written(plan(), "Grant", "v"), nullptr);
  engine_says("stopped", 1);
  EXPECT_EQ(text_at(written(plan(), "Grant", "v"), {"spec", "active"}), "-");
}

TEST_F(VolumeTable, AnEngineThatAwaitsItsMembersIsToldWhereTheyListenNow) {
  step();
  want("n1");
  step();
  replica_runs("v-r-1");
  replica_runs("v-r-2");
  step();
  engine_says("starting", 1);
  EXPECT_EQ(written(plan(), "Engine", "v-e"), nullptr);
  change("replicas.longhorn.io", "v-r-2", R"({"status":{"port":8}})");
  const Plan told = plan();
  EXPECT_EQ(text_at(written(told, "Engine", "v-e"), {"spec", "replicaAddressMap"}),
            R"({"v-r-1":"10.0.0.1:7","v-r-2":"10.0.0.1:8"})");
  EXPECT_EQ(written(told, "Grant", "v"), nullptr);
  apply(told);
  engine_says("running", 1);
  step();
  change("replicas.longhorn.io", "v-r-2", R"({"status":{"port":9}})");
  EXPECT_EQ(written(plan(), "Engine", "v-e"), nullptr) << "an engine that serves has no use for it";
}

TEST_F(VolumeTable, AClockThatWentBackDoesNotMakeAPauseLonger) {
  attached();
  engine_says("error", 1);
  step();
  engine_says("error", 2);
  now_ -= 10min;
  EXPECT_EQ(text_at(written(plan(), "Grant", "v"), {"spec", "epoch"}), "3");
}

TEST_F(VolumeTable, AClockThatWentBackDoesNotMakeTheWaitForAMemberLonger) {
  step();
  want("n1");
  step();
  replica_runs("v-r-1");
  step();
  now_ -= 10min;
  step();
  EXPECT_EQ(plan().again_after, Duration(30s));
}

TEST_F(VolumeTable, ARebootedNodeIsProofAndGetsANewEpochInItsNewLife) {
  attached();
  node("n1", true, 2);
  EXPECT_THAT(text_at(written(plan(), "Grant", "v"), {"spec", "proofs"}), HasSubstr("IncarnationEnded"));
  EXPECT_EQ(text_at(written(plan(), "Grant", "v"), {"spec", "active"}),
            R"({"epoch":2,"engine":"v-e","node":"n1","incarnation":2})");
}

TEST_F(VolumeTable, ANodeThatIsAwayProvesNothing) {
  attached();
  node("n1", false, 1);
  EXPECT_EQ(written(plan(), "Grant", "v"), nullptr);
  want("");
  const Plan closing = plan();
  EXPECT_EQ(written(closing, "Grant", "v"), nullptr);
  EXPECT_THAT(text_at(written(closing, "Volume", "v"), {"status", "conditions"}),
              HasSubstr("node n1 does not answer"));
}

TEST_F(VolumeTable, DeletionGoesInOrder) {
  step();
  change("volumes.longhorn.io", "v", R"({"metadata":{"deletionTimestamp":"2023-11-14T22:00:00Z"}})");
  given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Snapshot","metadata":{"name":"s",
    "labels":{"longhornvolume":"v"}},"spec":{"volume":"v"}})");
  std::vector<std::string> order;
  for (int i = 0; i < 20; ++i) {
    const Plan next = plan();
    for (const std::string& line : writes(next)) order.push_back(line);
    if (next.writes.empty()) break;
    apply(next);
  }
  EXPECT_THAT(order, ElementsAre("update Volume v/status", "remove Snapshot s", "remove Engine v-e",
                                 "remove Replica v-r-1", "remove Replica v-r-2", "update Ledger n1",
                                 "update Ledger n2", "remove VolumeAttachment v", "update Volume v"));
}

TEST_F(VolumeTable, AnAttachedVolumeFromBeforeTicketsKeepsItsPlace) {
  change("volumes.longhorn.io", "v",
         R"({"spec":{"nodeID":"n1"},"status":{"state":"attached","currentNodeID":"n1"}})");
  const Plan import = plan();
  EXPECT_EQ(text_at(written(import, "VolumeAttachment", "v"),
                    {"spec", "attachmentTickets", "longhorn-ui", "nodeID"}),
            "n1");
  EXPECT_EQ(text_at(written(import, "Volume", "v"), {"status", "currentNodeID"}), "n1");
  EXPECT_EQ(state(import), "attached");
}

TEST_F(VolumeTable, AKubernetesAttachmentIsImportedAsItsTicket) {
  change("volumes.longhorn.io", "v",
         R"({"spec":{"nodeID":"n1"},"status":{"state":"attached","currentNodeID":"n1"}})");
  given(R"({"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"csi-abc"},
    "spec":{"attacher":"driver.longhorn.io","nodeName":"n1","source":{"persistentVolumeName":"v"}}})");
  EXPECT_EQ(
      text_at(written(plan(), "VolumeAttachment", "v"), {"spec", "attachmentTickets", "csi-abc", "type"}),
      "csi-attacher");
}

TEST_F(VolumeTable, ALostGrantComesBackAboveEveryEpochAndUnproven) {
  attached();
  shelf_.remove(kind_of<mr::Grant>(), "longhorn-system", "v");
  const Json* grant = nullptr;
  const Plan again = plan();
  grant = written(again, "Grant", "v");
  EXPECT_EQ(text_at(grant, {"spec", "unproven"}), "true");
  EXPECT_THAT(text_at(grant, {"spec", "epoch"}), testing::AnyOf("1", "2"));
}

TEST_F(VolumeTable, TheEpochOfAStartIsInTheEngineBeforeItIsInTheVolume) {
  step();
  want("n1");
  step();
  replica_runs("v-r-1");
  replica_runs("v-r-2");
  const Plan granting = plan();
  EXPECT_EQ(written(granting, "Volume", "v"), nullptr);
  EXPECT_TRUE(granting.unfinished);
  apply(granting);
  shelf_.remove(kind_of<mr::Grant>(), "longhorn-system", "v");
  const Plan again = plan();
  EXPECT_EQ(text_at(written(again, "Grant", "v"), {"spec", "epoch"}), "1");
  EXPECT_EQ(text_at(written(again, "Grant", "v"), {"spec", "unproven"}), "true");
}

TEST_F(VolumeTable, TheVolumeIsLookedAtAgainWhenWhatItReadChanges) {
  attached();
  plan();
  std::vector<std::string> keys;
  for (const Reads::Read& read : reads_.reads) keys.push_back(read.key);
  EXPECT_THAT(keys, Contains(HasSubstr("nodes/longhorn-system/n1")));
  EXPECT_THAT(keys, testing::Not(Contains(testing::EndsWith("nodes/longhorn-system/"))));
}

TEST(RestartPause, DoublesToAMinute) {
  EXPECT_EQ(restart_pause(0), 0s);
  EXPECT_EQ(restart_pause(1), 1s);
  EXPECT_EQ(restart_pause(4), 8s);
  EXPECT_EQ(restart_pause(7), 60s);
  EXPECT_EQ(restart_pause(1000), 60s);
}

}  // namespace
}  // namespace moor::control
