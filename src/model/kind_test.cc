#include "model/kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_share.h"
#include "model/kinds.h"
#include "model/meta/status.h"
#include "model/names.h"
#include "model/sample_for_test.h"

namespace moor::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const KindInfo& kind_of(std::string_view group, std::string_view version, std::string_view resource) {
  const KindInfo* kind = find_kind(group, version, resource);
  EXPECT_NE(kind, nullptr) << resource;
  return *kind;
}

const KindInfo& volumes() {
  return kind_of("longhorn.io", "v1beta2", "volumes");
}

Json volume(std::string_view spec) {
  Json json = *parse_json(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"v1"}})");
  json.set("spec", *parse_json(spec));
  return json;
}

// "reason field: message" of each cause.
std::vector<std::string> texts(const Causes& causes) {
  std::vector<std::string> list;
  for (const Cause& cause : causes) list.push_back(cause.reason + " " + cause.field + ": " + cause.message);
  return list;
}

TEST(Kinds, AreFoundByResourceAndByName) {
  EXPECT_EQ(all_kinds().size(), 32u);
  EXPECT_EQ(find_kind("", "v1", "nodes")->kind, "Node");
  EXPECT_EQ(find_kind("longhorn.io", "v1beta2", "nodes")->short_names.front(), "lhn");
  EXPECT_EQ(find_kind_by_name("storage.k8s.io/v1", "VolumeAttachment")->namespaced, false);
  EXPECT_EQ(find_kind_by_name("v1", "Pod")->plural, "pods");
  EXPECT_EQ(find_kind("longhorn.io", "v1", "volumes"), nullptr);
  EXPECT_EQ(find_kind_by_name("v1", "Volume"), nullptr);
}

TEST(Kinds, CoreAndStorageComeBeforeLonghorn) {
  std::vector<std::string_view> groups;
  for (const GroupVersion& version : all_group_versions()) groups.push_back(version.group);
  EXPECT_THAT(groups, ElementsAre("", "storage.k8s.io", "coordination.k8s.io", "snapshot.storage.k8s.io",
                                  "longhorn.io", "mooring.io"));
}

TEST(Kinds, WhatIsSharedWithTheVersionBeforeIsNotCheckedAgain) {
  Json before = volume(R"({"size":"67108864","numberOfReplicas":"three"})");
  settle(before);
  EXPECT_FALSE(volumes().validate(before).empty());
  Json after = before;
  after.set("status", *parse_json(R"({"state":"attached"})"));
  EXPECT_TRUE(is_shared(*std::as_const(before).find("spec"), *std::as_const(after).find("spec")));
  for (const std::string& text : texts(volumes().validate(after, &before)))
    EXPECT_THAT(text, testing::Not(HasSubstr("FieldValueTypeInvalid"))) << text;
  after.set("status", *parse_json(R"({"state":"somewhere"})"));
  EXPECT_THAT(texts(volumes().validate(after, &before)), testing::Contains(HasSubstr("status.state")));
  // Written anew, it is looked at again, however equal.
  after.set("spec", *parse_json(R"({"size":"67108864","numberOfReplicas":"three"})"));
  EXPECT_THAT(texts(volumes().validate(after, &before)),
              testing::Contains(HasSubstr("spec.numberOfReplicas")));
}

TEST(Kinds, EveryDescriptionReadsWell) {
  std::set<std::string> short_names;
  for (const KindInfo* kind : all_kinds()) {
    EXPECT_FALSE(kind->schema->description.empty()) << kind->kind;
    EXPECT_EQ(kind->schema->kind, kind->kind);
    EXPECT_EQ(kind->schema->api_version, kind->api_version());
    EXPECT_EQ(kind->has_status, kind->schema->find("status") != nullptr) << kind->kind;
    for (const std::string_view name : kind->short_names)
      EXPECT_TRUE(short_names.insert(std::string(name)).second) << name << " is a short name of two kinds";
    for (const FieldSchema& field : kind->schema->fields)
      EXPECT_FALSE(field.description.empty()) << field.name;
  }
}

