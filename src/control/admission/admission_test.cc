// Who may write what.
#include "control/admission/admission.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "control/testing/stage.h"
#include "model/longhorn/setting.h"

namespace moor::control {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Admissions : public testing::Test {
 protected:
  std::string refusal(const registry::Answer<registry::Written>& answer) {
    return answer ? "" : answer.error().error.message;
  }
  template <class T>
  std::string try_update(const Object<T>& before, const T& after, const registry::Identity& who,
                         std::string_view subresource = "") {
    Json object = *before.json;
    model::encode_onto(object, after);
    return refusal(stage_.write(kind_of<T>(), object, subresource, who));
  }
  const registry::Identity admin_{"admin", {}, ""};
  const registry::Identity node_1_{"system:node:node-1", {}, "node-1"};
  const registry::Identity node_2_{"system:node:node-2", {}, "node-2"};
  Stage stage_;
};

TEST_F(Admissions, PeopleDoNotSetTheNodeOfAVolume) {
  stage_.create_volume("v1");
  const auto volume = stage_.get<lh::Volume>("v1");
  lh::Volume next = *volume;
  next.spec.node_id = "node-1";
  EXPECT_THAT(try_update(volume, next, admin_), HasSubstr("ask with a ticket"));
  next = *volume;
  next.spec.disable_frontend = true;
  EXPECT_THAT(try_update(volume, next, admin_), HasSubstr("disableFrontend"));
  next = *volume;
  next.spec.number_of_replicas = 2;
  EXPECT_THAT(try_update(volume, next, admin_), IsEmpty());
}

TEST_F(Admissions, ANewVolumeHasItsLabelAndFinalizer) {
  stage_.create_volume("v1");
  const auto volume = stage_.get<lh::Volume>("v1");
  EXPECT_EQ(volume->metadata.labels.at("longhornvolume"), "v1");
  EXPECT_TRUE(volume->metadata.has_finalizer(lh::kFinalizer));
}

TEST_F(Admissions, TicketsAreNumberedByTheServer) {
  stage_.create_volume("v1");
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1", R"(,"generation":77)");
  const auto ticket = stage_.get<lh::VolumeAttachment>("v1")->spec.attachment_tickets.at("a");
  EXPECT_EQ(ticket.generation, 0);
  EXPECT_TRUE(ticket.requested_at);
}

TEST_F(Admissions, AMigratableVolumeHasAtMostTwoCsiTickets) {
  stage_.create_volume("v1", R"("size":"1073741824","accessMode":"rwx","migratable":true)");
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1");
  ASSERT_TRUE(stage_.is_satisfied("v1", "a"));
  stage_.add_ticket("v1", "b", "csi-attacher", "node-2");
  const auto book = stage_.get<lh::VolumeAttachment>("v1");
  lh::VolumeAttachment next = *book;
  next.spec.attachment_tickets["c"] = next.spec.attachment_tickets["b"];
  next.spec.attachment_tickets["c"].id = "c";
  next.spec.attachment_tickets["c"].node_id = "node-3";
  EXPECT_THAT(try_update(book, next, admin_), HasSubstr("two"));
}

TEST_F(Admissions, OnlyTheAgentOfTheActiveEngineChangesMembers) {
  stage_.create_volume("v1");
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1");
  const auto grant = stage_.get<mr::Grant>("v1");
  mr::Grant next = *grant;
  next.spec.members["v1-r-3"] = mr::MemberMode::err;
  ++next.spec.generation;
  EXPECT_NE(try_update(grant, next, node_2_), "");
  EXPECT_NE(try_update(grant, next, admin_), "");
  EXPECT_NE(try_update(grant, next, {}), "") << "not the controller either, while an engine is active";
  mr::Grant more = next;
  more.spec.epoch = 9;
  EXPECT_NE(try_update(grant, more, node_1_), "");
  EXPECT_EQ(try_update(grant, next, node_1_), "");
}

TEST_F(Admissions, AnAgentOfAnEarlierLifeChangesNothing) {
  stage_.create_volume("v1");
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1");
  stage_.stop_controllers();
  const auto node = stage_.get<lh::Node>("node-1");
  lh::Node reborn = *node;
  reborn.status.incarnation = 2;
  ASSERT_TRUE(stage_.update(node, reborn, "status", node_1_));
  const auto grant = stage_.get<mr::Grant>("v1");
  mr::Grant next = *grant;
  next.spec.members["v1-r-3"] = mr::MemberMode::err;
  ++next.spec.generation;
  EXPECT_THAT(try_update(grant, next, node_1_), HasSubstr("incarnation"));
}

TEST_F(Admissions, APersonReleasesAnEngineOnlyByANamedOverride) {
  stage_.create_volume("v1");
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1");
  const auto grant = stage_.get<mr::Grant>("v1");
  mr::Grant next = *grant;
  next.spec.active.reset();
  EXPECT_NE(try_update(grant, next, admin_), "");
  mr::ReleaseProof proof;
  proof.type = mr::ProofType::override_by_operator;
  proof.holder = *grant->spec.active;
  proof.by = "admin";
  proof.message = "the machine was taken out of the rack";
  next.spec.proofs.push_back(proof);
  EXPECT_EQ(try_update(grant, next, admin_), "");
}

TEST_F(Admissions, TheTokenOfAVolumeIsFilledInOnceAndStays) {
  stage_.create_volume("v1");
  const auto secret = stage_.get<model::core::Secret>("v1-token", "longhorn-system");
  ASSERT_TRUE(secret);
  EXPECT_EQ(model::core::from_base64(secret->data.at("token"))->size(), 32u);
  model::core::Secret next = *secret;
  next.data["token"] = model::core::to_base64("another");
  EXPECT_THAT(try_update(secret, next, admin_), HasSubstr("never changes"));
  stage_.create_volume("v2");
  EXPECT_NE(stage_.get<model::core::Secret>("v2-token", "longhorn-system")->data.at("token"),
            secret->data.at("token"));
}

TEST_F(Admissions, SettingsHaveValidValues) {
  const auto setting = [](const char* name, const char* value) {
    return *parse_json(fmt::format(
        R"({{"metadata":{{"name":"{}","namespace":"longhorn-system"}},"value":"{}"}})", name, value));
  };
  EXPECT_NE(refusal(stage_.write(kind_of<lh::Setting>(), setting("node-attach-limit", "many"), "", admin_)),
            "");
  EXPECT_NE(refusal(stage_.write(kind_of<lh::Setting>(), setting("no-such-setting", "1"), "", admin_)), "");
  EXPECT_EQ(refusal(stage_.write(kind_of<lh::Setting>(), setting("node-attach-limit", "3"), "", admin_)), "");
}

TEST_F(Admissions, WhatHoldsDataIsNotDeletedByHand) {
  stage_.create_volume("v1");
  const auto try_remove = [&](const model::KindInfo& kind, const std::string& name) {
    return stage_.try_remove(kind, name, admin_);
  };
  EXPECT_THAT(try_remove(kind_of<mr::Grant>(), "v1"), HasSubstr("as long as its volume"));
  EXPECT_THAT(try_remove(kind_of<lh::Replica>(), "v1-r-1"), HasSubstr("in step"));
  EXPECT_THAT(try_remove(kind_of<model::core::Secret>(), "v1-token"), HasSubstr("as long as the volume"));
  EXPECT_THAT(try_remove(kind_of<mr::Ledger>(), "node-1"), HasSubstr("node still exists"));
  stage_.add_ticket("v1", "a", "csi-attacher", "node-1");
  EXPECT_THAT(try_remove(kind_of<lh::Engine>(), "v1-e"), HasSubstr("detach the volume first"));
}

}  // namespace
}  // namespace moor::control
