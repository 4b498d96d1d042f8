// Each checker before a history that is right and one that is wrong: a checker that cannot fail is a defect.
#include <fmt/format.h>

#include <set>

#include "base/assert.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/volume_attachment.h"
#include "sim/check/fake_reality.h"

namespace moor::sim {
namespace {

using namespace std::chrono_literals;
using block::engine::Engine;

std::string holder(int epoch, const std::string& node) {
  return fmt::format(R"({{"epoch": {}, "engine": "v-e", "node": "{}", "incarnation": 1}})", epoch, node);
}

// `active` and `proofs` as JSON; members r-1 and r-2 are RW unless said otherwise.
std::string grant(int epoch, const std::string& active, const std::string& proofs = "[]",
                  const std::string& members = R"({"v-r-1": "RW", "v-r-2": "RW"})") {
  return fmt::format(R"({{"apiVersion": "mooring.io/v1alpha1", "kind": "Grant", "metadata": {{"name": "v"}},
    "spec": {{"volume": "v", "epoch": {}, "generation": 0, "members": {}, "proofs": {}{}}}}})",
                     epoch, members, proofs, active.empty() ? "" : ", \"active\": " + active);
}

std::string unmounted(int epoch, const std::string& node) {
  return fmt::format(R"([{{"type": "Unmounted", "holder": {}}}])", holder(epoch, node));
}

std::string volume(const std::string& spec, const std::string& status, const std::string& metadata = "") {
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
    "metadata": {{"name": "v", "uid": "uid-v"{}}}, "spec": {{"numberOfReplicas": 2{}}}, "status": {{{}}}}})",
                     metadata, spec, status);
}

std::string attached(const std::string& node) {
  return volume(fmt::format(R"(, "nodeID": "{}")", node),
                fmt::format(R"("state": "attached", "robustness": "healthy", "currentNodeID": "{}")", node));
}

std::string detached() {
  return volume("", R"("state": "detached")");
}

std::string engine(const std::string& desired, const std::string& state, int epoch,
                   const std::string& more = "") {
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Engine",
    "metadata": {{"name": "v-e", "uid": "uid-e", "ownerReferences": [{{"apiVersion": "longhorn.io/v1beta2",
      "kind": "Volume", "name": "v", "uid": "uid-v", "controller": true}}]}},
    "spec": {{"volumeName": "v", "nodeID": "node-1", "desireState": "{}"{}}},
    "status": {{"currentState": "{}", "epoch": {}}}}})",
                     desired, more, state, epoch);
}

std::string book(const std::string& tickets, const std::string& statuses = "{}") {
  return fmt::format(
      R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "VolumeAttachment", "metadata": {{"name": "v"}},
    "spec": {{"volume": "v", "attachmentTickets": {}}}, "status": {{"attachmentTicketStatuses": {}}}}})",
      tickets, statuses);
}

std::string ticket(const std::string& id, const std::string& type, const std::string& node,
                   const std::string& more = "") {
  return fmt::format(R"("{0}": {{"id": "{0}", "type": "{1}", "nodeID": "{2}", "generation": 1{3}}})", id,
                     type, node, more);
}

std::string told(const std::string& id, bool satisfied, int generation = 1) {
  return fmt::format(R"("{0}": {{"id": "{0}", "satisfied": {1}, "generation": {2}}})", id, satisfied,
                     generation);
}

std::string node(const std::string& name, bool ready) {
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {{"name": "{}"}},
    "status": {{"conditions": [{{"type": "Ready", "status": "{}"}}]}}}})",
                     name, ready ? "True" : "False");
}

std::string setting_of(const std::string& name, const std::string& value) {
  return fmt::format(
      R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "metadata": {{"name": "{}"}},
    "value": "{}"}})",
      name, value);
}

std::string replica(const std::string& name, const std::string& more, const std::string& uid = "uid-r") {
  return fmt::format(R"({{"apiVersion": "longhorn.io/v1beta2", "kind": "Replica",
    "metadata": {{"name": "{}", "uid": "{}", "ownerReferences": [{{"apiVersion": "longhorn.io/v1beta2",
      "kind": "Volume", "name": "v", "uid": "uid-v", "controller": true}}]}},
    "spec": {{"volumeName": "v", "nodeID": "node-1", "diskID": "disk-1", "volumeSize": "4096",
      "dataDirectoryName": "v-12345678-r-1"{}}}}})",
                     name, uid, more);
}

