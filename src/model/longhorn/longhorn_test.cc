// The rules that live beside Longhorn's kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/kinds.h"
#include "model/longhorn/backing_image.h"
#include "model/longhorn/node.h"
#include "model/longhorn/recurring_job.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/snapshot.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::model::longhorn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> fields(const Causes& causes) {
  std::vector<std::string> list;
  for (const Cause& cause : causes) list.push_back(cause.field);
  return list;
}

TEST(Volume, TheRulesOfUseDoNotChangeUnderAUser) {
  Volume before;
  before.spec.access_mode = AccessMode::rwo;
  Volume after = before;
  after.spec.access_mode = AccessMode::rwx;
  EXPECT_THAT(validate_volume_update(before, after), IsEmpty());
  before.status.state = VolumeState::attached;
  EXPECT_THAT(fields(validate_volume_update(before, after)), ElementsAre("spec.accessMode"));
}

TEST(Volume, ASourceOnceChosenStays) {
  Volume before;
  Volume after;
  after.spec.from_backup = "s3://b";
  EXPECT_THAT(validate_volume_update(before, after), IsEmpty());
  EXPECT_THAT(fields(validate_volume_update(after, before)), ElementsAre("spec.fromBackup"));
}

TEST(Volume, StrictLocalMeansOneReplicaAndOneNode) {
  Volume volume;
  volume.spec.data_locality = DataLocality::strict_local;
  volume.spec.number_of_replicas = 1;
  volume.spec.access_mode = AccessMode::rwo;
  EXPECT_THAT(validate_volume(volume), IsEmpty());
  volume.spec.number_of_replicas = 2;
  volume.spec.access_mode = AccessMode::rwx;
  EXPECT_EQ(validate_volume(volume).size(), 2u);
}

VolumeAttachment book_with(AttachmentTicket ticket) {
  VolumeAttachment book;
  book.spec.volume = "v1";
  const std::string id = ticket.id;
  book.spec.attachment_tickets[id] = std::move(ticket);
  return book;
}

TEST(Tickets, TheKeyIsTheId) {
  VolumeAttachment book = book_with({.id = "a", .type = "csi-attacher", .node_id = "node-1"});
  EXPECT_THAT(validate_volume_attachment(book), IsEmpty());
  book.spec.attachment_tickets["b"].id = "c";
  book.spec.attachment_tickets["a"].parameters["disableFrontend"] = "maybe";
  EXPECT_THAT(
      fields(validate_volume_attachment(book)),
      ElementsAre("spec.attachmentTickets[a].parameters[disableFrontend]", "spec.attachmentTickets[b].id"));
}

TEST(Tickets, AnEmptyIdIsAnIdToo) {
  EXPECT_THAT(validate_volume_attachment(book_with({.id = "", .type = "longhorn-api"})), IsEmpty());
}

TEST(Tickets, VolumeLabelAndOwnerStay) {
  VolumeAttachment before = book_with({.id = "a"});
  before.metadata.labels["longhornvolume"] = "v1";
  before.metadata.owner_references.push_back({"longhorn.io/v1beta2", "Volume", "v1", "uid-1", {}, {}});
  VolumeAttachment after = before;
  after.metadata.labels["other"] = "x";
  EXPECT_THAT(validate_volume_attachment_update(before, after), IsEmpty());
  after.metadata.labels["longhornvolume"] = "v2";
  after.metadata.owner_references.clear();
  EXPECT_THAT(fields(validate_volume_attachment_update(before, after)),
              ElementsAre("metadata.labels[longhornvolume]", "metadata.ownerReferences"));
  // spec.volume is immutable by its description.
  const KindInfo& kind = kind_info(static_cast<const VolumeAttachment*>(nullptr));
  VolumeAttachment moved = before;
  moved.spec.volume = "v2";
  EXPECT_THAT(fields(kind.validate_update(encode(before), encode(moved))), ElementsAre("spec.volume"));
}

