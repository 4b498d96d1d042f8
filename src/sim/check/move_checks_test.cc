// The checkers of moves before histories that are right and wrong.
#include <fmt/format.h>

#include "base/assert.h"
#include "sim/check/fake_reality.h"

namespace moor::sim {
namespace {

using namespace std::chrono_literals;

std::string holder(int epoch, const std::string& engine, const std::string& node) {
  return fmt::format(R"({{"epoch": {}, "engine": "{}", "node": "{}", "incarnation": 1}})", epoch, engine,
                     node);
}
std::string source(int epoch) {
  return holder(epoch, "v-e", "node-1");
}
std::string destination(int epoch) {
  return holder(epoch, "v-e-b", "node-2");
}

std::string grant(int epoch, const std::string& active, const std::string& standby = "",
                  const std::string& proofs = "[]") {
  return fmt::format(R"({{"apiVersion": "mooring.io/v1alpha1", "kind": "Grant", "metadata": {{"name": "v"}},
    "spec": {{"volume": "v", "epoch": {}, "generation": 0, "members": {{"v-r-1": "RW"}}, "proofs": {}{}{}}}}})",
                     epoch, proofs, active.empty() ? "" : ", \"active\": " + active,
                     standby.empty() ? "" : ", \"standby\": " + standby);
}

std::string fenced(const std::string& who, int by) {
  return fmt::format(R"([{{"type": "Fenced", "holder": {}, "fencedByEpoch": {}}}])", who, by);
}

// `phase` empty: no move is recorded.
std::string volume(const std::string& node, const std::string& to, const std::string& current,
                   const std::string& phase, bool migratable = true) {
  const std::string move = phase.empty() ? ""
                                         : fmt::format(R"(, "move": {{"phase": "{}", "sourceNodeID": "node-1",
      "destinationNodeID": "node-2", "startedAt": "2026-01-01T00:00:00Z"}}, "currentMigrationNodeID": "{}")",
                                                       phase, phase == "preparing" ? "" : "node-2");
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
    "metadata": {{"name": "v", "uid": "uid-v"}}, "spec": {{"numberOfReplicas": 1, "accessMode": "{}",
    "migratable": {}, "nodeID": "{}", "migrationNodeID": "{}"}},
    "status": {{"state": "{}", "currentNodeID": "{}"{}}}}})",
                     migratable ? "rwx" : "rwo", migratable, node, to,
                     current.empty() ? "detached" : "attached", current, move);
}

std::string book(const std::vector<std::string>& nodes, const std::vector<bool>& satisfied = {}) {
  std::string tickets;
  std::string statuses;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    tickets += fmt::format(R"({0}"t{1}": {{"id": "t{1}", "type": "csi-attacher", "nodeID": "{2}"}})", comma,
                           i, nodes[i]);
    if (i < satisfied.size())
      statuses += fmt::format(R"({0}"t{1}": {{"id": "t{1}", "satisfied": {2}}})", comma, i,
                              satisfied[i] ? "true" : "false");
  }
  return fmt::format(
      R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "VolumeAttachment", "metadata": {{"name": "v"}},
    "spec": {{"volume": "v", "attachmentTickets": {{{}}}}}, "status": {{"attachmentTicketStatuses": {{{}}}}}}})",
      tickets, statuses);
}

std::string engine(const std::string& name, const std::string& node, const std::string& more = "") {
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Engine",
    "metadata": {{"name": "{}"{}}}, "spec": {{"volumeName": "v", "nodeID": "{}", "desireState": "running"}}}})",
                     name, more, node);
}

EngineSight process(std::uint64_t epoch, const std::string& node, bool standby) {
  EngineSight sight;
  sight.node = node;
  sight.volume = "v";
  sight.engine = standby ? "v-e-b" : "v-e";
  sight.epoch = epoch;
  sight.standby = standby;
  return sight;
}

ReplicaSight member(std::uint64_t epoch) {
  ReplicaSight sight;
  sight.node = "node-3";
  sight.volume = "v";
  sight.name = "v-r-1";
  sight.floor = {epoch, "v-e", 1};
  return sight;
}