EngineSight process(std::uint64_t epoch, const std::string& where, int pid) {
  EngineSight sight;
  sight.node = where;
  sight.boot_id = "boot-1";
  sight.volume = "v";
  sight.engine = "v-e";
  sight.epoch = epoch;
  sight.pid = pid;
  sight.serving = true;
  return sight;
}

ReplicaSight member(const std::string& name, std::uint64_t epoch, std::uint64_t session = 1) {
  ReplicaSight sight;
  sight.node = "node-1";
  sight.directory = "/disk/replicas/" + name;
  sight.volume = "v";
  sight.name = name;
  sight.floor = {epoch, "v-e", session};
  return sight;
}

// A real engine that serves from members v-r-1 and v-r-2 (or only the first).
class ServingEngine {
 public:
  explicit ServingEngine(std::size_t members) : engine_(config(members), pool_) {
    block::engine::Actions actions;
    engine_.step(block::engine::Started{}, now_, actions);
    for (int turn = 0; turn < 100 && !actions.empty(); ++turn) {
      block::engine::Actions next;
      for (block::engine::Action& action : actions) react(action, next);
      actions = std::move(next);
    }
    MOOR_ASSERT(engine_.status().state == block::engine::State::serving);
  }
  const Engine* core() const { return &engine_; }

 private:
  static block::engine::Config config(std::size_t members) {
    block::engine::Config config;
    config.volume = "v";
    config.epoch = 3;
    config.engine = "v-e";
    for (std::size_t i = 1; i <= members; ++i) {
      block::engine::MemberConfig one;
      one.name = fmt::format("v-r-{}", i);
      config.members.push_back(one);
    }
    return config;
  }
  void react(block::engine::Action& action, block::engine::Actions& next) {
    if (auto* connect = std::get_if<block::engine::Connect>(&action)) {
      block::HelloAnswer answer;
      answer.size = 1u << 20;
      answer.served = 2;
      answer.head_id = "head";
      engine_.step(block::engine::PeerConnected{connect->member, connect->hello.session, answer}, now_, next);
    } else if (auto* send = std::get_if<block::engine::SendPeer>(&action)) {
      block::PeerReply reply;
      reply.id = send->request.id;
      if (send->request.op == block::PeerOp::chain) reply.state = block::HelloAnswer{};
      engine_.step(block::engine::PeerReplied{send->member, send->session, reply, {}}, now_, next);
    } else if (auto* propose = std::get_if<block::engine::Propose>(&action)) {
      engine_.step(block::engine::MembershipConfirmed{propose->proposal}, now_, next);
    }
  }
  block::BufferPool pool_;
  block::engine::Instant now_{1};
  Engine engine_;
};

TEST_F(CheckerTest, S1AnOlderEngineMayNotAcknowledgeWhatWasAskedAfterANewerOneServes) {
  watch(invariant_s01_one_writer());
  reality_.engine_sights = {process(2, "node-1", 7)};
  step();
  answer(ClientOp::write, 2);
  expect_fine();
  reality_.engine_sights.push_back(process(3, "node-2", 8));
  step();
  answer(ClientOp::read, 2);
  answer(ClientOp::write, 3);
  expect_fine();
  answer(ClientOp::write, 2);
  expect_said("S1", {"epoch 2", "epoch 3", "two engines"});
}

TEST_F(CheckerTest, S2AnEpochThatFallsIsSeen) {
  watch(invariant_s02_epoch_never_falls());
  write({grant(4, "")});
  write({grant(5, "")});
  expect_fine();
  write({grant(4, "")});
  expect_said("S2", {"from epoch 5 to 4"});
}

TEST_F(CheckerTest, S3AnEpochStartedTwiceIsSeen) {
  watch(invariant_s03_epoch_is_one_process());
  write({grant(1, holder(1, "node-1"))});
  reality_.engine_sights = {process(1, "node-1", 7)};
  step();
  step();
  expect_fine();
  reality_.engine_sights = {process(1, "node-1", 8)};
  step();
  expect_said("S3", {"epoch 1 was started twice", "7", "8"});
}

TEST_F(CheckerTest, S3AnEpochThatNobodyGrantedIsSeen) {
  watch(invariant_s03_epoch_is_one_process());
  write({grant(1, holder(1, "node-1"))});
  reality_.engine_sights = {process(2, "node-1", 7)};
  step();
  expect_said("S3", {"epoch 2", "never granted"});
}

TEST_F(CheckerTest, S3AnEpochGrantedToTwoNodesIsSeen) {
  watch(invariant_s03_epoch_is_one_process());
  write({grant(1, holder(1, "node-1"))});
  write({grant(1, holder(1, "node-2"))});
  expect_said("S3", {"granted twice", "node-1", "node-2"});
}