TEST(Tickets, GenerationsCountChangesWhateverTheSenderSays) {
  const Time first{std::chrono::seconds{100}};
  const Time later{std::chrono::seconds{200}};
  VolumeAttachmentSpec before;
  VolumeAttachmentSpec spec = book_with({.id = "a", .node_id = "node-1", .generation = 77}).spec;
  number_tickets(before, spec, first);
  EXPECT_EQ(spec.attachment_tickets["a"].generation, 0);
  EXPECT_EQ(spec.attachment_tickets["a"].requested_at->at, first);

  before = spec;
  spec.attachment_tickets["a"].generation = 5;
  spec.attachment_tickets["a"].requested_at.reset();
  number_tickets(before, spec, later);
  EXPECT_EQ(spec.attachment_tickets["a"], before.attachment_tickets["a"])
      << "nothing that was wanted has changed";

  spec.attachment_tickets["a"].node_id = "node-2";
  spec.attachment_tickets["b"].id = "b";
  number_tickets(before, spec, later);
  EXPECT_EQ(spec.attachment_tickets["a"].generation, 1);
  EXPECT_EQ(spec.attachment_tickets["a"].requested_at->at, first)
      << "a change of node keeps its place in the queue";
  EXPECT_EQ(spec.attachment_tickets["b"].requested_at->at, later);
}

TEST(Tickets, OneThatComesBackUnderAnOldIdIsNotTakenForTheOneThatLeft) {
  VolumeAttachmentStatus seen;
  seen.attachment_ticket_statuses["a"] = {.id = "a", .satisfied = true, .generation = 4};
  VolumeAttachmentSpec spec = book_with({.id = "a", .node_id = "node-2"}).spec;
  number_tickets(VolumeAttachmentSpec{}, spec, Time{}, seen);
  EXPECT_EQ(spec.attachment_tickets["a"].generation, 5);
}

