// The rules that live beside the core, storage and snapshot kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/core/node.h"
#include "model/core/persistent_volume.h"
#include "model/core/persistent_volume_claim.h"
#include "model/core/pod.h"
#include "model/core/secret.h"
#include "model/kinds.h"

namespace moor::model::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> fields(const Causes& causes) {
  std::vector<std::string> list;
  for (const Cause& cause : causes) list.push_back(cause.field);
  return list;
}

TEST(Secret, Base64GoesBothWays) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes.push_back(static_cast<char>(i * 7));
  }
  EXPECT_EQ(to_base64("hello"), "aGVsbG8=");
  for (const char* text : {"a", "aGVsbG8", "a===", "=aaa", "aGVs bG8=", "aG=sbG8="})
    EXPECT_FALSE(from_base64(text)) << text;
}

TEST(Secret, PlainTextBecomesDataAndIsNeverStored) {
  const KindInfo& kind = kind_info(static_cast<const Secret*>(nullptr));
  Json json = *parse_json(R"({"metadata":{"name":"s"},"data":{"a":"eA=="},"stringData":{"b":"hello"}})");
  kind.set_defaults(json);
  EXPECT_EQ(to_text(*json.find("data")), R"({"a":"eA==","b":"aGVsbG8="})");
  EXPECT_FALSE(json.contains("stringData"));
  EXPECT_EQ(json.get_string("type"), "Opaque");
  EXPECT_THAT(kind.validate(json), IsEmpty());
  json["data"].set("a", "not base64");
  const Causes causes = kind.validate(json);
  EXPECT_THAT(fields(causes), ElementsAre("data[a]"));
  EXPECT_EQ(causes[0].message.find("not base64"), std::string::npos)
      << "a secret value is not repeated in an error";
}

TEST(Secret, AnImmutableOneStays) {
  Secret before;
  before.immutable = true;
  before.data["a"] = "eA==";
  Secret after = before;
  EXPECT_THAT(validate_secret_update(before, after), IsEmpty());
  after.data["a"] = "eQ==";
  after.immutable.reset();
  EXPECT_THAT(fields(validate_secret_update(before, after)), ElementsAre("data", "immutable"));
}

PersistentVolumeClaim claim(const char* request) {
  PersistentVolumeClaim claim;
  claim.spec.access_modes = {"ReadWriteOnce"};
  claim.spec.resources.requests["storage"] = {request};
  return claim;
}

TEST(Claim, OnlyGrows) {
  EXPECT_THAT(validate_claim(claim("1Gi")), IsEmpty());
  EXPECT_THAT(fields(validate_claim(claim("0"))), ElementsAre("spec.resources[storage]"));
  EXPECT_THAT(validate_claim_update(claim("1Gi"), claim("2Gi")), IsEmpty());
  EXPECT_THAT(validate_claim_update(claim("1024Mi"), claim("1Gi")), IsEmpty());
  EXPECT_THAT(fields(validate_claim_update(claim("2Gi"), claim("1Gi"))),
              ElementsAre("spec.resources.requests.storage"));
  PersistentVolumeClaim growing = claim("4Gi");
  growing.status.capacity["storage"] = {"1Gi"};
  EXPECT_THAT(validate_claim_update(growing, claim("2Gi")), IsEmpty())
      << "an expansion may be asked down again";
}

TEST(Claim, ABoundOneStaysWithItsVolume) {
  PersistentVolumeClaim bound = claim("1Gi");
  bound.spec.volume_name = "pv-1";
  EXPECT_THAT(validate_claim_update(claim("1Gi"), bound), IsEmpty());
  EXPECT_THAT(fields(validate_claim_update(bound, claim("1Gi"))), ElementsAre("spec.volumeName"));
}

TEST(PersistentVolume, KeepsItsSource) {
  PersistentVolume before;
  before.spec.csi = CsiPersistentVolumeSource{.driver = "driver.longhorn.io", .volume_handle = "v1"};
  PersistentVolume after = before;
  after.spec.csi->volume_handle = "v2";
  EXPECT_THAT(fields(validate_persistent_volume_update(before, after)),
              ElementsAre("spec.persistentvolumesource"));
}

TEST(Pod, StaysOnItsNode) {
  Pod before;
  Pod after;
  after.spec.node_name = "node-1";
  EXPECT_THAT(validate_pod_update(before, after), IsEmpty());
  EXPECT_THAT(fields(validate_pod_update(after, before)), ElementsAre("spec.nodeName"));
  after.spec.volumes.resize(1);
  EXPECT_THAT(fields(validate_pod_update(before, after)), ElementsAre("spec.volumes"));
}

TEST(Node, IsReadyWhenItSaysSo) {
  Node node;
  EXPECT_FALSE(node.is_ready());
  node.status.conditions.push_back({.type = "Ready",
                                    .status = "True",
                                    .last_heartbeat_time = {},
                                    .last_transition_time = {},
                                    .reason = {},
                                    .message = {}});
  EXPECT_TRUE(node.is_ready());
  node.spec.taints.push_back(
      {.key = std::string(kTaintOutOfService), .value = {}, .effect = "NoExecute", .time_added = {}});
  EXPECT_TRUE(node.has_taint(kTaintOutOfService));
}

TEST(StorageKinds, SourcesAreOneOfTwo) {
  const KindInfo& attachments = *find_kind("storage.k8s.io", "v1", "volumeattachments");
  const auto check = [&](const char* source) {
    Json json = *parse_json(R"({"metadata":{"name":"a"},"spec":{"attacher":"d","nodeName":"n"}})");
    json["spec"].set("source", *parse_json(source));
    return fields(attachments.validate(json));
  };
  EXPECT_THAT(check(R"({"persistentVolumeName":"pv"})"), IsEmpty());
  EXPECT_THAT(check(R"({})"), ElementsAre("spec.source"));
  EXPECT_THAT(check(R"({"persistentVolumeName":"pv","inlineVolumeSpec":{}})"), ElementsAre("spec.source"));
  const KindInfo& snapshots = *find_kind("snapshot.storage.k8s.io", "v1", "volumesnapshots");
  EXPECT_THAT(fields(snapshots.validate(*parse_json(R"({"metadata":{"name":"a"},"spec":{"source":{}}})"))),
              ElementsAre("spec.source"));
  EXPECT_THAT(snapshots.validate(*parse_json(
                  R"({"metadata":{"name":"a"},"spec":{"source":{"persistentVolumeClaimName":"c"}}})")),
              IsEmpty());
}

}  // namespace
}  // namespace moor::model::core