TEST_F(CheckerTest, S13ALifeThatSpansTwoBootsIsSeen) {
  watch(invariant_s03_epoch_is_one_process());
  write({grant(1, holder(1, "node-1"))});
  reality_.engine_sights = {process(1, "node-1", 7)};
  step();
  write({grant(2, holder(2, "node-1"))});
  reality_.engine_sights = {process(2, "node-1", 8)};
  reality_.engine_sights[0].boot_id = "boot-2";
  step();
  expect_said("S3", {"incarnation 1", "S13"});
}

TEST_F(CheckerTest, S4AFloorThatGoesBackIsSeen) {
  watch(invariant_s04_replica_obeys_its_floor());
  reality_.replica_sights = {member("v-r-1", 3, 2)};
  step();
  reality_.replica_sights = {member("v-r-1", 4, 1)};
  step();
  expect_fine();
  reality_.replica_sights = {member("v-r-1", 3, 9)};
  step();
  expect_said("S4", {"epoch 4", "epoch 3", "v-r-1"});
}

TEST_F(CheckerTest, S4AnEngineThatIsLetInBeforeTheOneBeforeHasEndedIsSeen) {
  watch(invariant_s04_replica_obeys_its_floor());
  reality_.replica_sights = {member("v-r-1", 3)};
  step();
  expect_fine();
  reality_.replica_sights = {member("v-r-1", 4)};
  reality_.replica_sights[0].unfinished = 2;
  step();
  expect_said("S4", {"v-r-1", "epoch 4", "2 request(s)"});
}

TEST_F(CheckerTest, S4AnOlderSessionAndAnotherEngineAreSeen) {
  watch(invariant_s04_replica_obeys_its_floor());
  reality_.replica_sights = {member("v-r-1", 3, 2)};
  step();
  reality_.replica_sights = {member("v-r-1", 3, 1)};
  step();
  expect_said("S4", {"session 2", "session 1"});
  watch(invariant_s04_replica_obeys_its_floor());
  said_.clear();
  step();
  reality_.replica_sights[0].floor.engine = "other";
  step();
  expect_said("S4", {"v-e", "other"});
}

TEST_F(CheckerTest, S5AMemberThatDoesNotKnowTheEpochIsSeen) {
  watch(invariant_s05_members_know_the_epoch());
  const ServingEngine serving(2);
  reality_.engine_sights = {process(3, "node-1", 7)};
  reality_.engine_sights[0].core = serving.core();
  reality_.replica_sights = {member("v-r-1", 3), member("v-r-2", 3)};
  write({grant(3, holder(3, "node-1"))});
  answer(ClientOp::write, 3);
  expect_fine();
  reality_.replica_sights[1].floor.epoch = 2;
  answer(ClientOp::write, 3);
  expect_said("S5", {"v-r-2", "epoch 2"});
}

TEST_F(CheckerTest, S6AnEngineThatGoesOnWithoutAMemberOfTheGrantIsSeen) {
  watch(invariant_s06_no_member_is_dropped_silently());
  const ServingEngine serving(1);
  reality_.engine_sights = {process(3, "node-1", 7)};
  reality_.engine_sights[0].core = serving.core();
  write({grant(3, holder(3, "node-1"), "[]", R"({"v-r-1": "RW", "v-r-2": "ERR"})")});
  answer(ClientOp::write, 3);
  expect_fine();
  write({grant(3, holder(3, "node-1"))});
  answer(ClientOp::flush, 3);
  expect_said("S6", {"without member v-r-2"});
}

TEST_F(CheckerTest, S7TwoOwnersOfOneVolumeAreSeen) {
  watch(invariant_s07_one_owner());
  write({volume(R"(, "accessMode": "rwop", "nodeID": "node-1")", "")});
  const std::string both =
      "{" + ticket("a", "csi-attacher", "node-1") + "," + ticket("b", "csi-attacher", "node-1") + "}";
  write({book(both, "{" + told("a", true) + "," + told("b", false) + "}")});
  expect_fine();
  write({book(both, "{" + told("a", true) + "," + told("b", true) + "}")});
  expect_said("S7", {"one owner", "ticket a", "ticket b"});
}