TEST(Fields, UnknownOnesAreReportedWithTheirPathAndPruned) {
  Json json = volume(R"({"size":"1","foo":1,"Size":"2"})");
  json.set("status", *parse_json(R"({"conditions":[{"type":"A","x":1}],"cloneStatus":{"y":2}})"));
  json["metadata"].set("color", "red");
  json.set("extra", 1);
  EXPECT_THAT(volumes().unknown_fields(json),
              ElementsAre("metadata.color", "spec.foo", "spec.Size", "status.conditions[0].x",
                          "status.cloneStatus.y", "extra"));
  EXPECT_EQ(unknown_field_message("spec.foo"), "unknown field \"spec.foo\"");
  EXPECT_EQ(duplicate_field_message("spec.foo"), "duplicate field \"spec.foo\"");
  volumes().prune(json);
  EXPECT_THAT(volumes().unknown_fields(json), IsEmpty());
  EXPECT_EQ(to_text(*json.find("spec")), R"({"size":"1"})");
}

TEST(Fields, UnknownOnesInsideMapsAreFound) {
  const KindInfo& kind = kind_of("longhorn.io", "v1beta2", "volumeattachments");
  const Json json = *parse_json(R"({"spec":{"volume":"v","attachmentTickets":{"t":{"id":"t","node":"n"}}}})");
  EXPECT_THAT(kind.unknown_fields(json), ElementsAre("spec.attachmentTickets.t.node"));
}

TEST(Fields, OnesThatKubernetesKnowsAreNeitherReportedNorPruned) {
  const KindInfo& pods = kind_of("", "v1", "pods");
  Json json =
      *parse_json(R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","env":[]}],"affinity":{}}})");
  const Json before = json;
  EXPECT_THAT(pods.unknown_fields(json), IsEmpty());
  pods.prune(json);
  EXPECT_EQ(json, before);
}

TEST(Fields, SamplesHaveNothingUnknown) {
  for (const KindInfo* kind : all_kinds())
    EXPECT_THAT(kind->unknown_fields(sample_object(*kind)), IsEmpty()) << kind->kind;
}

TEST(Defaults, FillWhatIsAbsentAndLeaveWhatIsThere) {
  Json json = *parse_json(
      R"({"metadata":{"name":"v1"},"spec":{"numberOfReplicas":2,"accessMode":null,"size":1024}})");
  volumes().set_defaults(json);
  const Json& spec = *json.find("spec");
  EXPECT_EQ(spec.get_int64("numberOfReplicas"), 2);
  EXPECT_EQ(spec.get_string("accessMode"), "rwo");
  EXPECT_EQ(spec.get_string("dataEngine"), "v1");
  EXPECT_EQ(spec.get_string("size"), "1024") << "a number becomes the string that is stored";
  EXPECT_EQ(json.find("status"), nullptr);

  Json bare = *parse_json(R"({"metadata":{"name":"v2"}})");
  volumes().set_defaults(bare);
  EXPECT_EQ(bare.find("spec")->get_int64("numberOfReplicas"), 3);
  const Json once = bare;
  volumes().set_defaults(bare);
  EXPECT_EQ(bare, once) << "twice equals once";
}

TEST(Defaults, ReachIntoListsAndMaps) {
  const KindInfo& nodes = kind_of("longhorn.io", "v1beta2", "nodes");
  Json json = *parse_json(R"({"spec":{"disks":{"d":{"path":"/a"}}}})");
  nodes.set_defaults(json);
  EXPECT_EQ(json.find_path({"spec", "disks", "d"})->get_string("diskType"), "filesystem");
  const KindInfo& instances = kind_of("mooring.io", "v1alpha1", "instances");
  Json vm = *parse_json(R"({"spec":{"blockDevices":[{"volume":"v"}]}})");
  instances.set_defaults(vm);
  EXPECT_EQ(vm.find_path({"spec", "blockDevices"})->at(0).get_string("bus"), "virtio");
}

TEST(Defaults, TheStorageClassOfTheLiveMigrationPageIsTakenAsPrinted) {
  const KindInfo& classes = kind_of("storage.k8s.io", "v1", "storageclasses");
  Json json = *parse_json(R"({"kind":"StorageClass","apiVersion":"storage.k8s.io/v1",
    "metadata":{"name":"longhorn-migratable"},"provisioner":"driver.longhorn.io","allowVolumeExpansion":true,
    "parameters":{"numberOfReplicas":"3","staleReplicaTimeout":"2880","fromBackup":"","migratable":"true"}})");
  classes.set_defaults(json);
  EXPECT_THAT(texts(classes.validate(json)), IsEmpty());
  EXPECT_THAT(classes.unknown_fields(json), IsEmpty());
  EXPECT_EQ(json.get_string("reclaimPolicy"), "Delete");
  EXPECT_EQ(json.get_string("volumeBindingMode"), "Immediate");
}

