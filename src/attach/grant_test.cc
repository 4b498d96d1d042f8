#include "attach/grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moor::attach {
namespace {

using model::mooring::MemberMode;
using model::mooring::ProofType;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr model::Time kNow{std::chrono::seconds(1'700'000'000)};

GrantSpec fresh() {
  return {.volume = "v1", .members = {{"v1-r-1", MemberMode::rw}, {"v1-r-2", MemberMode::rw}}};
}

GrantSpec active_on(const std::string& node, std::int64_t incarnation = 1) {
  return *grant_start(fresh(), {.engine = "v1-e", .node = node, .incarnation = incarnation});
}

ReleaseProof unmounted(const GrantHolder& holder) {
  return {.type = ProofType::unmounted, .holder = holder, .by = "agent/n1"};
}

std::string refusal(const GrantSpec& before, const GrantSpec& after, const GrantCaller& caller) {
  return model::to_text(check_grant_change(Grant{.spec = before}, Grant{.spec = after}, caller));
}

const GrantCaller kController{.role = GrantRole::volume_controller, .name = "volume-controller"};
const GrantCaller kAgent{.role = GrantRole::agent, .name = "n1", .node = "n1", .incarnation = 1};
const GrantCaller kPerson{.role = GrantRole::person, .name = "ada"};

TEST(Grant, EveryStartTakesTheNextEpoch) {
  GrantSpec grant = active_on("n1");
  EXPECT_EQ(grant.epoch, 1);
  EXPECT_EQ(grant.active, (GrantHolder{.epoch = 1, .engine = "v1-e", .node = "n1", .incarnation = 1}));
  grant = *release_active(grant, unmounted(*grant.active));
  grant = *grant_start(grant, {.engine = "v1-e", .node = "n1", .incarnation = 1});
  EXPECT_EQ(grant.epoch, 2);
  EXPECT_EQ(grant.active->epoch, 2);
  ASSERT_EQ(grant.proofs.size(), 1U);
  EXPECT_EQ(grant.proofs[0].holder.epoch, 1);
  EXPECT_THAT(model::to_text(validate_grant(Grant{.spec = grant})), IsEmpty());
}

TEST(Grant, NoStartWhileAnotherEngineIsNotProvenToHaveLetGo) {
  const auto second = grant_start(active_on("n1"), {.engine = "v1-e", .node = "n2", .incarnation = 1});
  ASSERT_TRUE(second.is(Errc::conflict));
  EXPECT_THAT(second.error().message, HasSubstr("n1"));
  EXPECT_TRUE(grant_start(fresh(), {.engine = "", .node = "n1"}).is(Errc::invalid));
  GrantSpec spent = fresh();
  spent.epoch = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(grant_start(spent, {.engine = "v1-e", .node = "n1"}).is(Errc::exhausted));
}

TEST(Grant, AProofMustSpeakOfTheHolderInTheRecord) {
  const GrantSpec grant = active_on("n1");
  ReleaseProof proof = unmounted(*grant.active);
  proof.holder.incarnation = 2;
  EXPECT_TRUE(release_active(grant, proof).is(Errc::conflict)) << "S13";
  proof = unmounted(*grant.active);
  proof.holder.epoch = 7;
  EXPECT_TRUE(release_active(grant, proof).is(Errc::conflict));
  proof = unmounted(*grant.active);
  proof.type = ProofType::fenced;
  proof.fenced_by_epoch = 1;
  EXPECT_TRUE(release_active(grant, proof).is(Errc::invalid));
  proof.fenced_by_epoch = 2;
  EXPECT_TRUE(release_active(grant, proof).ok());
  proof.type = ProofType::override_by_operator;
  EXPECT_TRUE(release_active(grant, proof).is(Errc::invalid)) << "an override says why";
  proof.message = "the node was taken apart";
  EXPECT_TRUE(release_active(grant, proof).ok());
  EXPECT_TRUE(release_active(fresh(), proof).is(Errc::conflict));
}

TEST(Grant, ALaterLifeOfTheNodeProvesTheEndOfTheEarlier) {
  const GrantHolder holder{.epoch = 3, .engine = "v1-e", .node = "n1", .incarnation = 4};
  EXPECT_EQ(incarnation_proof(holder, 4, kNow), std::nullopt);
  EXPECT_EQ(incarnation_proof(holder, 3, kNow), std::nullopt);
  const auto proof = incarnation_proof(holder, 5, kNow);
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->type, ProofType::incarnation_ended);
  EXPECT_EQ(proof->holder, holder);
}

TEST(Grant, KeepsTheNewestProofs) {
  GrantSpec grant = fresh();
  for (int i = 1; i <= 40; ++i) {
    grant = *grant_start(grant, {.engine = "v1-e", .node = "n1", .incarnation = 1});
    const GrantSpec before = grant;
    grant = *release_active(grant, unmounted(*grant.active));
    EXPECT_THAT(refusal(before, grant, kController), IsEmpty()) << i;
  }
  EXPECT_EQ(grant.proofs.size(), model::mooring::kMaxProofs);
  EXPECT_EQ(grant.proofs.back().holder.epoch, 40);
  EXPECT_EQ(grant.proofs.front().holder.epoch, 9);
}

TEST(Grant, AStandbyIsAboveTheActiveAndBecomesActive) {
  GrantSpec grant = active_on("n1");
  const EngineStart there{.engine = "v1-e-2", .node = "n2", .incarnation = 1};
  EXPECT_TRUE(set_standby(fresh(), there).is(Errc::conflict));
  GrantSpec rebuilding = grant;
  rebuilding.members["v1-r-2"] = MemberMode::wo;
  EXPECT_TRUE(set_standby(rebuilding, there).is(Errc::conflict));
  grant = *set_standby(grant, there);
  EXPECT_EQ(grant.standby->epoch, 2);
  EXPECT_THAT(model::to_text(validate_grant(Grant{.spec = grant})), IsEmpty());
  EXPECT_TRUE(set_standby(grant, there).is(Errc::conflict));
  const GrantSpec moved = *activate_standby(grant);
  EXPECT_EQ(moved.active->node, "n2");
  EXPECT_EQ(moved.standby, std::nullopt);
  EXPECT_TRUE(activate_standby(moved).is(Errc::conflict));
  const GrantSpec back = *release_standby(grant, unmounted(*grant.standby));
  EXPECT_EQ(back.standby, std::nullopt);
  EXPECT_EQ(back.active->node, "n1");
  EXPECT_EQ(back.epoch, 2) << "a rolled-back epoch is burnt";
}

TEST(GrantAdmission, TheVolumeControllerGrantsAndReleasesButLeavesMembersToTheEngine) {
  const GrantSpec grant = active_on("n1");
  EXPECT_THAT(refusal(fresh(), grant, kController), IsEmpty());
  GrantSpec members = grant;
  members.members["v1-r-2"] = MemberMode::err;
  ++members.generation;
  EXPECT_THAT(refusal(grant, members, kController), HasSubstr("while it is active"));
  GrantSpec idle = fresh();
  GrantSpec fewer = idle;
  fewer.members.erase("v1-r-2");
  EXPECT_THAT(refusal(idle, fewer, kController), IsEmpty());
}

TEST(GrantAdmission, NoHolderGoesWithoutAProof) {
  const GrantSpec grant = active_on("n1");
  GrantSpec dropped = grant;
  dropped.active.reset();
  EXPECT_THAT(refusal(grant, dropped, kController), HasSubstr("proof of its release"));
  GrantSpec replaced = grant;
  replaced.epoch = 2;
  replaced.active = GrantHolder{.epoch = 2, .engine = "v1-e", .node = "n2", .incarnation = 1};
  EXPECT_THAT(refusal(grant, replaced, kController), HasSubstr("proof of its release"));
  GrantSpec restarted = *release_active(grant, unmounted(*grant.active));
  restarted = *grant_start(restarted, {.engine = "v1-e", .node = "n1", .incarnation = 1});
  EXPECT_THAT(refusal(grant, restarted, kController), IsEmpty());
  GrantSpec forgetful = restarted;
  forgetful.proofs.clear();
  EXPECT_THAT(refusal(restarted, forgetful, kController), HasSubstr("never taken back"));
  const GrantSpec standby = *set_standby(grant, {.engine = "v1-e-2", .node = "n2", .incarnation = 1});
  EXPECT_THAT(refusal(grant, standby, kController), IsEmpty());
  EXPECT_THAT(refusal(standby, grant, kController), HasSubstr("spec.standby"));
}

TEST(GrantAdmission, TheAgentOfTheActiveEngineChangesMembersAndNothingElse) {
  const GrantSpec grant = active_on("n1");
  GrantSpec members = grant;
  members.members["v1-r-2"] = MemberMode::err;
  ++members.generation;
  members.export_id = "x2";
  EXPECT_THAT(refusal(grant, members, kAgent), IsEmpty());
  GrantCaller other = kAgent;
  other.node = "n2";
  EXPECT_THAT(refusal(grant, members, other), HasSubstr("node n2 may not change it"));
  GrantCaller later = kAgent;
  later.incarnation = 2;
  EXPECT_THAT(refusal(grant, members, later), HasSubstr("incarnation"));
  EXPECT_THAT(refusal(fresh(), active_on("n1"), kAgent), HasSubstr("no engine is active"));
  GrantSpec greedy = members;
  greedy.epoch = 9;
  EXPECT_THAT(refusal(grant, greedy, kAgent), HasSubstr("belong to the volume controller"));
  GrantSpec unproven = grant;
  unproven.unproven = true;
  EXPECT_THAT(refusal(unproven, grant, kAgent), IsEmpty());
  EXPECT_THAT(refusal(grant, unproven, kAgent), HasSubstr("belong to the volume controller"));
}

TEST(GrantAdmission, TheAgentOfTheStandbyMayOnlyMakeItActive) {
  const GrantSpec grant = *set_standby(active_on("n1"), {.engine = "v1-e-2", .node = "n2", .incarnation = 7});
  const GrantCaller standby{.role = GrantRole::agent, .name = "n2", .node = "n2", .incarnation = 7};
  const GrantSpec moved = *activate_standby(grant);
  EXPECT_THAT(refusal(grant, moved, standby), IsEmpty());
  GrantCaller earlier = standby;
  earlier.incarnation = 6;
  EXPECT_THAT(refusal(grant, moved, earlier), HasSubstr("may not change it"));
  GrantSpec more = moved;
  more.members["v1-r-2"] = MemberMode::err;
  ++more.generation;
  EXPECT_THAT(refusal(grant, more, standby), HasSubstr("may not change it"));
  EXPECT_THAT(refusal(moved, more, standby), IsEmpty()) << "once active, members are its own";
}

TEST(GrantAdmission, APersonMayReleaseByAnOverrideInTheirNameAndNothingElse) {
  const GrantSpec grant = active_on("n1");
  ReleaseProof proof{.type = ProofType::override_by_operator,
                     .holder = *grant.active,
                     .by = "ada",
                     .message = "n1 burnt down"};
  EXPECT_THAT(refusal(grant, *release_active(grant, proof), kPerson), IsEmpty());
  proof.by = "somebody else";
  EXPECT_THAT(refusal(grant, *release_active(grant, proof), kPerson), HasSubstr("in their own name"));
  GrantSpec other = grant;
  other.epoch = 5;
  EXPECT_THAT(refusal(grant, other, kPerson), HasSubstr("only release"));
  EXPECT_THAT(refusal(grant, grant, kPerson), IsEmpty());
}

TEST(Grant, IsMirroredInTheVolumesStatus) {
  model::longhorn::VolumeStatus status;
  EXPECT_TRUE(mirror_grant(active_on("n1"), status));
  EXPECT_EQ(status.epoch, 1);
  EXPECT_FALSE(mirror_grant(active_on("n1"), status));
}

}  // namespace
}  // namespace moor::attach