TEST_F(CheckerTest, S7TwoNodesWithOneVolumeAreSeen) {
  watch(invariant_s07_one_owner());
  write({volume(R"(, "accessMode": "rwo", "nodeID": "node-1")", "")});
  write({book("{" + ticket("a", "csi-attacher", "node-1") + "," + ticket("b", "csi-attacher", "node-2") + "}",
              "{" + told("a", true) + "," + told("b", true) + "}")});
  expect_said("S7", {"node-1", "node-2"});
}

TEST_F(CheckerTest, S9AVolumeThatIsSentOnWithoutADetachIsSeen) {
  watch(invariant_s09_through_empty());
  write({attached("node-1")});
  write({detached()});
  write({attached("node-2")});
  expect_fine();
  write({attached("node-3")});
  expect_said("S9", {"node-2", "node-3"});
}

TEST_F(CheckerTest, S10ANodeThatIsShownTooEarlyIsSeen) {
  watch(invariant_s10_current_node_is_true());
  write({detached(), engine("running", "starting", 1), grant(1, holder(1, "node-1"))});
  write({attached("node-1")});
  expect_said("S10", {"never been reported as running"});
}

TEST_F(CheckerTest, S10ANodeThatIsHiddenTooEarlyIsSeen) {
  watch(invariant_s10_current_node_is_true());
  write({detached(), engine("running", "running", 1), grant(1, holder(1, "node-1"))});
  write({attached("node-1")});
  expect_fine();
  write({detached()});
  expect_said("S10", {"left node node-1", "epoch 1"});
}

TEST_F(CheckerTest, S11TwoEnginesOfAVolumeOnOneNodeAreSeen) {
  watch(invariant_s11_one_engine_per_node());
  reality_.engine_sights = {process(1, "node-1", 7), process(2, "node-2", 8)};
  step();
  expect_fine();
  reality_.engine_sights.push_back(process(3, "node-1", 9));
  step();
  expect_said("S11", {"node-1", "epochs 1 and 3"});
}

TEST_F(CheckerTest, S11AStopBeforeTheStartWasHeardOfIsSeen) {
  watch(invariant_s11_a_start_is_heard_of_before_its_stop());
  write({engine("running", "running", 1), grant(1, holder(1, "node-1"))});
  write({engine("stopped", "running", 1)});
  write({grant(1, ""), engine("running", "stopped", 1)});
  write({engine("stopped", "stopped", 1)});
  expect_fine();
  write({engine("running", "stopped", 1), grant(2, holder(2, "node-1"))});
  expect_fine();
  write({engine("stopped", "stopped", 1)});
  expect_said("S11", {"v-e", "epoch 2", "only of epoch 1"});
}

// What a server's cache would show: everything as it is.
class NewestObjects final : public control::Source {
 public:
  explicit NewestObjects(const Reality& reality) : reality_(reality) {}
  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override {
    return reality_.find(kind, space, name);
  }
  void for_each(const model::KindInfo&, std::string_view, const Visit&) const override {}
  void of_volume(const model::KindInfo&, std::string_view, std::string_view, const Visit&) const override {}
  void by_field(const model::KindInfo&, std::string_view, std::string_view, const Visit&) const override {}

 private:
  const Reality& reality_;
};

TEST_F(CheckerTest, ADecisionThatIsWrittenThoughItsVolumeHasChangedIsSeen) {
  watch(rule_decisions_are_about_what_is());
  const NewestObjects objects(reality_);
  // Decides what to say of ticket a, and returns the object that would be written.
  const auto decides = [&](bool satisfied) {
    control::Decoder decoder;
    const control::View view(objects, decoder, {});
    const auto before = view.find<model::longhorn::VolumeAttachment>("longhorn-system", "v");
    model::longhorn::VolumeAttachment after = *before;
    after.status.attachment_ticket_statuses["a"].satisfied = satisfied;
    control::Plan plan;
    plan.update_status(before, after);
    decide(view, plan);
    Json written = *before.json;
    written["metadata"].erase("resourceVersion");
    written.set("status", *plan.writes.at(0).object.find("status"));
    return to_text(written);
  };
  const std::string one = "{" + ticket("a", "csi-attacher", "node-1") + "}";
  write({attached("node-1"), book(one, "{" + told("a", false) + "}")});
  write({decides(true)});
  expect_fine();
  const std::string withdrawn = decides(false);
  write({detached()});
  write({withdrawn}, "server-2");  // whose decision this is not
  expect_fine();
  const std::string late = decides(true);
  write({attached("node-1")});
  write({late});
  expect_said("GUARD", {"volume-attachment of v", "volumes", "at version"});
}

