// The agent's decisions as tables: given these objects and facts, this step and this word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/engine_plan.h"
#include "agent/core/membership.h"
#include "agent/core/names.h"
#include "agent/core/node_plan.h"

namespace moor::agent {
namespace {

using model::longhorn::Engine;
using model::longhorn::InstanceState;
using model::longhorn::Replica;
using model::mooring::Grant;
using model::mooring::MemberMode;
using State = ProcessFacts::State;
using Verdict = MembershipDecision::Verdict;
using testing::Contains;
using testing::HasSubstr;
using namespace std::chrono_literals;

const Self kSelf{"n1", 4, "10.0.0.1"};
const Moment kNow{TimePoint{100s}, model::Time(1'800'000'000s)};

Engine engine(InstanceState wanted) {
  Engine object;
  object.metadata.name = "v-e";
  object.metadata.uid = "6f9619ff-8b86-4011-b42d-00c04fc964ff";
  object.spec.volume_name = "v";
  object.spec.node_id = "n1";
  object.spec.desire_state = wanted;
  object.spec.frontend = model::longhorn::Frontend::blockdev;
  return object;
}

Grant grant(std::int64_t epoch, std::int64_t incarnation = 4) {
  Grant object;
  object.spec.volume = "v";
  object.spec.epoch = epoch;
  object.spec.generation = 7;
  object.spec.export_id = "x1";
  object.spec.members = {{"a", MemberMode::rw}, {"b", MemberMode::rw}};
  object.spec.active = {{epoch, "v-e", "n1", incarnation}};
  return object;
}

EngineFacts running(std::int64_t epoch, const std::string& state = "serving") {
  EngineFacts facts;
  facts.epoch = epoch;
  facts.process.state = State::running;
  facts.socket = "/s";
  facts.report = EngineReport{epoch, state, "", 1024, 7, "x1", {{"a", "tcp:h:1", MemberMode::rw}}, {}, {}};
  return facts;
}

DeviceFacts device(const std::string& key, const std::string& state, const std::string& export_id = "x1") {
  DeviceFacts facts;
  facts.key = key;
  facts.process.state = State::running;
  facts.link = "/d/v";
  facts.export_id = export_id;
  facts.report = DeviceReport{state, "/dev/loop7", export_id, ""};
  return facts;
}

EngineFacts with(EngineFacts facts, std::vector<DeviceFacts> devices) {
  facts.devices = std::move(devices);
  return facts;
}

EngineFacts ended(std::int64_t epoch, bool clean) {
  EngineFacts facts;
  facts.epoch = epoch;
  facts.process = {State::ended, clean, clean ? "drained" : "killed by signal 9"};
  return facts;
}

TEST(EnginePlan, AnEpochThatIsJustBeingStartedIsNeverCalledStopped) {
  // Seed 29 of the simulator: the status was written while the host was still making the process, and the
  // controller took "stopped" with that epoch for its release.
  EngineFacts facts;
  facts.epoch = 3;
  facts.process.state = State::starting;
  const Grant three = grant(3);
  const Engine wanted = engine(InstanceState::running);
  EXPECT_EQ(plan_engine(&wanted, &three, kSelf, facts, kNow).status.current_state, InstanceState::starting);
  const Engine unwanted = engine(InstanceState::stopped);
  EXPECT_EQ(plan_engine(&unwanted, &three, kSelf, facts, kNow).status.current_state, InstanceState::stopping);
}

TEST(EnginePlan, AnEpochIsStartedOnceAndOnlyWhereTheGrantSaysSo) {
  const Engine wanted = engine(InstanceState::running);
  const Engine unwanted = engine(InstanceState::stopped);
  const auto step = [&](const Engine& object, const Grant* granted, const EngineFacts& facts) {
    return plan_engine(&object, granted, kSelf, facts, kNow).step;
  };
  const Grant three = grant(3);
  EXPECT_EQ(step(wanted, &three, {}), EngineStep::start);
  EXPECT_EQ(plan_engine(&wanted, &three, kSelf, {}, kNow).epoch, 3);
  EXPECT_EQ(step(wanted, &three, ended(2, false)), EngineStep::start);
  EXPECT_EQ(step(wanted, &three, ended(3, false)), EngineStep::nothing) << "that epoch is used up";
  EXPECT_EQ(step(wanted, &three, ended(4, false)), EngineStep::nothing);
  EXPECT_EQ(step(wanted, nullptr, {}), EngineStep::nothing);
  EXPECT_EQ(step(unwanted, &three, {}), EngineStep::nothing);
  const Grant other_life = grant(3, 5);
  EXPECT_EQ(step(wanted, &other_life, {}), EngineStep::nothing) << "granted to another life of this node";
  Grant other_engine = grant(3);
  other_engine.spec.active->engine = "v-e2";
  EXPECT_EQ(step(wanted, &other_engine, {}), EngineStep::nothing);
  EXPECT_EQ(step(wanted, &three, running(3, "starting")), EngineStep::nothing);
}

TEST(EnginePlan, TheEndOfAProcessIsToldWithItsEpochAndCause) {
  const Engine wanted = engine(InstanceState::running);
  const Grant three = grant(3);
  const auto crashed = plan_engine(&wanted, &three, kSelf, ended(3, false), kNow).status;
  EXPECT_EQ(crashed.current_state, InstanceState::error);
  EXPECT_EQ(crashed.epoch, 3);
  ASSERT_EQ(crashed.conditions.size(), 1u);
  EXPECT_EQ(crashed.conditions[0].message, "killed by signal 9");
  EXPECT_EQ(plan_engine(&wanted, &three, kSelf, ended(3, true), kNow).status.current_state,
            InstanceState::stopped);
  const Engine unwanted = engine(InstanceState::stopped);
  const auto stopped = plan_engine(&unwanted, &three, kSelf, ended(3, false), kNow).status;
  EXPECT_EQ(stopped.current_state, InstanceState::stopped) << "it was to go, and it is gone";
  EXPECT_EQ(stopped.epoch, 3);
}

TEST(EnginePlan, TheDeviceIsMadeForAServingEngineAndToldOnceItIsUp) {
  const Engine wanted = engine(InstanceState::running);
  const Grant three = grant(3);
  const auto plan = [&](const EngineFacts& facts) {
    return plan_engine(&wanted, &three, kSelf, facts, kNow);
  };
  EXPECT_EQ(plan(running(3)).step, EngineStep::start_device);
  EXPECT_EQ(plan(running(3)).status.current_state, InstanceState::starting);
  const auto up = plan(with(running(3), {device("d1", "serving")}));
  EXPECT_EQ(up.step, EngineStep::nothing);
  EXPECT_EQ(up.status.current_state, InstanceState::running);
  EXPECT_EQ(up.status.endpoint, "/d/v");
  EXPECT_EQ(up.status.current_size, 1024);
  EXPECT_EQ(up.status.nbd_uri, "nbd+unix:///v?socket=/s");
  Engine hidden = wanted;
  hidden.spec.disable_frontend = true;
  const auto none = plan_engine(&hidden, &three, kSelf, running(3), kNow);
  EXPECT_EQ(none.step, EngineStep::nothing);
  EXPECT_EQ(none.status.current_state, InstanceState::running);
  EXPECT_EQ(none.status.endpoint, "");
  EXPECT_EQ(plan_engine(&hidden, &three, kSelf, with(running(3), {device("d1", "serving")}), kNow).step,
            EngineStep::remove_device);
}

TEST(EnginePlan, AnEngineThatCameBackWithAnotherExportIdGetsANewDeviceFirst) {
  const Engine wanted = engine(InstanceState::running);
  const Grant three = grant(3);
  const auto plan = [&](std::vector<DeviceFacts> devices) {
    return plan_engine(&wanted, &three, kSelf, with(running(3), std::move(devices)), kNow);
  };
  EXPECT_EQ(plan({device("d1", "ended", "x0")}).step, EngineStep::start_device);
  const auto looks = plan({device("d1", "ended", "x0"), device("d2", "serving")});
  EXPECT_EQ(looks.step, EngineStep::look_at_device);
  EXPECT_EQ(looks.device, "d1");
  EXPECT_EQ(looks.status.current_state, InstanceState::running);
  DeviceFacts used = device("d1", "ended", "x0");
  used.looked = true;
  used.users = "pid 1 (fio)";
  used.retry_at = kNow.now + 1s;
  const auto waits = plan({used, device("d2", "serving")});
  EXPECT_EQ(waits.step, EngineStep::nothing);
  EXPECT_EQ(waits.again, used.retry_at);
  EXPECT_THAT(waits.status.conditions[0].message, HasSubstr("pid 1 (fio)"));
  used.users.clear();
  used.retry_at = {};
  EXPECT_EQ(plan({used, device("d2", "serving")}).step, EngineStep::force_remove_device);
}

TEST(EnginePlan, OnTheWayDownTheDeviceGoesBeforeTheEngine) {
  const Engine wanted = engine(InstanceState::running);
  const Engine unwanted = engine(InstanceState::stopped);
  const Grant three = grant(3);
  const auto plan = [&](EngineFacts facts) { return plan_engine(&unwanted, &three, kSelf, facts, kNow); };
  EXPECT_EQ(plan(with(running(3), {device("d1", "serving")})).step, EngineStep::remove_device);
  DeviceFacts used = device("d1", "serving");
  used.users = "mounted at /mnt";
  used.retry_at = kNow.now + 1s;
  const auto waits = plan(with(running(3), {used}));
  EXPECT_EQ(waits.step, EngineStep::nothing);
  EXPECT_EQ(waits.status.current_state, InstanceState::stopping);
  EXPECT_EQ(waits.status.conditions[0].type, kDeviceInUse);
  EXPECT_THAT(waits.status.conditions[0].message, HasSubstr("/dev/loop7 is in use: mounted at /mnt"));
  DeviceFacts leaving = device("d1", "removing");
  leaving.asked = true;
  EXPECT_EQ(plan(with(running(3), {leaving})).step, EngineStep::look_at_device)
      << "somebody still has it open";
  EXPECT_EQ(plan_engine(&wanted, &three, kSelf, with(running(3), {leaving}), kNow).step,
            EngineStep::start_device)
      << "wanted again: one that is leaving does not count";
  DeviceFacts gone = device("d1", "removing");
  gone.process = {State::ended, true, ""};
  EXPECT_EQ(plan(with(running(3), {gone})).step, EngineStep::forget_device);
  EXPECT_EQ(plan(running(3)).step, EngineStep::drain);
  EngineFacts draining = running(3);
  draining.drain_asked = true;
  EXPECT_EQ(plan(draining).step, EngineStep::nothing);
  EXPECT_EQ(plan(with(ended(3, false), {device("d1", "waiting")})).step, EngineStep::force_remove_device)
      << "nobody shall wait for an engine that never comes back";
  EXPECT_EQ(plan(with(ended(3, false), {device("d1", "waiting")})).status.current_state,
            InstanceState::stopping);
}

TEST(EnginePlan, AProcessWithoutAnObjectIsStoppedSafelyAndForgotten) {
  EXPECT_EQ(plan_engine(nullptr, nullptr, kSelf, with(running(3), {device("d1", "serving")}), kNow).step,
            EngineStep::remove_device);
  EXPECT_EQ(plan_engine(nullptr, nullptr, kSelf, running(3), kNow).step, EngineStep::drain);
  EXPECT_EQ(plan_engine(nullptr, nullptr, kSelf, ended(3, true), kNow).step, EngineStep::forget);
}

TEST(EnginePlan, AGrantThatNamesAnotherIsReadAgainBeforeTheEngineIsTold) {
  const Engine wanted = engine(InstanceState::running);
  const Grant four = grant(4);
  EXPECT_EQ(plan_engine(&wanted, &four, kSelf, running(3), kNow).step, EngineStep::check_grant);
  EXPECT_EQ(plan_engine(&wanted, nullptr, kSelf, running(3), kNow).step, EngineStep::check_grant);
  EngineFacts told = with(running(3), {device("d1", "serving")});
  told.told_superseded = true;
  EXPECT_EQ(plan_engine(&wanted, &four, kSelf, told, kNow).step, EngineStep::nothing);
}

TEST(EnginePlan, ANewAgentTakesNothingBackBeforeItHasHeardTheProcess) {
  Engine object = engine(InstanceState::running);
  object.status.current_state = InstanceState::running;
  object.status.epoch = 3;
  object.status.endpoint = "/d/v";
  const Grant three = grant(3);
  EngineFacts facts = running(3);
  facts.report.reset();
  facts.unheard = true;
  EXPECT_EQ(model::encode(plan_engine(&object, &three, kSelf, facts, kNow).status),
            model::encode(object.status));
  facts.unheard = false;
  EXPECT_EQ(plan_engine(&object, &three, kSelf, facts, kNow).status.current_state, InstanceState::starting);
}

TEST(EnginePlan, WhatAnotherProcessSaidOfItsChainIsNotTheWordOfThisOne) {
  Engine object = engine(InstanceState::running);
  object.status.epoch = 2;
  object.status.snapshots_reported_at = kNow.wall;
  const Grant three = grant(3);
  EXPECT_FALSE(
      plan_engine(&object, &three, kSelf, running(3, "starting"), kNow).status.snapshots_reported_at);
  EXPECT_TRUE(plan_engine(&object, &three, kSelf, running(3), kNow).status.snapshots_reported_at);
}

TEST(EnginePlan, TheChainIsToldWithParentsChildrenAndTheHead) {
  EngineFacts facts = running(3);
  facts.report->chain = {{"s1", "id1", "", "t1", {}, false, true, 5},
                         {"s2", "id2", "id1", "t2", {}, true, true, 6}};
  const Engine wanted = engine(InstanceState::running);
  const Grant three = grant(3);
  auto snapshots = plan_engine(&wanted, &three, kSelf, facts, kNow).status.snapshots;
  EXPECT_EQ(snapshots.size(), 3u);
  EXPECT_EQ(snapshots["s2"].parent, "s1");
  EXPECT_TRUE(snapshots["s1"].children["s2"]);
  EXPECT_TRUE(snapshots["s2"].removed);
  EXPECT_EQ(snapshots["volume-head"].parent, "s2");
  EXPECT_TRUE(snapshots["s2"].children["volume-head"]);
}

TEST(EngineArguments, NameEveryMemberWithItsModeAndWhereItIs) {
  Engine object = engine(InstanceState::running);
  object.spec.replica_address_map = {{"a", "10.0.0.1:4000"}};
  Grant three = grant(3);
  three.spec.members = {{"a", MemberMode::rw}, {"b", MemberMode::err}};
  const std::vector<std::string> local{"a"};
  const auto words = engine_arguments({object, three, local, "/s", "/c", "/t"});
  EXPECT_THAT(words, Contains("tcp:10.0.0.1:4000,name=a,mode=rw,local"));
  EXPECT_THAT(words, Contains("tcp:127.0.0.1:1,name=b,mode=err,absent"));
  EXPECT_THAT(words, Contains("x1"));
  EXPECT_THAT(words, Contains("unix:/s"));
}

Replica replica(InstanceState wanted) {
  Replica object;
  object.metadata.name = "v-r-1";
  object.metadata.owner_references = {{"longhorn.io/v1beta2", "Volume", "v", "0123456789", {}, {}}};
  object.metadata.finalizers = {"longhorn.io"};
  object.spec.volume_name = "v";
  object.spec.node_id = "n1";
  object.spec.desire_state = wanted;
  return object;
}

TEST(ReplicaPlan, RunsAsWantedAndComesBackAfterAPause) {
  const Replica wanted = replica(InstanceState::running);
  ReplicaFacts facts;
  EXPECT_EQ(plan_replica(&wanted, kSelf, facts, kNow).step, ReplicaStep::start);
  facts.process.state = State::running;
  EXPECT_EQ(plan_replica(&wanted, kSelf, facts, kNow).status.current_state, InstanceState::starting);
  facts.port = 4000;
  const auto up = plan_replica(&wanted, kSelf, facts, kNow);
  EXPECT_EQ(up.step, ReplicaStep::nothing);
  EXPECT_EQ(up.status.current_state, InstanceState::running);
  EXPECT_EQ(up.status.ip, "10.0.0.1");
  EXPECT_EQ(up.status.port, 4000);
  ReplicaFacts dead;
  dead.process = {State::ended, false, "killed by signal 9"};
  dead.failures = 1;
  dead.retry_at = kNow.now + 100ms;
  const auto waits = plan_replica(&wanted, kSelf, dead, kNow);
  EXPECT_EQ(waits.step, ReplicaStep::nothing);
  EXPECT_EQ(waits.again, dead.retry_at);
  EXPECT_EQ(waits.status.current_state, InstanceState::error);
  EXPECT_EQ(waits.status.port, 0);
  EXPECT_EQ(waits.status.conditions[0].message, "killed by signal 9");
}

TEST(ReplicaPlan, ADeletedReplicaStopsThenLosesItsDirectoryThenItsObject) {
  Replica deleted = replica(InstanceState::running);
  deleted.metadata.deletion_timestamp = kNow.wall;
  ReplicaFacts facts;
  facts.process.state = State::running;
  EXPECT_EQ(plan_replica(&deleted, kSelf, facts, kNow).step, ReplicaStep::stop);
  facts.process = {State::ended, true, ""};
  EXPECT_EQ(plan_replica(&deleted, kSelf, facts, kNow).step, ReplicaStep::clear);
  facts.directory_gone = true;
  EXPECT_EQ(plan_replica(&deleted, kSelf, facts, kNow).step, ReplicaStep::let_go);
  EXPECT_EQ(plan_replica(nullptr, kSelf, {}, kNow).step, ReplicaStep::forget);
  facts = {};
  facts.process.state = State::running;
  EXPECT_EQ(plan_replica(nullptr, kSelf, facts, kNow).step, ReplicaStep::stop)
      << "without an object the process stops, and the directory stays";
}

TEST(ReplicaPlan, PausesGrowAndHaveABound) {
  EXPECT_EQ(replica_pause(0), 0ms);
  EXPECT_EQ(replica_pause(1), 100ms);
  EXPECT_EQ(replica_pause(3), 400ms);
  EXPECT_EQ(replica_pause(1000), 30s);
}

TEST(Names, ADirectoryIsNamedByTheVolumesUidAndNeverLeadsOut) {
  Replica object = replica(InstanceState::running);
  EXPECT_EQ(replica_directory(object).value(), "v-01234567-r-1");
  for (const char* bad : {"../x", "a/b", ".hidden"}) {
    object.spec.data_directory_name = bad;
    EXPECT_TRUE(replica_directory(object).is(Errc::invalid)) << bad;
  }
  object.spec.data_directory_name = "chosen";
  EXPECT_EQ(replica_directory(object).value(), "chosen");
  EXPECT_EQ(device_name("longhorn-system", "v"), "v");
  EXPECT_EQ(device_name("other", "v"), "other_v");
  EXPECT_EQ(member_address("10.0.0.1:80"), "tcp:10.0.0.1:80");
  EXPECT_EQ(member_address("tcp://10.0.0.1:80"), "tcp:10.0.0.1:80");
}

Proposal proposal() {
  return {1, 3, 7, 8, {{"a", MemberMode::rw}, {"b", MemberMode::err}}, "x1", "b is lost"};
}

TEST(Membership, IsCommittedConfirmedSupersededOrRefused) {
  Grant now = grant(3);
  const auto decide = [&] { return decide_membership(now, kSelf, "v-e", proposal()); };
  const auto commit = decide();
  ASSERT_EQ(commit.verdict, Verdict::commit);
  EXPECT_EQ(commit.grant.spec.generation, 8);
  EXPECT_EQ(commit.grant.spec.members.at("b"), MemberMode::err);
  EXPECT_EQ(commit.grant.spec.active, now.spec.active);
  now = commit.grant;
  EXPECT_EQ(decide().verdict, Verdict::confirm) << "the answer to the write got lost: it stands there";
  now.spec.members["a"] = MemberMode::wo;
  EXPECT_EQ(decide().verdict, Verdict::refuse) << "another change has that generation";
  now.spec.generation = 9;
  EXPECT_EQ(decide().verdict, Verdict::refuse);
  for (Grant other : {grant(4), grant(3, 5)}) {
    now = other;
    EXPECT_EQ(decide().verdict, Verdict::superseded);
  }
  now = grant(3);
  now.spec.active.reset();
  EXPECT_EQ(decide().verdict, Verdict::superseded);
}

TEST(Lives, ANewBootIsANewLifeAndTheSameBootIsNot) {
  EXPECT_EQ(current_life({}, {}, "b1"), (Lives{1, "b1"}));
  EXPECT_EQ(current_life({1, "b1"}, {1, "b1"}, "b1"), (Lives{1, "b1"}));
  EXPECT_EQ(current_life({1, "b1"}, {1, "b1"}, "b2"), (Lives{2, "b2"}));
  EXPECT_EQ(current_life({}, {5, "b1"}, "b1"), (Lives{5, "b1"}))
      << "our directory was lost, the machine ran on";
  EXPECT_EQ(current_life({}, {5, "b1"}, "b2"), (Lives{6, "b2"}));
  EXPECT_EQ(current_life({7, "b1"}, {5, "b0"}, "b1"), (Lives{7, "b1"}))
      << "the API was restored from a backup";
}

TEST(NodeStatus, ASmallChangeOfADisksRoomIsNotWorthAWrite) {
  NodeOptions options{"n1", "10.0.0.1", "", "", "/disk"};
  model::longhorn::Node node = first_node(options);
  const auto available = [&](std::int64_t bytes) {
    node.status =
        node_status(node, options, {1, "b"}, {{"default", {"u1", "", "ext4", bytes, 1000}}}, kNow.wall);
    return node.status.disk_status.at("default").storage_available;
  };
  EXPECT_EQ(available(500), 500);
  EXPECT_EQ(available(496), 500);
  EXPECT_EQ(available(495), 495);
}

TEST(NodeStatus, ADiskThatChangedOrVanishedIsNotReadyAndKeepsItsIdentity) {
  NodeOptions options{"n1", "10.0.0.1", "z1", "r1", "/disk"};
  model::longhorn::Node node = first_node(options);
  const auto look = [&](DiskFacts facts) {
    node.status = node_status(node, options, {1, "b"}, {{"default", std::move(facts)}}, kNow.wall);
    return node.status.disk_status.at("default");
  };
  const auto fine = look({"u1", "", "ext4", 10, 20});
  EXPECT_TRUE(is_condition_true(fine.conditions, "Ready"));
  EXPECT_EQ(fine.storage_maximum, 20);
  EXPECT_EQ(node.status.zone, "z1");
  EXPECT_EQ(node.status.incarnation, 1);
  const auto other = look({"u2", "", "ext4", 1, 2});
  EXPECT_FALSE(is_condition_true(other.conditions, "Ready"));
  EXPECT_THAT(other.conditions[0].message, HasSubstr("u2 instead of u1"));
  EXPECT_EQ(other.disk_uuid, "u1");
  EXPECT_THAT(look({"", "", "ext4", 1, 2}).conditions[0].message, HasSubstr("lost its identity"));
  EXPECT_THAT(look({"", "/disk is no directory", "", 0, 0}).conditions[0].message, HasSubstr("no directory"));
  EXPECT_TRUE(is_condition_true(look({"u1", "", "ext4", 10, 20}).conditions, "Ready"));
}

}  // namespace
}  // namespace moor::agent