class MoveChecks : public CheckerTest {};

TEST_F(MoveChecks, S21AMoveForStrangersIsSeen) {
  watch(invariant_s21_two_nodes_at_most());
  write({book({"node-1", "node-2"}), volume("node-1", "", "node-1", "")});
  write({volume("node-1", "node-2", "node-1", "")});
  expect_fine();
  write({volume("node-1", "", "node-1", "", false)});
  write({volume("node-1", "node-2", "node-1", "", false)});
  expect_said("S21", {"node-2", "no two tickets"});
}

TEST_F(MoveChecks, S21AThirdNodeThatIsToldIsSeen) {
  watch(invariant_s21_two_nodes_at_most());
  write({volume("node-1", "node-2", "node-1", "ready"), book({"node-1", "node-2"}, {true, false})});
  write({book({"node-1", "node-2"}, {true, true})});
  expect_fine();
  write({book({"node-1", "node-2", "node-3"}, {true, true, true})});
  expect_said("S21", {"t2", "3th node"});
}

TEST_F(MoveChecks, S21AStandbyThatCouldNotFenceIsSeen) {
  watch(invariant_s21_two_nodes_at_most());
  write({grant(2, source(1), destination(2))});
  expect_fine();
  write({grant(3, source(3), destination(2))});
  expect_said("S21", {"stands by below"});
}

TEST_F(MoveChecks, S22AnEpochThatNeverWasActiveAndAcknowledgesIsSeen) {
  watch(invariant_s22_only_the_named_acknowledge());
  write({volume("node-1", "node-2", "node-1", "ready"), grant(2, source(1), destination(2))});
  answer(ClientOp::write, 1);
  answer(ClientOp::read, 2);
  expect_fine();
  answer(ClientOp::write, 2);
  expect_said("S22", {"epoch 2", "never named"});
}

TEST_F(MoveChecks, S22AnActivationBeforeTheMoveIsReadyIsSeen) {
  watch(invariant_s22_only_the_named_acknowledge());
  write({volume("node-1", "node-2", "node-1", "ready"), grant(2, source(1), destination(2))});
  write({grant(2, destination(2))});
  expect_fine();
  write({volume("node-1", "node-2", "node-1", "preparing"), grant(4, source(3), destination(4))});
  write({grant(4, destination(4))});
  expect_said("S22", {"epoch 4", "preparing"});
}

TEST_F(MoveChecks, S23AStandbyThatOutlivesItsMoveIsSeen) {
  watch(invariant_s23_one_side_is_left());
  write({volume("node-2", "", "node-1", "confirming"), grant(2, destination(2))});
  write({volume("node-2", "", "node-2", "")});
  reality_.engine_sights = {process(2, "node-2", false)};
  heal();
  expect_fine();
  reality_.engine_sights.push_back(process(3, "node-1", true));
  heal();
  expect_said("S23", {"a standby runs on node node-1"});
}

TEST_F(MoveChecks, S23AVolumeThatIsSaidToBeOnTheLosingSideIsSeen) {
  watch(invariant_s23_one_side_is_left());
  write({volume("node-2", "", "node-1", "confirming"), grant(2, destination(2))});
  write({volume("node-2", "", "node-1", "")});
  expect_said("S23", {"node-1", "node-2"});
}

TEST_F(MoveChecks, S24AConfirmBeforeTheDestinationIsReadyIsSeen) {
  watch(invariant_s24_confirm_is_final());
  write({volume("node-1", "node-2", "node-1", "ready")});
  write({volume("node-2", "", "node-1", "ready")});
  write({volume("node-2", "", "node-2", "")});
  expect_fine();
  write({volume("node-1", "node-2", "node-1", "")});
  write({volume("node-1", "node-2", "node-1", "preparing")});
  write({volume("node-2", "", "node-1", "preparing")});
  expect_said("S24", {"confirmed while it was preparing"});
}