TEST_F(CheckerTest, S12AReleaseWithoutAProofIsSeen) {
  watch(invariant_s12_release_is_proven());
  write({grant(1, holder(1, "node-1"))});
  write({grant(1, "", unmounted(1, "node-1"))});
  expect_fine();
  write({grant(2, holder(2, "node-1"), unmounted(1, "node-1"))});
  write({grant(2, "", unmounted(1, "node-1"))});
  expect_said("S12", {"epoch 2", "without a proof"});
}

TEST_F(CheckerTest, S12AProofThatIsNotTrueIsSeen) {
  watch(invariant_s12_release_is_proven());
  write({grant(1, holder(1, "node-1"))});
  reality_.engine_sights = {process(1, "node-1", 7)};
  write({grant(1, "", unmounted(1, "node-1"))});
  expect_said("S12", {"still lives", "7"});
}

TEST_F(CheckerTest, S12ADeviceThatIsStillOpenIsSeen) {
  watch(invariant_s12_release_is_proven());
  write({grant(1, holder(1, "node-1"))});
  reality_.device_sights = {{"node-1", "v", "/dev/moor/v", 9, 1, nullptr}};
  write({grant(1, "", unmounted(1, "node-1"))});
  expect_said("S12", {"/dev/moor/v", "still open"});
}

TEST_F(CheckerTest, S15ATicketThatIsSatisfiedTooEarlyIsSeen) {
  watch(invariant_s15_satisfied_means_attached());
  const std::string one = "{" + ticket("a", "csi-attacher", "node-1") + "}";
  write({attached("node-1"), grant(1, holder(1, "node-1")), book(one)});
  write({book(one, "{" + told("a", true) + "}")});
  expect_fine();
  write({book(one, "{" + told("a", false) + "}")});
  write({volume(R"(, "nodeID": "node-1")", R"("state": "attaching")")});
  write({book(one, "{" + told("a", true) + "}")});
  expect_said("S15", {"ticket a", "it is attached to \"\""});
}

TEST_F(CheckerTest, S15AnOldGenerationAndOtherParametersAreSeen) {
  watch(invariant_s15_satisfied_means_attached());
  const std::string one = "{" + ticket("a", "csi-attacher", "node-1") + "}";
  write({attached("node-1"), grant(1, holder(1, "node-1")), book(one)});
  write({book(one, "{" + told("a", true, 0) + "}")});
  expect_said("S15", {"generation 0"});
  said_.clear();
  const std::string other =
      "{" + ticket("b", "csi-attacher", "node-1", R"(, "parameters": {"disableFrontend": "true"})") + "}";
  write({book(other, "{" + told("b", true) + "}")});
  expect_said("S15", {"ticket b", "front end"});
}

TEST_F(CheckerTest, S18AWorkloadThatIsInterruptedIsSeen) {
  watch(invariant_s18_no_workload_is_interrupted());
  const std::string two =
      "{" + ticket("a", "csi-attacher", "node-1") + "," + ticket("b", "longhorn-api", "node-2") + "}";
  write({attached("node-1"), book(two, "{" + told("a", true) + "}")});
  write({detached()});
  expect_said("S18", {"node-1", "ticket a", "cannot be interrupted"});
}

TEST_F(CheckerTest, S18MaintenanceYieldsToAWorkloadAndToNothingElse) {
  watch(invariant_s18_no_workload_is_interrupted());
  const std::string snapshot = ticket("s", "snapshot-controller", "node-1");
  write({attached("node-1"), book("{" + snapshot + "," + ticket("b", "csi-attacher", "node-2") + "}",
                                  "{" + told("s", true) + "}")});
  write({detached()});
  expect_fine();
  write({attached("node-1"),
         book("{" + snapshot + "," + ticket("e", "volume-eviction-controller", "node-2") + "}",
              "{" + told("s", true) + "}")});
  write({detached()});
  expect_said("S18", {"ticket s", "no workload"});
}

TEST_F(CheckerTest, S19TheWrongWinnerIsSeen) {
  watch(invariant_s19_the_best_ticket_wins());
  write({node("node-1", true), node("node-2", true)});
  later(1min);
  const std::string two =
      "{" + ticket("aa", "csi-attacher", "node-1") + "," + ticket("b", "csi-attacher", "node-2") + "}";
  write({detached(), book(two)});
  write({attached("node-2")});
  expect_fine();
  write({detached()});
  write({attached("node-1")});
  expect_said("S19", {"node-1", "ticket b", "node-2"});
}

