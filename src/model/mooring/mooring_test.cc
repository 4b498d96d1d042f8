// The rules that live beside our own kinds. S-numbers: the invariants they guard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/mooring/grant.h"
#include "model/mooring/instance.h"
#include "model/mooring/operation.h"

namespace moor::model::mooring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> fields(const Causes& causes) {
  std::vector<std::string> list;
  for (const Cause& cause : causes) list.push_back(cause.field);
  return list;
}

Grant granted() {
  Grant grant;
  grant.metadata.name = "v1";
  grant.spec.volume = "v1";
  grant.spec.epoch = 5;
  grant.spec.active = GrantHolder{5, "v1-e-0", "node-1", 1};
  grant.spec.members = {{"a", MemberMode::rw}, {"b", MemberMode::rw}, {"c", MemberMode::err}};
  grant.spec.generation = 7;
  return grant;
}

template <class Change>
std::vector<std::string> after_change(const Change& change) {
  Grant after = granted();
  change(after.spec);
  Causes causes = validate_grant(after);
  for (Cause& cause : validate_grant_update(granted(), after)) causes.push_back(std::move(cause));
  return fields(causes);
}

TEST(Grant, EpochAndGenerationNeverGoDownS2) {
  EXPECT_THAT(after_change([](GrantSpec&) {}), IsEmpty());
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.epoch = 4, spec.active.reset(); }),
              ElementsAre("spec.epoch"));
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.generation = 6; }), ElementsAre("spec.generation"));
}

TEST(Grant, TheNumberOfAReplicaIsNeverUsedTwice) {
  Grant before = granted();
  before.spec.next_replica = 4;
  Grant after = before;
  after.spec.next_replica = 3;
  const Causes causes = validate_grant_update(before, after);
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].field, "spec.nextReplica");
}

TEST(Grant, AnEpochIsGrantedOnceS3) {
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.active->node = "node-2"; }),
              ElementsAre("spec.active.epoch"));
  EXPECT_THAT(after_change([](GrantSpec& spec) {
                spec.active = GrantHolder{6, "v1-e-0", "node-1", 1};
              }),
              ElementsAre("spec.active.epoch"))
      << "above the highest granted";
  EXPECT_THAT(after_change([](GrantSpec& spec) {
                spec.epoch = 6, spec.active = GrantHolder{6, "v1-e-0", "node-1", 1};
              }),
              IsEmpty());
}

TEST(Grant, AStandbyBecomesActiveWithItsOwnEpochS22) {
  Grant moving = granted();
  moving.spec.epoch = 6;
  moving.spec.standby = GrantHolder{6, "v1-e-1", "node-2", 4};
  EXPECT_THAT(validate_grant(moving), IsEmpty());
  EXPECT_THAT(validate_grant_update(granted(), moving), IsEmpty());
  Grant moved = moving;
  moved.spec.active = moving.spec.standby;
  moved.spec.standby.reset();
  EXPECT_THAT(validate_grant_update(moving, moved), IsEmpty());
  Grant backwards = moved;
  backwards.spec.active = GrantHolder{5, "v1-e-0", "node-1", 1};
  EXPECT_THAT(fields(validate_grant_update(moved, backwards)), ElementsAre("spec.active.epoch"))
      << "a burnt epoch stays burnt";
  moving.spec.standby->epoch = 5;
  EXPECT_THAT(fields(validate_grant(moving)), ElementsAre("spec.standby.epoch"));
}

TEST(Grant, AFailedMemberReturnsOnlyThroughWoS44) {
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.members["c"] = MemberMode::rw; }),
              ElementsAre("spec.members[c]"));
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.members["c"] = MemberMode::wo; }), IsEmpty());
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.members.erase("c"); }), IsEmpty());
}

TEST(Grant, LosingAMemberRaisesTheGeneration) {
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.members["b"] = MemberMode::err; }),
              ElementsAre("spec.generation"));
  EXPECT_THAT(after_change([](GrantSpec& spec) { spec.members["b"] = MemberMode::err, spec.generation = 8; }),
              IsEmpty());
  EXPECT_THAT(after_change([](GrantSpec& spec) {
                spec.snapshot = GrantSnapshot{"s1", 7};
              }),
              ElementsAre("spec.generation"));
  EXPECT_THAT(after_change([](GrantSpec& spec) {
                spec.snapshot = GrantSnapshot{"s1", 8}, spec.generation = 8;
              }),
              IsEmpty());
}

TEST(Grant, TheLastMemberThatHoldsTheDataStays) {
  EXPECT_THAT(after_change([](GrantSpec& spec) {
                spec.generation = 8;
                spec.members["a"] = spec.members["b"] = MemberMode::err;
              }),
              ElementsAre("spec.members"));
}

TEST(Instance, DeviceNamesAndBootOrderAreUnique) {
  Instance instance;
  instance.spec.block_devices.resize(2);
  instance.spec.block_devices[0].volume = "a";
  instance.spec.block_devices[1].volume = "b";
  EXPECT_THAT(validate_instance(instance), IsEmpty());
  for (BlockDevice& device : instance.spec.block_devices) device.device_name = "vda", device.boot_index = 0;
  EXPECT_THAT(fields(validate_instance(instance)),
              ElementsAre("spec.blockDevices[1].deviceName", "spec.blockDevices[1].bootIndex"));
}

TEST(Operation, CanBeCancelledButNotChanged) {
  const KindInfo& kind = kind_info(static_cast<const Operation*>(nullptr));
  Operation before;
  before.spec.type = OperationType::live_migrate;
  before.spec.target.name = "vm1";
  Operation after = before;
  after.spec.cancel_requested = true;
  EXPECT_THAT(kind.validate_update(encode(before), encode(after)), IsEmpty());
  EXPECT_THAT(fields(kind.validate_update(encode(after), encode(before))),
              ElementsAre("spec.cancelRequested"));
  after.spec.type = OperationType::evacuate;
  EXPECT_THAT(fields(kind.validate_update(encode(before), encode(after))), ElementsAre("spec.type"));
  before.status.phase = OperationPhase::failed;
  after = before;
  after.status.phase = OperationPhase::running;
  EXPECT_THAT(fields(kind.validate_update(encode(before), encode(after))), ElementsAre("status.phase"));
}

}  // namespace
}  // namespace moor::model::mooring
