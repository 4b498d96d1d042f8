// The agent's decisions as tables: given these objects and facts, this step and this word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/engine_plan.h"
#include "agent/core/membership.h"
#include "agent/core/names.h"
#include "agent/core/node_plan.h"
#include "registry/node_scope.h"

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

TEST(EnginePlan, NoEndIsCalledStoppedWhileItsDeviceIsThere) {
  // Seed 38 of the simulator: with `stopped` the volume may go to another node, and a workload still has the
  // device open here.
  const Grant three = grant(3);
  const Engine wanted = engine(InstanceState::running);
  const Engine unwanted = engine(InstanceState::stopped);
  for (const bool clean : {false, true}) {
    const EngineFacts left = with(ended(3, clean), {device("d1", "waiting")});
    EXPECT_EQ(plan_engine(&wanted, &three, kSelf, left, kNow).status.current_state, InstanceState::error);
    EXPECT_EQ(plan_engine(&unwanted, &three, kSelf, left, kNow).status.current_state,
              InstanceState::stopping);
  }
}

TEST(EnginePlan, WhatFailedIsTriedAgainOnlyAfterItsPause) {
  // A range of seeds hung: a drain that could not be told was tried again at once, for ever, and nothing else
  // of the agent had a turn.
  const Grant three = grant(3);
  const Engine unwanted = engine(InstanceState::stopped);
  Engine deleted = unwanted;
  deleted.metadata.deletion_timestamp = kNow.wall;
  deleted.metadata.finalizers = {std::string(registry::kNodeFinalizer)};
  DeviceFacts dead = device("d1", "serving");
  dead.process.state = State::ended;
  const auto both = [&](const Engine& object, EngineFacts facts, EngineStep step) {
    EXPECT_EQ(plan_engine(&object, &three, kSelf, facts, kNow).step, step);
    facts.retry_at = kNow.now + 1s;
    const auto waits = plan_engine(&object, &three, kSelf, facts, kNow);
    EXPECT_EQ(waits.step, EngineStep::nothing);
    EXPECT_EQ(waits.again, facts.retry_at);
  };
  both(unwanted, running(3), EngineStep::drain);
  both(unwanted, with(running(3), {dead}), EngineStep::forget_device);
  both(deleted, ended(3, true), EngineStep::let_go);
}