TEST_F(CheckerTest, S19PriorityComesBeforeTheId) {
  watch(invariant_s19_the_best_ticket_wins());
  write({node("node-1", true), node("node-2", true)});
  later(1min);
  write({detached(), book("{" + ticket("longer", "longhorn-api", "node-1") + "," +
                          ticket("b", "csi-attacher", "node-2") + "}")});
  write({attached("node-2")});
  expect_said("S19", {"ticket longer", "longhorn-api"});
}

TEST_F(CheckerTest, S19ANodeThatNobodyAsksForIsSeen) {
  watch(invariant_s19_the_best_ticket_wins());
  write({detached(), book("{" + ticket("a", "csi-attacher", "node-1") + "}")});
  write({attached("node-3")});
  expect_said("S19", {"node-3", "no ticket asks"});
}

TEST_F(CheckerTest, S20AReservationThatIsIgnoredIsSeen) {
  watch(invariant_s20_reservation_keeps_others_away());
  write({detached(),
         book("{" + ticket("r", "longhorn-api", "") + "," + ticket("b", "csi-attacher", "node-2") + "}",
              "{" + told("r", true) + "}")});
  write({attached("node-2")});
  expect_said("S20", {"ticket r", "reserved"});
}

TEST_F(CheckerTest, S20AReservationThatBlocksItsOwnerIsSeen) {
  watch(invariant_s20_reservation_keeps_others_away());
  const std::string owner =
      R"(, "owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "n", "uid": "u"})";
  write({detached(), book("{" + ticket("r", "longhorn-api", "", owner) + "," +
                              ticket("b", "csi-attacher", "node-2", owner) + "}",
                          R"({"b": {"id": "b", "satisfied": false, "generation": 1,
                             "blockers": [{"type": "Reserved", "holder": "r", "message": "m"}]}})")});
  heal();
  expect_said("S20", {"ticket b", "its own owner"});
}

TEST_F(CheckerTest, S32AReplicaThatOutlivesItsVolumeIsSeen) {
  watch(invariant_s32_nothing_outlives_its_volume());
  write({detached(), replica("v-r-1", "")});
  remove(detached());
  expect_said("S32", {"Replica v-r-1"});
}

TEST_F(CheckerTest, S33ADirectoryThatIsUsedTwiceIsSeen) {
  watch(invariant_s33_directory_of_one_volume());
  write({replica("v-r-1", "")});
  expect_fine();
  remove(replica("v-r-1", ""));
  write({replica("v-r-1", "", "uid-other")});
  expect_said("S33", {"v-12345678-r-1"});
}

TEST_F(CheckerTest, S37OneAttachmentTooManyIsSeen) {
  watch(invariant_s37_attach_limit());
  write({setting_of("node-attach-limit", "1")});
  write({attached("node-1")});
  expect_fine();
  write(
      {R"({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "w"}, "spec": {"nodeID": "node-1"}})"});
  expect_said("S37", {"node node-1 may have 1"});
}

TEST_F(CheckerTest, S38AWriteThatIsLostIsSeen) {
  watch(invariant_s38_no_write_is_lost());
  write({grant(1, "")});
  write({grant(2, "")});
  expect_fine();
  reality_.objects.begin()->second =
      std::make_shared<const Json>(*parse_json(R"({"metadata": {"resourceVersion": "11"}})"));
  write({grant(3, "")});
  expect_said("S38", {"at revision 12", "revision 13", "lost"});
}

TEST_F(CheckerTest, S39AWriteOfAFormerLeaderIsSeen) {
  watch(invariant_s39_only_the_leader_decides());
  const std::string term = R"({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "mooring-controllers-term", "namespace": "x"}, "spec": {"holderIdentity": "i"}})";
  write({detached()}, "server-1");
  write({term}, "server-1");
  write({attached("node-1")}, "server-1");
  write({term}, "server-2");
  expect_fine();
  write({detached()}, "server-1");
  expect_said("S39", {"server-1", "server-2"});
}

TEST_F(CheckerTest, S44AMemberThatReturnsUnrepairedAndTheLossOfTheLastAreSeen) {
  watch(invariant_s44_failed_member_stays_out());
  write({grant(1, "", "[]", R"({"v-r-1": "RW", "v-r-2": "ERR"})")});
  expect_fine();
  write({grant(1, "", "[]", R"({"v-r-1": "RW", "v-r-2": "RW"})")});
  expect_said("S44", {"v-r-2", "without a resync"});
  said_.clear();
  write({grant(1, "", "[]", R"({"v-r-1": "ERR", "v-r-2": "ERR"})")});
  expect_said("S44", {"last RW member"});
}

