#include "model/table.h"

#include <gtest/gtest.h>

#include "model/kinds.h"
#include "model/sample_for_test.h"

namespace moor::model {
namespace {

const Time kNow = *parse_rfc3339("2026-01-02T03:04:05Z");

std::string row(std::string_view api_version, std::string_view kind, std::string_view json) {
  return to_text(TablePrinter(*find_kind_by_name(api_version, kind)).cells(*parse_json(json), kNow));
}

std::string header(std::string_view api_version, std::string_view kind) {
  std::string text;
  const Json definitions = TablePrinter(*find_kind_by_name(api_version, kind)).definitions();
  for (std::size_t i = 0; i < definitions.size(); ++i)
    text += (i ? "|" : "") + std::string(*definitions.at(i).get_string("name")) +
            (definitions.at(i).get_int64("priority") == 1 ? "*" : "");
  return text;
}

TEST(Table, ColumnsAreThoseThatUsersKnow) {
  constexpr std::string_view kLonghorn = "longhorn.io/v1beta2";
  EXPECT_EQ(header(kLonghorn, "Volume"), "Name|Data Engine|State|Robustness|Scheduled|Size|Node|Age");
  EXPECT_EQ(header(kLonghorn, "Engine"), "Name|Data Engine|State|Node|InstanceManager|Image|Age");
  EXPECT_EQ(header(kLonghorn, "Replica"), "Name|Data Engine|State|Node|Disk|InstanceManager|Image|Age");
  EXPECT_EQ(header(kLonghorn, "VolumeAttachment"), "Name|Volume|Node|Tickets|Satisfied|Waiting-For|Age");
  EXPECT_EQ(header(kLonghorn, "Snapshot"), "Name|Volume|CreationTime|ReadyToUse|RestoreSize|Size|Age");
  EXPECT_EQ(header(kLonghorn, "Node"), "Name|Ready|AllowScheduling|Schedulable|Age");
  EXPECT_EQ(header(kLonghorn, "Backup"),
            "Name|SnapshotName|SnapshotSize|SnapshotCreatedAt|BackupTarget|State|LastSyncedAt");
  EXPECT_EQ(header(kLonghorn, "BackupVolume"),
            "Name|BackupTarget|CreatedAt|LastBackupName|LastBackupAt|LastSyncedAt");
  EXPECT_EQ(header(kLonghorn, "BackupTarget"), "Name|URL|Credential|LastBackupAt|Available|LastSyncedAt");
  EXPECT_EQ(header(kLonghorn, "RecurringJob"), "Name|Groups|Task|Cron|RetainCount|Concurrency|Age|Labels");
  EXPECT_EQ(header(kLonghorn, "ShareManager"), "Name|State|Node|Image|Age");
  EXPECT_EQ(header(kLonghorn, "BackingImage"), "Name|UUID|SourceType|Size|VirtualSize|Age");
  EXPECT_EQ(header(kLonghorn, "Setting"), "Name|Value|Applied|Age");
  EXPECT_EQ(header("v1", "Event"),
            "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*");
  EXPECT_EQ(header("v1", "PersistentVolume"),
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|Reason|Age|VolumeMode*");
}

TEST(Table, CellsComeFromPathsInTheirType) {
  EXPECT_EQ(row("longhorn.io/v1beta2", "Volume",
                R"({"metadata":{"name":"v1","creationTimestamp":"2026-01-02T03:01:03Z"},
      "spec":{"dataEngine":"v1","size":"1024"},
      "status":{"state":"attached","robustness":"healthy","currentNodeID":"node-1",
                "conditions":[{"type":"Scheduled","status":"True"}]}})"),
            R"(["v1","v1","attached","healthy","True","1024","node-1","3m2s"])");
  EXPECT_EQ(row("longhorn.io/v1beta2", "Volume", R"({"metadata":{"name":"v1"}})"),
            R"(["v1",null,null,null,null,null,null,"<unknown>"])");
  EXPECT_EQ(row("longhorn.io/v1beta2", "RecurringJob", R"({"metadata":{"name":"j","creationTimestamp":"x"},
      "spec":{"groups":["default"],"retain":5,"concurrency":"2","labels":{"a":"b"}}})"),
            R"(["j","[\"default\"]",null,null,5,null,"<invalid>","{\"a\":\"b\"}"])");
}

TEST(Table, AnAttachmentShowsWhoHasItAndWhatTheOthersWaitFor) {
  EXPECT_EQ(row("longhorn.io/v1beta2", "VolumeAttachment",
                R"({"metadata":{"name":"v1","creationTimestamp":"2026-01-02T03:04:00Z"},
      "spec":{"volume":"v1","attachmentTickets":{"a":{"id":"a","nodeID":"node-1"},"b":{"id":"b","nodeID":"node-2"},"c":{"id":"c"}}},
      "status":{"attachmentTicketStatuses":{"a":{"id":"a","satisfied":true},
        "b":{"id":"b","satisfied":false,"blockers":[{"type":"AttachedElsewhere","holder":"a","nodeID":"node-1"}]},
        "c":{"id":"c","satisfied":false,"blockers":[{"type":"Expired"}]}}}})"),
            R"(["v1","v1","node-1",3,"1/3","AttachedElsewhere(node-1),Expired","5s"])");
  EXPECT_EQ(
      row("longhorn.io/v1beta2", "VolumeAttachment", R"({"metadata":{"name":"v1"},"spec":{"volume":"v1"}})"),
      R"(["v1","v1","",0,"0/0","","<unknown>"])");
}