TEST(Validation, NamesEachCauseWithItsReason) {
  const struct {
    const char* spec;
    std::vector<std::string> causes;
  } cases[] = {
      {R"({"size":"1"})", {}},
      {R"({"size":1})", {}},
      {R"({"size":"-1"})", {"FieldValueInvalid spec.size: Invalid value: -1: must be at least 0"}},
      {R"({"size":"1Gi"})",
       {"FieldValueInvalid spec.size: Invalid value: \"1Gi\": must be a whole number of at most 63 bits, "
        "written as a string"}},
      {R"({"size":true})", {"FieldValueTypeInvalid spec.size: Invalid value: true: must be of type string"}},
      {R"({"numberOfReplicas":"3"})",
       {"FieldValueTypeInvalid spec.numberOfReplicas: Invalid value: \"3\": must be of type integer"}},
      {R"({"numberOfReplicas":21})",
       {"FieldValueInvalid spec.numberOfReplicas: Invalid value: 21: must be at most 20"}},
      {R"({"numberOfReplicas":3000000000})",
       {"FieldValueInvalid spec.numberOfReplicas: Invalid value: 3000000000: must fit 32 bits"}},
      {R"({"dataLocality":"near"})",
       {"FieldValueNotSupported spec.dataLocality: Unsupported value: \"near\": supported values: \"\", "
        "\"disabled\", \"best-effort\", \"strict-local\""}},
      {R"({"nodeSelector":"a"})",
       {"FieldValueTypeInvalid spec.nodeSelector: Invalid value: \"a\": must be of type array"}},
      {R"({"nodeSelector":["a",{}]})",
       {"FieldValueTypeInvalid spec.nodeSelector[1]: Invalid value: {}: must be of type string"}},
      {R"({"migratable":true,"accessMode":"rwo"})",
       {"FieldValueInvalid spec.migratable: Invalid value: true: a migratable volume needs accessMode rwx"}},
      {R"({"migratable":true,"accessMode":"rwop"})",
       {"FieldValueInvalid spec.migratable: Invalid value: true: a migratable volume needs accessMode rwx"}},
      {R"({"migratable":true,"accessMode":"rox"})",
       {"FieldValueInvalid spec.migratable: Invalid value: true: a migratable volume needs accessMode rwx"}},
      {R"({"migratable":true,"accessMode":"rwx","frontend":"iscsi"})",
       {"FieldValueInvalid spec.migratable: Invalid value: true: a migratable volume needs the frontend "
        "blockdev"}},
      {R"({"migratable":true,"accessMode":"rwx"})", {}},
      {R"({"migratable":true,"accessMode":"rwx","frontend":"blockdev","encrypted":true})", {}},
      {R"({"migratable":false,"accessMode":"rwo"})", {}},
      {R"({"snapshotMaxCount":1})",
       {"FieldValueInvalid spec.snapshotMaxCount: Invalid value: 1: must be 0 or from 2 to 250"}},
      {R"({"size":"100","snapshotMaxSize":"199"})",
       {"FieldValueInvalid spec.snapshotMaxSize: Invalid value: 199: must be 0 or at least twice the size"}},
      {R"({"size":"100","snapshotMaxSize":"200"})", {}},
  };
  for (const auto& one : cases)
    EXPECT_EQ(texts(volumes().validate(volume(one.spec))), one.causes) << one.spec;
}

TEST(Validation, RequiredFieldsAndDuplicateKeysAreFound) {
  const KindInfo& snapshots = kind_of("longhorn.io", "v1beta2", "snapshots");
  EXPECT_THAT(texts(snapshots.validate(*parse_json(R"({"metadata":{"name":"s"}})"))),
              ElementsAre("FieldValueRequired spec: Required value"));
  EXPECT_THAT(texts(snapshots.validate(*parse_json(R"({"metadata":{"name":"s"},"spec":{"volume":null}})"))),
              ElementsAre("FieldValueRequired spec.volume: Required value"));
  EXPECT_THAT(texts(snapshots.validate(*parse_json(R"({"metadata":{"name":"s"},"spec":{"volume":""}})"))),
              ElementsAre("FieldValueInvalid spec.volume: Invalid value: \"\": must not be empty"));
  const KindInfo& pods = kind_of("", "v1", "pods");
  EXPECT_THAT(texts(pods.validate(*parse_json(
                  R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"},{"name":"c"}]}})"))),
              ElementsAre("FieldValueDuplicate spec.containers[1]: Duplicate value: {\"name\":\"c\"}"));
  EXPECT_THAT(texts(volumes().validate(Json::array())), ElementsAre(HasSubstr("FieldValueTypeInvalid")));
}