TEST(Tickets, TheGoStructsOfTheSeedReadFieldByField) {
  const auto book =
      decode<VolumeAttachment>(*parse_json(R"({"metadata":{"name":"v1","finalizers":["longhorn.io"],
    "labels":{"longhornvolume":"v1"}},
    "spec":{"volume":"v1","attachmentTickets":{"csi-1":{"id":"csi-1","type":"csi-attacher","nodeID":"node-1",
      "parameters":{"disableFrontend":"false","lastAttachedBy":"me"},"generation":2}}},
    "status":{"attachmentTicketStatuses":{"csi-1":{"id":"csi-1","satisfied":true,"generation":2,
      "conditions":[{"type":"Satisfied","status":"True","reason":"","message":"","lastProbeTime":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}}})"));
  ASSERT_TRUE(book.ok()) << book.error().message;
  const AttachmentTicket& ticket = book->spec.attachment_tickets.at("csi-1");
  EXPECT_EQ(ticket.type, attacher::kCsi);
  EXPECT_EQ(ticket.parameters.at("disableFrontend"), "false");
  const AttachmentTicketStatus& status = book->status.attachment_ticket_statuses.at("csi-1");
  EXPECT_TRUE(status.satisfied);
  EXPECT_TRUE(is_condition_true(status.conditions, kConditionSatisfied));
  EXPECT_TRUE(book->metadata.has_finalizer(kFinalizer));
}

TEST(Snapshots, SpecAndVolumeLabelStayWhileOtherLabelsMayChange) {
  const KindInfo& kind = kind_info(static_cast<const Snapshot*>(nullptr));
  const Json before = *parse_json(R"({"metadata":{"name":"s1","labels":{"longhornvolume":"v1","a":"1"}},
    "spec":{"volume":"v1","createSnapshot":true,"labels":{"k":"v"}}})");
  const auto changed = [&](std::initializer_list<std::string_view> at, std::string_view key, Json value) {
    Json after = before;
    Json* place = &after;
    for (const std::string_view part : at) place = &(*place)[part];
    place->set(key, std::move(value));
    return fields(kind.validate_update(before, after));
  };
  EXPECT_THAT(changed({"metadata", "labels"}, "a", "2"), IsEmpty());
  EXPECT_THAT(changed({"metadata", "labels"}, "longhornvolume", "v2"),
              ElementsAre("metadata.labels[longhornvolume]"));
  EXPECT_THAT(changed({"spec"}, "volume", "v2"), ElementsAre("spec.volume"));
  EXPECT_THAT(changed({"spec"}, "createSnapshot", false), ElementsAre("spec.createSnapshot"));
  EXPECT_THAT(changed({"spec", "labels"}, "k", "w"), ElementsAre("spec.labels"));
}

TEST(Snapshots, OnlyValidLabelsAreSelectable) {
  SnapshotSpec spec;
  spec.labels = {{"ok", "v"}, {"bad key", "v"}, {"k", "not a value!"}};
  EXPECT_THAT(selectable_labels(spec), ElementsAre(testing::Pair("ok", "v")));
}

TEST(Nodes, TwoDisksNeverShareAPath) {
  Node node;
  node.metadata.name = "node-1";
  node.spec.disks["a"].path = "/data";
  node.spec.disks["b"].path = "/data";
  node.spec.disks["c"];
  EXPECT_THAT(fields(validate_node(node)), ElementsAre("spec.disks[b].path", "spec.disks[c].path"));
}

TEST(RecurringJobs, NeedATaskAndASchedule) {
  RecurringJob job;
  job.spec.task = RecurringTask::backup;
  for (const char* cron : {"0 * * * *", "*/5 1-3 * JAN mon,tue", "@daily", "@every 1h"}) {
    job.spec.cron = cron;
    EXPECT_THAT(validate_recurring_job(job), IsEmpty()) << cron;
  }
  for (const char* cron : {"", "* * * *", "* * * * * *", "@sometimes", "0 * * * $"}) {
    job.spec.cron = cron;
    EXPECT_THAT(fields(validate_recurring_job(job)), ElementsAre("spec.cron")) << cron;
  }
}

TEST(BackingImages, ASourceNeedsItsParameter) {
  BackingImage image;
  image.spec.source_type = BackingImageSource::download;
  EXPECT_THAT(fields(validate_backing_image(image)), ElementsAre("spec.sourceParameters[url]"));
  image.spec.source_parameters["url"] = "http://x/y";
  EXPECT_THAT(validate_backing_image(image), IsEmpty());
}

TEST(Conditions, TheTransitionTimeMovesOnlyWithTheStatus) {
  std::vector<Condition> conditions;
  const Time first{std::chrono::seconds{100}};
  const Time later{std::chrono::seconds{200}};
  EXPECT_TRUE(
      set_condition(conditions, {.type = "Satisfied", .status = ConditionStatus::no, .reason = "A"}, first));
  EXPECT_FALSE(
      set_condition(conditions, {.type = "Satisfied", .status = ConditionStatus::no, .reason = "A"}, later));
  EXPECT_TRUE(
      set_condition(conditions, {.type = "Satisfied", .status = ConditionStatus::no, .reason = "B"}, later));
  EXPECT_EQ(conditions[0].last_transition_time, format_rfc3339(first));
  EXPECT_TRUE(set_condition(conditions, {.type = "Satisfied", .status = ConditionStatus::yes}, later));
  EXPECT_EQ(conditions[0].last_transition_time, format_rfc3339(later));
  EXPECT_EQ(conditions.size(), 1u);
}

TEST(Instances, LeaveOutWhatIsZeroButForWhatComesAndGoesWithTheProcess) {
  Replica replica;
  replica.spec.volume_name = "v";
  EXPECT_EQ(to_text(*encode(replica).find("spec")), R"({"volumeName":"v","nodeID":"","desireState":""})");
  Json json = encode(replica);
  replica.status.port = 10000;
  replica.spec.failed_at = "2026-01-01T00:00:00Z";
  encode_onto(json, replica);
  replica.status.port = 0;
  replica.spec.failed_at.clear();
  encode_onto(json, replica);
  EXPECT_EQ(*json.find_path({"status", "port"}), Json(0));
  EXPECT_EQ(json.find_path({"spec", "failedAt"}), nullptr);
}

}  // namespace
}  // namespace moor::model::longhorn
