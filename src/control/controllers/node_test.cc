// Nodes and disks by their heartbeat.
#include <gmock/gmock.h>

#include "control/controllers/controllers.h"
#include "control/testing/table.h"

namespace moor::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

class NodeTable : public Table {
 protected:
  void SetUp() override { disks("[]", R"("storageAvailable":1000000,"storageMaximum":1000000)"); }
  void disks(const std::string& conditions, const std::string& room) {
    given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{"name":"n1"},
      "spec":{"allowScheduling":true,"disks":{"d":{"path":"/d","allowScheduling":true}}},
      "status":{"conditions":)" +
          conditions +
          R"(,"diskStatus":{"d":{"diskUUID":"u1","conditions":[{"type":"Ready","status":"True"}],)" + room +
          "}}}}");
  }
  void heartbeat(Duration age, const std::string& renewed = "2023-11-14T22:00:00.000000Z",
                 const std::string& holder = "n1") {
    given(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n1",
      "namespace":"mooring-node-lease"},"spec":{"holderIdentity":")" +
          holder + R"(","renewTime":")" + renewed + R"("}})");
    heartbeats_["n1"] = TimePoint{monotonic_ - age};
  }
  std::string ready(const Plan& plan) {
    const Json* node = written(plan, "Node", "n1");
    if (node == nullptr) return "unchanged";
    const Json& one = node->find_path({"status", "conditions"})->at(0);
    return fmt::format("{} {}", one.get_string("status").value_or(""), one.get_string("reason").value_or(""));
  }
  std::string disk_schedulable(const Plan& plan) {
    const Json* node = written(plan, "Node", "n1");
    if (node == nullptr) return "unchanged";
    const Json& all = *node->find_path({"status", "diskStatus", "d", "conditions"});
    return fmt::format("{} {}", all.at(1).get_string("status").value_or(""),
                       all.at(1).get_string("message").value_or(""));
  }
  std::unique_ptr<Controller> controller_ = make_node_controller();
};

TEST_F(NodeTable, ANodeIsReadyWhileItsHeartbeatIsFreshAndLookedAtWhenItWouldRunOut) {
  heartbeat(3s);
  const Plan plan = plan_of(*controller_, "n1");
  EXPECT_EQ(ready(plan), "True ");
  EXPECT_EQ(plan.again_after, Duration(7s));
  EXPECT_EQ(disk_schedulable(plan), "True ");
}

TEST_F(NodeTable, AHeartbeatThatStopsMakesItUnknownOneGivenBackFalse) {
  heartbeat(10s);
  EXPECT_EQ(ready(plan_of(*controller_, "n1")), "Unknown HeartbeatMissed");
  heartbeat(1s, "2023-11-14T22:00:00.000000Z", "");
  EXPECT_EQ(ready(plan_of(*controller_, "n1")), "False AgentStopped");
}

TEST_F(NodeTable, WithoutAHeartbeatItWasNeverThere) {
  const Plan plan = plan_of(*controller_, "n1");
  EXPECT_EQ(ready(plan), "False NoHeartbeat");
  EXPECT_THAT(disk_schedulable(plan), HasSubstr("not ready"));
}

TEST_F(NodeTable, ANewLeaderDoesNotTakeADeadHeartbeatForASignOfLife) {
  disks(R"([{"type":"Ready","status":"Unknown","reason":"HeartbeatMissed",
    "lastProbeTime":"2023-11-14T22:00:00.000000Z","lastTransitionTime":"2023-11-14T22:10:00Z",
    "message":"the node's agent has not reported since 2023-11-14T22:00:00.000000Z"}])",
        R"("storageAvailable":1000000,"storageMaximum":1000000)");
  heartbeat(0s);
  EXPECT_THAT(ready(plan_of(*controller_, "n1")), testing::StartsWith("Unknown"));
  heartbeat(0s, "2023-11-14T22:00:05.000000Z");
  EXPECT_EQ(ready(plan_of(*controller_, "n1")), "True ");
}

TEST_F(NodeTable, ADiskThatIsNearlyFullTakesNothing) {
  disks("[]", R"("storageAvailable":200000,"storageMaximum":1000000)");
  heartbeat(0s);
  EXPECT_EQ(disk_schedulable(plan_of(*controller_, "n1")), "False the disk is too full");
}

TEST_F(NodeTable, WhatIsPromisedComesFromTheLedger) {
  heartbeat(0s);
  given(R"({"apiVersion":"mooring.io/v1alpha1","kind":"Ledger","metadata":{"name":"n1"},
    "spec":{"disks":{"u1":{"ns/r1":300,"ns/r2":700}}}})");
  const Plan plan = plan_of(*controller_, "n1");
  EXPECT_EQ(text_at(written(plan, "Node", "n1"), {"status", "diskStatus", "d", "storageScheduled"}), "1000");
}

TEST_F(NodeTable, TheMachineSaysTheSameAndTwiceEqualsOnce) {
  heartbeat(0s);
  given(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}})");
  const Plan plan = plan_of(*controller_, "n1");
  EXPECT_THAT(writes(plan), ElementsAre("update Node n1/status", "update Node n1/status"));
  apply(plan);
  EXPECT_THAT(writes(plan_of(*controller_, "n1")), IsEmpty());
}

}  // namespace
}  // namespace moor::control
