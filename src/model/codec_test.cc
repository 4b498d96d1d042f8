#include "model/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/coordination/lease.h"
#include "model/core/event.h"
#include "model/core/namespace.h"
#include "model/core/node.h"
#include "model/core/persistent_volume.h"
#include "model/core/persistent_volume_claim.h"
#include "model/core/pod.h"
#include "model/core/secret.h"
#include "model/kinds.h"
#include "model/longhorn/backing_image.h"
#include "model/longhorn/backup.h"
#include "model/longhorn/backup_target.h"
#include "model/longhorn/backup_volume.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/recurring_job.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/setting.h"
#include "model/longhorn/share_manager.h"
#include "model/longhorn/snapshot.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"
#include "model/mooring/instance.h"
#include "model/mooring/ledger.h"
#include "model/mooring/operation.h"
#include "model/sample_for_test.h"
#include "model/snapshot/volume_snapshot.h"
#include "model/snapshot/volume_snapshot_class.h"
#include "model/snapshot/volume_snapshot_content.h"
#include "model/storage/csi_driver.h"
#include "model/storage/csi_node.h"
#include "model/storage/storage_class.h"
#include "model/storage/volume_attachment.h"

namespace moor::model {
namespace {

std::set<std::string> seen_kinds;

template <class T>
void round_trip() {
  const KindInfo& kind = kind_info(static_cast<const T*>(nullptr));
  seen_kinds.insert(kind.api_version() + "/" + std::string(kind.kind));
  const Json sample = sample_object(kind);
  const auto value = decode<T>(sample);
  ASSERT_TRUE(value.ok()) << kind.kind << ": " << value.error().message;
  EXPECT_EQ(encode(*value), sample) << kind.kind << "\n"
                                    << to_text(encode(*value)) << "\n"
                                    << to_text(sample);
  // Writing an unchanged value into what was read changes nothing, whatever is absent there.
  Json minimal =
      Json::object({{"apiVersion", kind.api_version()}, {"kind", kind.kind}, {"spec", Json::object()}});
  if (kind.schema->find("spec") == nullptr) minimal.erase("spec");
  const Json before = minimal;
  const auto small = decode<T>(minimal);
  ASSERT_TRUE(small.ok()) << kind.kind;
  encode_onto(minimal, *small);
  minimal.erase("metadata");
  EXPECT_EQ(minimal, before) << kind.kind << " " << to_text(minimal);
}

template <class... T>
void round_trips() {
  (round_trip<T>(), ...);
}

TEST(Codec, EveryKindSurvivesDecodingAndEncoding) {
  round_trips<core::Namespace, core::Node, core::Pod, core::PersistentVolume, core::PersistentVolumeClaim,
              core::Event, core::Secret>();
  round_trips<storage::StorageClass, storage::VolumeAttachment, storage::CSINode, storage::CSIDriver,
              coordination::Lease>();
  round_trips<snapshot::VolumeSnapshot, snapshot::VolumeSnapshotContent, snapshot::VolumeSnapshotClass>();
  round_trips<longhorn::Volume, longhorn::VolumeAttachment, longhorn::Engine, longhorn::Replica,
              longhorn::Snapshot, longhorn::Node, longhorn::Backup, longhorn::BackupVolume,
              longhorn::BackupTarget, longhorn::RecurringJob, longhorn::ShareManager, longhorn::BackingImage,
              longhorn::Setting>();
  round_trips<mooring::Grant, mooring::Ledger, mooring::Instance, mooring::Operation>();
  for (const KindInfo* kind : all_kinds())
    EXPECT_TRUE(seen_kinds.contains(kind->api_version() + "/" + std::string(kind->kind))) << kind->kind;
}

TEST(Codec, ZeroFieldsAreWrittenAsLonghornDoes) {
  const Json json = encode(longhorn::AttachmentTicketStatus{});
  EXPECT_EQ(to_text(json), R"({"id":"","satisfied":false,"conditions":[],"generation":0})");
  const Json ticket = encode(longhorn::AttachmentTicket{});
  EXPECT_EQ(to_text(ticket), R"({"id":"","type":"","nodeID":"","parameters":{},"generation":0})");
}

TEST(Codec, SizesTravelAsStringsAndAreReadFromNumbersToo) {
  const auto as_text = decode<longhorn::Volume>(*parse_json(R"({"spec":{"size":"1073741824"}})"));
  const auto as_number = decode<longhorn::Volume>(*parse_json(R"({"spec":{"size":1073741824}})"));
  ASSERT_TRUE(as_text.ok() && as_number.ok());
  EXPECT_EQ(as_text->spec.size, 1073741824);
  EXPECT_EQ(as_number->spec.size, 1073741824);
  EXPECT_EQ(encode(as_number->spec).find("size")->as_string(), "1073741824");
}

TEST(Codec, AReadModifyWriteShowsExactlyWhatWasMeant) {
  const Json before = *parse_json(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume",
    "metadata":{"name":"v1","creationTimestamp":"2026-01-02T03:04:05.250Z"},
    "spec":{"size":"1024","disableFrontend":false},"status":{"state":"detached","future":{"kept":1}}})");
  Json after = before;
  auto volume = decode<longhorn::Volume>(before);
  ASSERT_TRUE(volume.ok());
  volume->spec.node_id = "node-1";
  encode_onto(after, *volume);
  Json expected = before;
  expected["spec"].set("nodeID", "node-1");
  EXPECT_EQ(after, expected) << to_text(after);