TEST(Validation, AnEndlessListOfFaultsIsCutOff) {
  Json json = volume("{}");
  Json list = Json::array();
  for (int i = 0; i < 5000; ++i) list.push_back(i);
  json["spec"].set("nodeSelector", std::move(list));
  EXPECT_EQ(volumes().validate(json).size(), kMaxCauses);
}

TEST(Metadata, NamesLabelsAndAnnotationsFollowTheRules) {
  const auto check = [](std::string_view metadata) {
    Json json = volume("{}");
    json.set("metadata", *parse_json(metadata));
    std::vector<std::string> fields;
    for (const Cause& cause : volumes().validate(json)) fields.push_back(cause.reason + " " + cause.field);
    return fields;
  };
  EXPECT_THAT(check(R"({"name":"v1.a-b"})"), IsEmpty());
  EXPECT_THAT(check(R"({})"), ElementsAre("FieldValueRequired metadata.name"));
  for (const char* name : {"V1", "-a", "a-", "a..b", "a_b", "a b", "ä"})
    EXPECT_THAT(check(R"({"name":")" + std::string(name) + "\"}"),
                ElementsAre("FieldValueInvalid metadata.name"))
        << name;
  EXPECT_THAT(check(R"({"name":")" + std::string(253, 'a') + "\"}"), IsEmpty());
  EXPECT_THAT(check(R"({"name":")" + std::string(254, 'a') + "\"}"),
              ElementsAre("FieldValueInvalid metadata.name"));
  EXPECT_THAT(check(R"({"name":"a","generateName":"a-"})"), IsEmpty());
  EXPECT_THAT(check(R"({"name":"a","generateName":"A-"})"),
              ElementsAre("FieldValueInvalid metadata.generateName"));
  EXPECT_THAT(check(R"({"name":"a","namespace":"x.y"})"),
              ElementsAre("FieldValueInvalid metadata.namespace"));
  EXPECT_THAT(check(R"({"name":"a","labels":{"example.com/app":"X_1","b":""}})"), IsEmpty());
  EXPECT_THAT(check(R"({"name":"a","labels":{"a/b/c":"x"}})"),
              ElementsAre("FieldValueInvalid metadata.labels"));
  EXPECT_THAT(check(R"({"name":"a","labels":{"a":"with space"}})"),
              ElementsAre("FieldValueInvalid metadata.labels"));
  EXPECT_THAT(check(R"({"name":"a","labels":{"a":1}})"),
              ElementsAre("FieldValueTypeInvalid metadata.labels[a]"));
  EXPECT_THAT(check(R"({"name":"a","labels":{"a":")" + std::string(64, 'x') + "\"}}"),
              ElementsAre("FieldValueInvalid metadata.labels"));
  EXPECT_THAT(check(R"({"name":"a","annotations":{"a":"any thing at all"}})"), IsEmpty());
  EXPECT_THAT(
      check(R"({"name":"a","annotations":{"a":")" + std::string(kMaxAnnotationBytes - 1, 'x') + "\"}}"),
      IsEmpty());
  EXPECT_THAT(check(R"({"name":"a","annotations":{"a":")" + std::string(kMaxAnnotationBytes, 'x') + "\"}}"),
              ElementsAre("FieldValueTooLong metadata.annotations"));
  EXPECT_THAT(check(R"({"name":"a","finalizers":["longhorn.io","not ok"]})"),
              ElementsAre("FieldValueInvalid metadata.finalizers[1]"));
  EXPECT_THAT(check(R"({"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}]})"),
              ElementsAre("FieldValueRequired metadata.ownerReferences[0].uid"));
  EXPECT_THAT(check(R"({"name":"a","ownerReferences":[
                {"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true},
                {"apiVersion":"v1","kind":"Pod","name":"q","uid":"2","controller":true}]})"),
              ElementsAre("FieldValueInvalid metadata.ownerReferences"));
}