TEST_F(MoveChecks, S24ARollbackAfterTheConfirmIsSeen) {
  watch(invariant_s24_confirm_is_final());
  write({volume("node-2", "", "node-1", "confirming")});
  write({volume("node-2", "", "node-1", "rolling-back")});
  expect_said("S24", {"confirmed and is rolling-back"});
}

TEST_F(MoveChecks, S24TheWrongSideAfterACutIsSeen) {
  watch(invariant_s24_the_record_chooses());
  const std::string ready = R"({"apiVersion": "longhorn.io/v1beta2", "kind": "Node",
    "metadata": {"name": "node-2"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})";
  write({ready, book({"node-1", "node-2"}), volume("", "", "", "activated")});
  later(60s);
  write({volume("node-2", "", "", "activated")});
  expect_fine();
  write({volume("", "", "", "activated")});
  write({volume("node-1", "", "", "activated")});
  expect_said("S24", {"belongs to node node-2"});
}

TEST_F(MoveChecks, S25AnEngineThatIsRemovedWhileTheGrantNamesItIsSeen) {
  watch(invariant_s25_the_holder_is_kept());
  const std::string going = R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")";
  write({volume("node-2", "", "node-1", "confirming"), grant(2, destination(2)), engine("v-e", "node-1"),
         engine("v-e-b", "node-2")});
  write({engine("v-e", "node-1", going)});
  expect_fine();
  write({engine("v-e-b", "node-2", going)});
  expect_said("S25", {"v-e-b", "epoch 2"});
}

TEST_F(MoveChecks, L5AMoveThatDoesNotEndIsSeen) {
  watch(liveness_l05_every_move_ends());
  write({book({"node-1", "node-2"}), volume("node-1", "node-2", "node-1", "ready")});
  heal();
  expect_fine();
  write({book({"node-2"})});
  heal();
  expect_said("L5", {"still ready", "only one side"});
}

TEST_F(MoveChecks, L5AMoveThatIsNeverReadyIsSeen) {
  watch(liveness_l05_every_move_ends());
  write({book({"node-1", "node-2"}), volume("node-1", "node-2", "node-1", "preparing")});
  heal();
  expect_said("L5", {"still preparing"});
}

TEST_F(MoveChecks, S12AProofMayBeOwedWhileAMoveIsRecordedAndNotLonger) {
  watch(invariant_s12_release_is_proven());
  reality_.replica_sights = {member(2)};
  write({volume("node-1", "node-2", "node-1", "ready"), grant(2, source(1), destination(2))});
  write({grant(2, destination(2))});
  write({grant(2, destination(2), "", fenced(source(1), 2))});
  write({volume("node-2", "", "node-2", "")});
  expect_fine();
  write({volume("node-1", "node-2", "node-1", "ready"), grant(4, source(3), destination(4))});
  write({grant(4, destination(4))});
  write({volume("node-2", "", "node-2", "")});
  expect_said("S12", {"epoch 3", "never proven"});
}

TEST_F(MoveChecks, S12AFenceThatAMemberDoesNotKnowIsSeen) {
  watch(invariant_s12_release_is_proven());
  reality_.replica_sights = {member(1)};
  write({volume("node-1", "node-2", "node-1", "ready"), grant(2, source(1), destination(2))});
  write({grant(2, destination(2))});
  expect_fine();
  write({grant(2, destination(2), "", fenced(source(1), 2))});
  expect_said("S12", {"v-r-1", "would still obey"});
}

TEST_F(MoveChecks, GrantsAStandbyWithoutAMoveIsSeen) {
  watch(naive_model_of_grants());
  write({volume("node-1", "node-2", "node-1", "preparing"), grant(1, source(1)), engine("v-e-b", "node-2")});
  write({grant(2, source(1), destination(2))});
  expect_fine();
  write({volume("node-1", "", "node-1", ""), grant(3, source(3), "", fenced(destination(2), 3)),
         engine("v-e", "node-1")});
  write({grant(4, source(3), destination(4))});
  expect_said("GRANT", {"epoch 4", "no move"});
}

}  // namespace
}  // namespace moor::sim