TEST(Table, CoreKindsLookAsInKubernetes) {
  EXPECT_EQ(row("v1", "Pod", R"({"metadata":{"name":"p","creationTimestamp":"2026-01-02T03:04:00Z"},
      "spec":{"nodeName":"n1","containers":[{"name":"a"},{"name":"b"}]},
      "status":{"phase":"Pending","containerStatuses":[{"name":"a","ready":true,"restartCount":2},
        {"name":"b","ready":false,"restartCount":1,"state":{"waiting":{"reason":"ImagePullBackOff"}}}]}})"),
            R"(["p","1/2","ImagePullBackOff","3","5s","<none>","n1","<none>"])");
  EXPECT_EQ(
      row("v1", "Node", R"({"metadata":{"name":"n","labels":{"node-role.kubernetes.io/control-plane":""}},
      "spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],
      "addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"kubeletVersion":"v1.30.0"}}})"),
      R"(["n","Ready,SchedulingDisabled","control-plane","<unknown>","v1.30.0","10.0.0.1","<none>",null,null,null])");
  EXPECT_EQ(row("v1", "PersistentVolume", R"({"metadata":{"name":"pv"},"spec":{"capacity":{"storage":"1Gi"},
      "accessModes":["ReadOnlyMany","ReadWriteOnce"],"claimRef":{"namespace":"a","name":"b"}}})"),
            R"(["pv","1Gi","RWO,ROX",null,"","a/b",null,null,"<unknown>",null])");
  EXPECT_EQ(row("storage.k8s.io/v1", "StorageClass", R"({"metadata":{"name":"sc","annotations":{
      "storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"driver.longhorn.io"})"),
            R"x(["sc (default)","driver.longhorn.io",null,null,false,"<unknown>"])x");
  EXPECT_EQ(row("v1", "Event",
                R"({"metadata":{"name":"e"},"involvedObject":{"kind":"Volume","name":"v1"},"type":"Warning",
      "reason":"Degraded","message":"one replica lost","lastTimestamp":"2026-01-02T03:03:05Z","count":4,"source":{"component":"c"}})"),
            R"(["60s","Warning","Degraded","volume/v1",null,"c","one replica lost","<unknown>",4,"e"])");
  EXPECT_EQ(row("mooring.io/v1alpha1", "Grant",
                R"({"metadata":{"name":"v1"},"spec":{"volume":"v1","epoch":5,"generation":2,
      "active":{"epoch":5,"node":"node-1"},"members":{"a":"RW","b":"RW","c":"ERR"}}})"),
            R"(["v1",5,"node-1",null,"2 RW, 1 ERR",2,null,"<unknown>"])");
}

TEST(Table, NoKindFailsOnAnyObject) {
  for (const KindInfo* kind : all_kinds()) {
    const TablePrinter printer(*kind);
    const std::size_t width = printer.definitions().size();
    for (const Json& object :
         {sample_object(*kind), Json::object(),
          *parse_json(R"({"spec":[],"status":1,"metadata":{"labels":[1]}})"),
          *parse_json(
              R"({"spec":{"attachmentTickets":[],"containers":1,"members":[1],"drivers":2,"blockDevices":"x",
                                 "accessModes":{},"claimRef":[]},"status":{"conditions":{},"addresses":4,"containerStatuses":"x"},"data":3})")})
      EXPECT_EQ(printer.cells(object, kNow).size(), width) << kind->kind;
  }
}

TEST(Table, CarriesObjectsAsAsked) {
  const KindInfo& kind = *find_kind("longhorn.io", "v1beta2", "settings");
  const Json object = *parse_json(R"({"metadata":{"name":"s"},"value":"1"})");
  const Json* const objects[] = {&object};
  TableOptions options{.now = kNow, .metadata = Json::object({{"resourceVersion", "7"}})};
  Json table = make_table(kind, objects, options);
  EXPECT_EQ(table.get_string("kind"), "Table");
  EXPECT_EQ(table.find("rows")->at(0).find("object")->get_string("kind"), "PartialObjectMetadata");
  EXPECT_EQ(table.find("metadata")->get_string("resourceVersion"), "7");
  options.include = *parse_include_object("Object");
  EXPECT_EQ(*make_table(kind, objects, options).find("rows")->at(0).find("object"), object);
  options.include = *parse_include_object("None");
  options.definitions = false;
  table = make_table(kind, objects, options);
  EXPECT_FALSE(table.find("rows")->at(0).contains("object"));
  EXPECT_TRUE(table.find("columnDefinitions")->is_null());
  EXPECT_FALSE(parse_include_object("Everything"));
}

}  // namespace
}  // namespace moor::model