  volume->spec.node_id.clear();
  volume->status.state = longhorn::VolumeState::attached;
  encode_onto(after, *volume);
  expected["spec"].set("nodeID", "");
  expected["status"].set("state", "attached");
  EXPECT_EQ(after, expected) << to_text(after);
}

TEST(Codec, EntriesThatLeaveAMapLeaveTheJson) {
  Json json = *parse_json(R"({"spec":{"volume":"v1","attachmentTickets":{
    "a":{"id":"a","nodeID":"n1"},"b":{"id":"b","type":"csi-attacher"}}}})");
  auto book = decode<longhorn::VolumeAttachment>(json);
  ASSERT_TRUE(book.ok());
  book->spec.attachment_tickets.erase("a");
  book->spec.attachment_tickets["b"].generation = 3;
  encode_onto(json, *book);
  EXPECT_EQ(
      *json.find("spec"),
      *parse_json(
          R"({"volume":"v1","attachmentTickets":{"b":{"id":"b","type":"csi-attacher","generation":3}}})"));
}

TEST(Codec, WhatKubernetesKnowsAndWeDoNotIsKept) {
  Json json = *parse_json(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
    "spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}],"affinity":{"x":1}}})");
  auto pod = decode<core::Pod>(json);
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(encode(*pod), json);
  pod->spec.extra.erase("affinity");
  encode_onto(json, *pod);
  EXPECT_EQ(json.find_path({"spec", "affinity"}), nullptr);
}

TEST(Codec, AWrongTypeIsRefusedWithItsPath) {
  const struct {
    const char* json;
    const char* says;
  } cases[] = {
      {R"({"spec":{"numberOfReplicas":"3"}})", "spec.numberOfReplicas: must be of type integer, not string"},
      {R"({"spec":{"numberOfReplicas":5000000000}})", "spec.numberOfReplicas: 5000000000 does not fit"},
      {R"({"spec":{"size":"ten"}})", "spec.size: must be a string that holds a whole number"},
      {R"({"spec":{"nodeSelector":["a",1]}})", "spec.nodeSelector[1]: must be of type string, not integer"},
      {R"({"status":{"conditions":[{"type":"X","status":"Maybe"}]}})",
       "status.conditions[0].status: \"Maybe\" is not one"},
      {R"({"spec":[]})", "spec: must be of type object, not array"},
      {R"({"metadata":{"creationTimestamp":"yesterday"}})",
       "metadata.creationTimestamp: \"yesterday\" is no RFC 3339"},
      {R"({"kind":"Engine"})", "is a Engine of ?, not a Volume of longhorn.io/v1beta2"},
  };
  for (const auto& one : cases) {
    const auto value = decode<longhorn::Volume>(*parse_json(one.json));
    ASSERT_TRUE(value.is(Errc::invalid)) << one.json;
    EXPECT_THAT(value.error().message, testing::StartsWith(one.says));
  }
}

TEST(Codec, NullMeansTheZeroValue) {
  const auto volume = decode<longhorn::Volume>(*parse_json(
      R"({"metadata":null,"spec":{"size":null,"nodeID":null,"diskSelector":null,"accessMode":null},"status":null})"));
  ASSERT_TRUE(volume.ok());
  EXPECT_EQ(volume->spec.size, 0);
  EXPECT_EQ(volume->spec.access_mode, longhorn::AccessMode::none);
}

}  // namespace
}  // namespace moor::model