TEST(Metadata, ANamespaceIsALabel) {
  const KindInfo& namespaces = kind_of("", "v1", "namespaces");
  EXPECT_THAT(texts(namespaces.validate(*parse_json(R"({"metadata":{"name":"a-b"}})"))), IsEmpty());
  EXPECT_EQ(namespaces.validate(*parse_json(R"({"metadata":{"name":"a.b"}})")).size(), 1u);
}

TEST(Updates, WhatMayNotChangeIsRefused) {
  const Json before = volume(R"({"size":"100","dataEngine":"v1"})");
  const auto changed = [&](const char* spec) {
    return texts(volumes().validate_update(before, volume(spec)));
  };
  EXPECT_THAT(changed(R"({"size":"200","dataEngine":"v1"})"), IsEmpty());
  EXPECT_THAT(changed(R"({"size":"50","dataEngine":"v1"})"),
              ElementsAre("FieldValueForbidden spec.size: Forbidden: a volume can only grow"));
  EXPECT_THAT(changed(R"({"size":"100","dataEngine":"rbd"})"),
              ElementsAre("FieldValueInvalid spec.dataEngine: Invalid value: \"rbd\": field is immutable"));
  EXPECT_THAT(changed(R"({"size":"100","dataEngine":"v1","encrypted":false})"), IsEmpty())
      << "absent and false are the same";
  Json renamed = before;
  renamed["metadata"].set("name", "v2");
  EXPECT_THAT(texts(volumes().validate_update(before, renamed)),
              ElementsAre("FieldValueInvalid metadata.name: Invalid value: \"v2\": field is immutable"));
}

TEST(Updates, NoFinalizerIsAddedToWhatIsBeingDeleted) {
  Json before = volume("{}");
  before["metadata"].set("deletionTimestamp", "2026-01-01T00:00:00Z");
  before["metadata"].set("finalizers", Json::array({"a", "b"}));
  Json after = before;
  after["metadata"].set("finalizers", Json::array({"b"}));
  EXPECT_THAT(texts(volumes().validate_update(before, after)), IsEmpty());
  after["metadata"].set("finalizers", Json::array({"b", "c"}));
  EXPECT_THAT(texts(volumes().validate_update(before, after)),
              ElementsAre(HasSubstr("FieldValueForbidden metadata.finalizers")));
}

TEST(Selectors, ReadTheFieldsThatAKindOffers) {
  const KindInfo& pods = kind_of("", "v1", "pods");
  const Json pod = *parse_json(
      R"({"metadata":{"name":"p","namespace":"ns"},"spec":{"nodeName":"n1","hostNetwork":true}})");
  EXPECT_TRUE(pods.is_selectable("spec.nodeName"));
  EXPECT_TRUE(pods.is_selectable("metadata.namespace"));
  EXPECT_FALSE(pods.is_selectable("spec.volumes"));
  EXPECT_EQ(pods.field_value(pod, "spec.nodeName"), "n1");
  EXPECT_EQ(pods.field_value(pod, "spec.hostNetwork"), "true");
  EXPECT_EQ(pods.field_value(pod, "status.phase"), "");
}

TEST(Status, CarriesTheCausesOfARefusal) {
  const Json spec = volume(R"({"size":"x","frontend":"tape"})");
  const Status status = invalid_status(volumes(), "v1", volumes().validate(spec));
  const Json json = encode(status);
  EXPECT_EQ(json.get_string("kind"), "Status");
  EXPECT_EQ(json.get_string("reason"), "Invalid");
  EXPECT_EQ(json.get_int64("code"), 422);
  EXPECT_THAT(
      std::string(*json.get_string("message")),
      testing::StartsWith("Volume.longhorn.io \"v1\" is invalid: [spec.size: Invalid value: \"x\": "));
  const Json* causes = json.find_path({"details", "causes"});
  ASSERT_NE(causes, nullptr);
  EXPECT_EQ(causes->size(), 2u);
  EXPECT_EQ(causes->at(1).get_string("field"), "spec.frontend");
  EXPECT_EQ(causes->at(1).get_string("reason"), "FieldValueNotSupported");
}

}  // namespace
}  // namespace moor::model