TEST_F(CheckerTest, S45APlaceThatTheLedgerDoesNotKnowIsSeen) {
  watch(invariant_s45_limits_are_written_down());
  write({setting_of("node-attach-limit", "3")});
  write({attached("node-1")});
  expect_said("S45", {"volume v", "Ledger"});
  said_.clear();
  write({replica("v-r-1", "")});
  expect_said("S45", {"replica v-r-1", "disk-1"});
}

TEST_F(CheckerTest, OrderAnEngineThatIsStoppedWithoutAnOrderIsSeen) {
  watch(rule_agent_stops_only_what_it_is_told_to());
  write({engine("running", "running", 1)});
  write({engine("stopped", "running", 1)});
  write({engine("stopped", "stopped", 1)});
  write({engine("running", "running", 2)});
  write({engine("running", "error", 2)});
  write({engine("running", "running", 3)});
  expect_fine();
  write({engine("running", "stopped", 3)});
  expect_said("ORDER", {"epoch 3", "nobody had asked"});
}

TEST_F(CheckerTest, GrantsAnEpochWithoutItsEngineIsSeen) {
  watch(naive_model_of_grants());
  const std::string map = R"(, "replicaAddressMap": {"v-r-1": "a:1", "v-r-2": "b:1"})";
  write({detached(), engine("stopped", "stopped", 0), grant(0, "")});
  write({engine("running", "starting", 1, map), grant(1, holder(1, "node-1"))});
  expect_fine();
  write({engine("stopped", "stopped", 1), grant(1, "", unmounted(1, "node-1"))});
  write({grant(2, holder(2, "node-1"), unmounted(1, "node-1"))});
  expect_said("GRANT", {"epoch 2", "not told in the same transaction"});
}

TEST_F(CheckerTest, GrantsAStartOnADeadNodeAndWithoutAMemberAreSeen) {
  watch(naive_model_of_grants());
  write({node("node-1", false), detached(), engine("stopped", "stopped", 0), grant(0, "")});
  later(1min);
  const std::string map = R"(, "replicaAddressMap": {"v-r-1": "a:1", "v-r-2": "b:1"})";
  write({engine("running", "starting", 1, map), grant(1, holder(1, "node-1"))});
  expect_said("GRANT", {"node-1", "not answered"});
  said_.clear();
  write({node("node-1", true), replica("v-r-2", "")});
  later(1min);
  write({engine("running", "starting", 1, R"(, "replicaAddressMap": {"v-r-1": "a:1"})"),
         grant(2, holder(2, "node-1"), unmounted(1, "node-1"))});
  expect_said("GRANT", {"without member v-r-2"});
}

TEST_F(CheckerTest, L1ATicketThatIsNeverSatisfiedIsSeen) {
  watch(liveness_l01_tickets_are_satisfied());
  write({node("node-1", true), detached(), book("{" + ticket("a", "csi-attacher", "node-1") + "}")});
  heal();
  expect_said("L1", {"ticket a", "not attached"});
}

TEST_F(CheckerTest, L1AnAttachedVolumeWithoutAnEngineIsSeen) {
  watch(liveness_l01_tickets_are_satisfied());
  write({attached("node-1"), grant(1, holder(1, "node-1")),
         book("{" + ticket("a", "csi-attacher", "node-1") + "}", "{" + told("a", true) + "}")});
  reality_.engine_sights = {process(1, "node-1", 7)};
  heal();
  expect_fine();
  reality_.engine_sights.clear();
  heal();
  expect_said("L1", {"epoch 1", "does not run"});
}

TEST_F(CheckerTest, L3AVolumeThatNobodyWantsAndThatStaysIsSeen) {
  watch(liveness_l03_unwanted_is_detached());
  write({detached(), grant(1, ""), book("{}")});
  heal();
  expect_fine();
  write({grant(1, holder(1, "node-1"))});
  heal();
  expect_said("L3", {"no ticket", "epoch 1"});
}

TEST_F(CheckerTest, L6ADeletionThatDoesNotEndAndDataThatStaysAreSeen) {
  watch(liveness_l06_deletions_end());
  write({volume("", R"("state": "deleting")", R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")")});
  heal();
  expect_said("L6", {"volume v", "does not end"});
  said_.clear();
  remove(detached());
  reality_.replica_sights = {member("v-r-1", 1)};
  heal();
  expect_said("L6", {"/disk/replicas/v-r-1", "no longer exists"});
}