TEST(EnginePlan, AnEngineThatAwaitsAMemberIsToldWhereItListensNow) {
  // Seed 23 of the simulator: the only replica came back on another port, and the engine that was started
  // with the old one waited for ever.
  const Grant three = grant(3);
  Engine wanted = engine(InstanceState::running);
  const auto step = [&](const char* state) {
    return plan_engine(&wanted, &three, kSelf, running(3, state), kNow).step;
  };
  EXPECT_EQ(step("starting"), EngineStep::nothing);
  wanted.spec.replica_address_map = {{"a", "h:1"}, {"b", "h:5"}};
  EXPECT_EQ(step("starting"), EngineStep::nothing) << "it is looked for where it is";
  wanted.spec.replica_address_map["a"] = "h:2";
  EXPECT_EQ(step("starting"), EngineStep::tell_addresses);
  EXPECT_EQ(step("serving"), EngineStep::start_device) << "a member that was lost is out, wherever it is";
  wanted.spec.desire_state = InstanceState::stopped;
  EXPECT_EQ(
      plan_engine(&wanted, &three, kSelf, with(running(3, "starting"), {device("d1", "waiting")}), kNow).step,
      EngineStep::tell_addresses)
      << "seed 369: its device has to flush before it can go";
  const std::map<std::string, std::string> moved{{"a", "tcp:h:2"}};
  EXPECT_EQ(moved_members(wanted, *running(3, "starting").report), moved);
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
  EngineFacts deaf = running(3);  // it could not be asked a moment ago
  deaf.retry_at = kNow.now + std::chrono::seconds(1);
  EXPECT_EQ(plan(deaf).step, EngineStep::nothing) << "asked for ever, nothing else would be heard";
  EXPECT_EQ(plan(deaf).again, deaf.retry_at);
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

// ---- moves (docs/decisions/0300)

// This node is the destination: v-e-b waits in epoch 4 to take over from epoch 3 on another node.
Engine standby_engine() {
  Engine object = engine(InstanceState::running);
  object.metadata.name = "v-e-b";
  object.spec.standby_source = "10.0.0.9:700";
  return object;
}

Grant moving_grant(std::int64_t standby_epoch = 4) {
  Grant object = grant(3);
  object.spec.epoch = standby_epoch;
  object.spec.active->node = "n9";
  object.spec.standby = {{standby_epoch, "v-e-b", "n1", 4}};
  return object;
}

EngineFacts standing_by(std::int64_t epoch, bool ready = true) {
  EngineFacts facts = running(epoch, "standby");
  facts.standby = true;
  facts.report->ready = ready;
  facts.report->source = "tcp:10.0.0.9:700";
  return facts;
}

TEST(MovePlan, AStandbyIsStartedOnceItsSourceIsKnownAndServesOnceItReachesIt) {
  Engine object = standby_engine();
  const Grant moving = moving_grant();
  const auto plan = [&](const EngineFacts& facts) {
    return plan_engine(&object, &moving, kSelf, facts, kNow);
  };
  EXPECT_EQ(plan({}).step, EngineStep::start);
  EXPECT_TRUE(plan({}).standby);
  EXPECT_EQ(plan({}).epoch, 4);
  object.spec.standby_source.clear();
  EXPECT_EQ(plan({}).step, EngineStep::nothing);
  object.spec.standby_source = "10.0.0.9:700";
  EXPECT_EQ(plan(standing_by(4, false)).step, EngineStep::ask);
  EXPECT_EQ(plan(standing_by(4, false)).status.current_state, InstanceState::starting);
  EXPECT_EQ(plan(standing_by(4)).step, EngineStep::start_device);
  const auto up = plan(with(standing_by(4), {device("d1", "serving")}));
  EXPECT_EQ(up.step, EngineStep::nothing);
  EXPECT_EQ(up.status.current_state, InstanceState::running);
  EXPECT_TRUE(up.status.standby);
  EXPECT_TRUE(up.status.replica_mode_map.empty()) << "it speaks for no replica";
}

TEST(MovePlan, TheWordsOfAStandbyAndOfASourceThatIsStartedAgain) {
  const Engine object = standby_engine();
  const std::vector<std::string> none;
  const auto standby = engine_arguments({object, moving_grant(), none, "/s", "/c", "/t", true, "10.0.0.1"});
  EXPECT_THAT(standby, Contains("--standby"));
  EXPECT_THAT(standby, Contains("tcp:10.0.0.9:700"));
  EXPECT_THAT(standby, Contains("4"));
  Engine source = engine(InstanceState::running);
  source.spec.peer_listen = true;
  source.spec.hold_epoch = 4;
  source.spec.last_served = 2;
  const auto words = engine_arguments({source, grant(3), none, "/s", "/c", "/t", false, "10.0.0.1"});
  EXPECT_THAT(words, Contains("--hold"));
  EXPECT_THAT(words, Contains("--last-served"));
  EXPECT_THAT(words, Contains("tcp:10.0.0.1:0"));
  EXPECT_THAT(words, testing::Not(Contains("--standby")));
}

TEST(MovePlan, AStandbyFollowsItsSourceAndItsEpoch) {
  Engine object = standby_engine();
  const Grant five = moving_grant(5);
  EXPECT_EQ(plan_engine(&object, &five, kSelf, standing_by(4), kNow).step, EngineStep::update_standby);
  const Grant four = moving_grant();
  object.spec.standby_source = "10.0.0.9:701";
  EXPECT_EQ(plan_engine(&object, &four, kSelf, standing_by(4), kNow).step, EngineStep::update_standby);
}

TEST(MovePlan, AStandbyAsksForTheGrantOnlyWhenTheMoveIsReadyForItsEpoch) {
  Engine object = standby_engine();
  const Grant four = moving_grant();
  EngineFacts wants = with(standing_by(4), {device("d1", "serving")});
  const auto step = [&] { return plan_engine(&object, &four, kSelf, wants, kNow).step; };
  wants.activation_wanted = true;
  EXPECT_EQ(step(), EngineStep::nothing);
  object.spec.ready_epoch = 3;
  EXPECT_EQ(step(), EngineStep::nothing) << "ready for another one";
  object.spec.ready_epoch = 4;
  EXPECT_EQ(step(), EngineStep::activate);
  wants.activation_wanted = false;
  EXPECT_EQ(step(), EngineStep::nothing);
  object.spec.activate_requested = true;
  EXPECT_EQ(step(), EngineStep::activate);
}

TEST(MovePlan, AWriterDoesNotWaitBecauseTheStandbyWasAskedAMomentAgo) {
  Engine object = standby_engine();
  object.spec.ready_epoch = 4;
  const Grant four = moving_grant();
  EngineFacts asked = with(standing_by(4, false), {device("d1", "serving")});
  asked.ask_at = kNow.now + kAskPause;
  const auto waits = plan_engine(&object, &four, kSelf, asked, kNow);
  EXPECT_EQ(waits.step, EngineStep::nothing);
  EXPECT_EQ(waits.again, asked.ask_at);
  asked.report->ready = true;
  asked.activation_wanted = true;
  EXPECT_EQ(plan_engine(&object, &four, kSelf, asked, kNow).step, EngineStep::activate);
}

TEST(MovePlan, AStandbyThatTheGrantNamesActiveIsToldWhoeverMadeTheSwap) {
  const Engine object = standby_engine();
  Grant swapped = moving_grant();
  swapped.spec.active = swapped.spec.standby;
  swapped.spec.standby.reset();
  EXPECT_EQ(plan_engine(&object, &swapped, kSelf, standing_by(4), kNow).step, EngineStep::confirm_activation);
  swapped.spec.active->epoch = 6;
  EXPECT_EQ(plan_engine(&object, &swapped, kSelf, standing_by(4), kNow).step, EngineStep::confirm_activation);
}

TEST(MovePlan, AStandbyThatTheGrantForgotIsToldAfterAFreshRead) {
  const Engine object = standby_engine();
  const Grant other = grant(5);
  EXPECT_EQ(plan_engine(&object, &other, kSelf, standing_by(4), kNow).step, EngineStep::check_grant);
  EXPECT_EQ(plan_engine(&object, nullptr, kSelf, standing_by(4), kNow).step, EngineStep::check_grant);
}

TEST(MovePlan, ASourceHoldsItsClientsForTheEpochThatIsAskedForAndIsNotSuperseded) {
  Engine source = engine(InstanceState::running);
  source.spec.hold_epoch = 4;
  const Grant three = grant(3);
  EngineFacts facts = with(running(3), {device("d1", "serving")});
  EXPECT_EQ(plan_engine(&source, &three, kSelf, facts, kNow).step, EngineStep::set_hold);
  facts.holding = 4;
  facts.report->holding = true;
  const auto holds = plan_engine(&source, &three, kSelf, facts, kNow);
  EXPECT_EQ(holds.step, EngineStep::nothing);
  EXPECT_EQ(holds.status.holding, 4);
  source.spec.hold_epoch = 6;
  EXPECT_EQ(plan_engine(&source, &three, kSelf, facts, kNow).step, EngineStep::set_hold) << "another move";
  source.spec.hold_epoch = 4;
  EXPECT_EQ(plan_engine(&source, nullptr, kSelf, facts, kNow).step, EngineStep::nothing)
      << "the destination is active, and the clients are kept";
  source.spec.desire_state = InstanceState::stopped;
  EXPECT_EQ(plan_engine(&source, nullptr, kSelf, facts, kNow).step, EngineStep::set_hold)
      << "off first: held requests would keep the device in use";
}

TEST(EnginePlan, TheEpochOfALaterObjectIsNotTakenForTheOldProcess) {
  // Seed 15 of the simulator with moves: the node was cut off while its standby's Engine was deleted and made
  // again under the same name; the old process took the new one's epoch, which was then started as well.
  Engine object = standby_engine();
  object.spec.epoch = 4;
  const Grant eight = moving_grant(8);
  EXPECT_TRUE(granted_to(&object, &eight, kSelf).ahead);
  EXPECT_EQ(plan_engine(&object, &eight, kSelf, standing_by(4), kNow).step, EngineStep::nothing);
  EXPECT_EQ(plan_engine(&object, &eight, kSelf, ended(4, false), kNow).step, EngineStep::nothing);
  object.spec.epoch = 8;
  EXPECT_EQ(plan_engine(&object, &eight, kSelf, standing_by(4), kNow).step, EngineStep::update_standby);
}

TEST(EnginePlan, NothingIsStartedBesideWhatIsLeftOfAnEarlierObject) {
  // Seed 12: two engines of one volume on one node (S11).
  const Engine object = standby_engine();
  const Grant four = moving_grant();
  EngineFacts facts;
  facts.other_lives = true;
  EXPECT_EQ(plan_engine(&object, &four, kSelf, facts, kNow).step, EngineStep::nothing);
  facts.other_lives = false;
  EXPECT_EQ(plan_engine(&object, &four, kSelf, facts, kNow).step, EngineStep::start);
}

TEST(EnginePlan, WhatIsHeldBackForAMoveEndsWithItWhoeverWasToldFirst) {
  // A restarted agent finds a source that holds its clients and is told to stop it: it tells it that it is
  // superseded before it has heard that it holds (scenario move-agents-die).
  const Engine unwanted = engine(InstanceState::stopped);
  Grant moved = grant(4);
  moved.spec.active = {{4, "v-e-b", "n2", 1}};
  EngineFacts facts = running(3, "superseded");
  facts.report->holding = true;
  facts.told_superseded = true;
  EXPECT_EQ(plan_engine(&unwanted, &moved, kSelf, facts, kNow).step, EngineStep::set_hold);
  EXPECT_EQ(plan_engine(nullptr, &moved, kSelf, facts, kNow).step, EngineStep::set_hold)
      << "its object is gone";
  EXPECT_EQ(plan_engine(nullptr, &moved, kSelf, standing_by(4), kNow).step, EngineStep::check_grant)
      << "a standby that nobody will activate is told so, or what it holds keeps its device in use";
}

TEST(MovePlan, ASourceThatIsGivenTheVolumeBackTakesTheEpochInItsLivingProcess) {
  Engine source = engine(InstanceState::running);
  source.spec.hold_epoch = 4;
  EngineFacts facts = running(3, "superseded");
  facts.holding = 4;
  facts.report->holding = true;
  const Grant five = grant(5);
  EXPECT_EQ(plan_engine(&source, &five, kSelf, facts, kNow).step, EngineStep::take_epoch);
  facts.epoch = 5;  // recorded, and the process has not answered
  EXPECT_EQ(plan_engine(&source, &five, kSelf, facts, kNow).step, EngineStep::take_epoch);
  facts.report->epoch = 5;
  facts.report->state = "serving";
  EXPECT_EQ(plan_engine(&source, &five, kSelf, facts, kNow).step, EngineStep::start_device);
  EngineFacts dead = ended(3, false);
  EXPECT_EQ(plan_engine(&source, &five, kSelf, dead, kNow).step, EngineStep::start);
}

TEST(MovePlan, AnEpochThatWasCalledBackBeforeItsStartIsUsedUpAndSaidToBeOver) {
  Engine object = engine(InstanceState::stopped);
  object.spec.epoch = 4;
  const auto before = plan_engine(&object, nullptr, kSelf, ended(3, true), kNow);
  EXPECT_EQ(before.step, EngineStep::use_up);
  EXPECT_NE(before.status.current_state, InstanceState::stopped);
  const auto after = plan_engine(&object, nullptr, kSelf, ended(4, false), kNow);
  EXPECT_EQ(after.step, EngineStep::nothing);
  EXPECT_EQ(after.status.current_state, InstanceState::stopped);
  EXPECT_EQ(after.status.epoch, 4);
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

TEST(ReplicaPlan, OneThatWasToldToStopIsNotCalledRunningWhenItIsWantedAgain) {
  Replica wanted;
  wanted.spec.node_id = "n1";
  wanted.spec.desire_state = InstanceState::running;
  ReplicaFacts facts;
  facts.process.state = State::running;
  facts.port = 7;
  EXPECT_EQ(plan_replica(&wanted, kSelf, facts, kNow).status.current_state, InstanceState::running);
  facts.stop_asked = true;
  const auto leaving = plan_replica(&wanted, kSelf, facts, kNow);
  EXPECT_EQ(leaving.step, ReplicaStep::nothing) << "it ends, and then it is started";
  EXPECT_EQ(leaving.status.current_state, InstanceState::stopping);
  EXPECT_EQ(leaving.status.port, 0) << "an engine that goes there would lose it at once";
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

TEST(NodeLife, OnlyAMachineThatHasNeverBeenTheNodeIsANewcomer) {
  EXPECT_FALSE(is_newcomer({}, {}, "a")) << "nobody has ever been it";
  EXPECT_FALSE(is_newcomer({}, {1, "a"}, "a")) << "it has lost its record, and its kernel is the same";
  EXPECT_FALSE(is_newcomer({1, "a"}, {1, "a"}, "b")) << "it was started anew";
  EXPECT_FALSE(is_newcomer({2, "b"}, {1, "a"}, "c")) << "it died before it could tell of its last life";
  EXPECT_TRUE(is_newcomer({}, {1, "a"}, "b")) << "another machine, or one that has lost its disk";
  EXPECT_TRUE(is_newcomer({1, "a"}, {2, "x"}, "b")) << "another one has been the node since";
}

}  // namespace
}  // namespace moor::agent