TEST_F(CheckerTest, L7ATicketOfAnOwnerThatIsGoneIsSeen) {
  watch(liveness_l07_tickets_of_the_gone_retire());
  write({book(
      "{" +
      ticket("a", "csi-attacher", "node-1",
             R"(, "owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "n", "uid": "u"})") +
      "}")});
  heal();
  expect_said("L7", {"ticket a", "Pod p"});
}

TEST_F(CheckerTest, L8AVolumeThatKeepsChangingIsSeen) {
  watch(liveness_l08_comes_to_rest());
  reality_.healing = true;
  for (int i = 0; i < 300; ++i) write({i % 2 == 0 ? detached() : attached("node-1")});
  expect_fine();
  for (int i = 0; i < 400; ++i) write({i % 2 == 0 ? detached() : attached("node-1")});
  expect_said("L8", {"Volume v", "come to rest"});
}

TEST_F(CheckerTest, L10AWaitWithoutAReasonIsSeen) {
  watch(liveness_l10_every_wait_is_explained());
  const std::string one = "{" + ticket("a", "csi-attacher", "node-1") + "}";
  write({book(one, "{" + told("a", true) + "}")});
  heal();
  expect_fine();
  write({book(one, "{" + told("a", false) + "}")});
  heal();
  expect_said("L10", {"ticket a", "no blocker"});
}

TEST_F(CheckerTest, L11ANodeAndAReplicaThatDoNotReturnAreSeen) {
  watch(liveness_l11_what_returns_serves());
  write({node("node-1", false)});
  reality_.node_sights = {{"node-1", "boot-1", true, true, false}};
  heal();
  expect_said("L11", {"node node-1", "not ready"});
  said_.clear();
  write({node("node-1", true), grant(1, holder(1, "node-1")),
         replica("v-r-1", R"(, "desireState": "running")")});
  heal();
  expect_said("L11", {"replica v-r-1"});
}

TEST_F(CheckerTest, MembersThatDifferAtRestAreSeen) {
  watch(liveness_members_are_equal_at_rest());
  const ServingEngine serving(2);
  reality_.engine_sights = {process(3, "node-1", 7)};
  reality_.engine_sights[0].core = serving.core();
  reality_.replica_sights = {member("v-r-1", 3), member("v-r-2", 3)};
  reality_.contents = {{"v-r-1", 1}, {"v-r-2", 1}};
  write({grant(3, holder(3, "node-1"))});
  heal();
  expect_fine();
  reality_.contents["v-r-2"] = 2;
  heal();
  expect_said("DATA", {"v-r-1 and v-r-2", "differ"});
}

TEST_F(CheckerTest, AStatusThatDoesNotMirrorTheGrantIsSeen) {
  watch(rule_status_mirrors_the_grant());
  const std::string healthy = volume("", R"("state": "attached", "robustness": "healthy", "epoch": 3)");
  write({healthy, grant(3, "")});
  heal();
  expect_fine();
  write({grant(3, "", "[]", R"({"v-r-1": "RW", "v-r-2": "ERR"})")});
  heal();
  expect_said("MIRROR", {"healthy with 1 of 2"});
}

TEST(Checkers, EachStandsInTheListOnceUnderAUniqueName) {
  std::set<std::string_view> names;
  for (const CheckerEntry& entry : checkers()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_NE(entry.make(), nullptr);
  }
  EXPECT_GE(names.size(), 30u);
}

const char* const kSomeReplica = R"({"apiVersion":"longhorn.io/v1beta2","kind":"Replica",
    "metadata":{"name":"r"},"spec":{"nodeID":"node-1"}})";

TEST_F(CheckerTest, S40AWatchThatIsToldOfEveryWriteIsFine) {
  watch(invariant_s40_a_watch_has_no_gap());
  write({kSomeReplica});  // revision 11
  write({kSomeReplica});
  tell_watch(control::kind_of<model::longhorn::Replica>(), 10, {11, 12});
  tell_watch(control::kind_of<model::longhorn::Replica>(), 11, {12});
  tell_watch(control::kind_of<model::longhorn::Engine>(), 10, {});
  expect_fine();
}

TEST_F(CheckerTest, S40AWatchThatLeavesAWriteOutIsNoticed) {
  watch(invariant_s40_a_watch_has_no_gap());
  write({kSomeReplica});
  write({kSomeReplica});
  tell_watch(control::kind_of<model::longhorn::Replica>(), 10, {12});
  expect_said("S40", {"after revision 10", "revision 11"});
}

}  // namespace
}  // namespace moor::sim
