// The door on a real registry in memory, without a listener: shapes, refusals, tickets written.
#include "doors/longhorn/longhorn_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "registry/testing/world.h"

namespace moor::doors::longhorn {
namespace {

using registry::json;
using testing::HasSubstr;

class LonghornDoorTest : public registry::World {
 protected:
  struct Asked {
    int status = 0;
    Json body;
    std::string text(std::initializer_list<std::string_view> path) const {
      const Json* found = body.find_path(path);
      return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
    }
    std::string message() const { return text({"message"}); }
  };

  LonghornDoorTest() {
    for (const char* node : {"n1", "n2", "n3"}) {
      EXPECT_TRUE(create(at("nodes.longhorn.io"),
                         fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"name":"{}"}}}})", node, node))
                      .ok());
      EXPECT_TRUE(merge(at("nodes.longhorn.io", node, "status"),
                        R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})")
                      .ok());
    }
  }

  // A volume with its book, as its controller makes them.
  void make_volume(const std::string& name,
                   std::string_view spec = R"({"size":"1048576","accessMode":"rwo"})") {
    Json volume = json(fmt::format(R"({{"metadata":{{"name":"{}"}}}})", name));
    volume.set("spec", json(spec));
    ASSERT_TRUE(create(at("volumes.longhorn.io"), to_text(volume)).ok());
    ASSERT_TRUE(create(at("volumeattachments.longhorn.io"),
                       fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"volume":"{}"}}}})", name, name))
                    .ok());
    set_status(name, R"({"state":"detached"})");
  }
  void set_status(const std::string& name, std::string_view status) {
    Json patch = Json::object({{"status", json(status)}});
    ASSERT_TRUE(merge(at("volumes.longhorn.io", name, "status"), to_text(patch)).ok());
  }
  void set_attached(const std::string& name, const std::string& node) {
    ASSERT_TRUE(
        merge(at("volumes.longhorn.io", name), fmt::format(R"({{"spec":{{"nodeID":"{}"}}}})", node)).ok());
    set_status(name, fmt::format(R"({{"state":"attached","currentNodeID":"{}"}})", node));
  }

  Task<http::Response> start(http::Method method, const std::string& path, std::string body, Caller caller) {
    http::Request request = http::Request::to(method, path, std::move(body), "application/json");
    request.target = *http::Target::parse(path);
    request.headers.set("Host", "moor.example:6440");
    request.peer.tls = true;
    return door_.handle(std::move(request), std::move(caller));
  }
  static Asked asked(const http::Response& response) {
    const auto parsed = parse_json(response.body_view());
    EXPECT_TRUE(parsed.ok()) << response.body_view();
    return {response.status, parsed ? *parsed : Json()};
  }
  Asked send(http::Method method, const std::string& path, std::string body = {}) {
    return asked(wait(start(method, path, std::move(body), admin_)));
  }
  Asked get(const std::string& path) { return send(http::Method::get, path); }
  Asked act(const std::string& volume, std::string_view action, std::string body) {
    return send(http::Method::post, fmt::format("/v1/volumes/{}?action={}", volume, action), std::move(body));
  }
  Json ticket(const std::string& volume, const std::string& id) {
    const auto book = World::get(at("volumeattachments.longhorn.io", volume));
    const Json* found = book ? book->find_path({"spec", "attachmentTickets", id}) : nullptr;
    return found == nullptr ? Json() : *found;
  }
  void satisfy(const std::string& volume, const std::string& id, bool satisfied, std::string_view blocker) {
    Json status = Json::object({{"id", id}, {"satisfied", satisfied}});
    if (!blocker.empty())
      status.set("blockers", Json::array({Json::object({{"type", "Moving"}, {"message", blocker}})}));
    Json patch = Json::object(
        {{"status", Json::object({{"attachmentTicketStatuses", Json::object({{id, status}})}})}});
    ASSERT_TRUE(merge(at("volumeattachments.longhorn.io", volume, "status"), to_text(patch)).ok());
  }

  Task<Result<void>> ask_for_move(std::optional<Asked>& answer) {
    const http::Response response =
        co_await start(http::Method::post, "/v1/volumes/v1?action=attach",
                       R"({"hostId":"n2","attacherType":"csi-attacher","attachmentID":"b"})", admin_);
    answer = asked(response);
    co_return Result<void>();
  }

  const Caller admin_ = make_caller("jane", {std::string(kAdminGroup)});
  Metrics metrics_;
  LonghornDoor door_{{executor_, registry_, metrics_}, {.longest_wait = std::chrono::seconds(5)}};
};

TEST_F(LonghornDoorTest, TheRootLinksToWhatThereIs) {
  const Asked root = get("/v1");
  EXPECT_EQ(root.status, 200);
  EXPECT_EQ(root.text({"type"}), "apiVersion");
  EXPECT_EQ(root.text({"links", "volumes"}), "https://moor.example:6440/v1/volumes");
}

TEST_F(LonghornDoorTest, VolumesComeAsACollectionWithLinksAndActions) {
  make_volume("v1");
  make_volume("v2");
  const Asked list = get("/v1/volumes");
  ASSERT_EQ(list.status, 200);
  EXPECT_EQ(list.text({"type"}), "collection");
  EXPECT_EQ(list.text({"resourceType"}), "volume");
  const Json& data = *list.body.find("data");
  ASSERT_EQ(data.size(), 2u);
  const Json& volume = data.at(0);
  EXPECT_EQ(volume.get_string("id"), "v1");
  EXPECT_EQ(volume.get_string("type"), "volume");
  EXPECT_EQ(volume.get_string("size"), "1048576");
  EXPECT_EQ(volume.get_string("state"), "detached");
  EXPECT_EQ(volume.get_bool("ready"), true);
  EXPECT_EQ(volume.find_path({"links", "self"})->as_string(), "https://moor.example:6440/v1/volumes/v1");
  EXPECT_EQ(volume.find_path({"actions", "attach"})->as_string(),
            "https://moor.example:6440/v1/volumes/v1?action=attach");
  EXPECT_EQ(get("/v1/volumes/v2").text({"name"}), "v2");
}

TEST_F(LonghornDoorTest, AttachAndDetachWriteAndRemoveATicket) {
  make_volume("v1");
  const Asked attached = act("v1", "attach", R"({"hostId":"n1","attachedBy":"jane","disableFrontend":true})");
  ASSERT_EQ(attached.status, 200) << attached.message();
  const Json written = ticket("v1", "longhorn-api-n1");
  EXPECT_EQ(written.get_string("nodeID"), "n1");
  EXPECT_EQ(written.get_string("type"), "longhorn-api");
  EXPECT_EQ(written.find_path({"parameters", "disableFrontend"})->as_string(), "true");
  EXPECT_EQ(written.find_path({"parameters", "lastAttachedBy"})->as_string(), "jane");
  EXPECT_EQ(attached.text({"volumeAttachment", "attachments", "longhorn-api-n1", "nodeID"}), "n1");

  const Asked books = get("/v1/volumeattachments");
  ASSERT_EQ(books.body.find("data")->size(), 1u);
  EXPECT_EQ(books.body.find("data")->at(0).get_string("volume"), "v1");
  EXPECT_EQ(get("/v1/volumeattachments/v1").text({"attachments", "longhorn-api-n1", "attachmentType"}),
            "longhorn-api");

  EXPECT_EQ(act("v1", "detach", R"({"hostId":"n2"})").status, 200);  // detached from there already
  EXPECT_FALSE(ticket("v1", "longhorn-api-n1").is_null());
  EXPECT_EQ(act("v1", "detach", R"({"hostId":"n1"})").status, 200);
  EXPECT_TRUE(ticket("v1", "longhorn-api-n1").is_null());
  EXPECT_EQ(act("v1", "detach", "").status, 200);
}

TEST_F(LonghornDoorTest, ARwoVolumeThatIsElsewhereIsRefusedWithItsHolder) {
  make_volume("v1");
  ASSERT_EQ(
      act("v1", "attach", R"({"hostId":"n1","attacherType":"csi-attacher","attachmentID":"csi-1"})").status,
      200);
  set_attached("v1", "n1");
  const Asked refused = act("v1", "attach", R"({"hostId":"n2"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.text({"type"}), "error");
  EXPECT_EQ(refused.text({"code"}), "Conflict");
  EXPECT_EQ(refused.body.get_int64("status"), 409);
  EXPECT_THAT(refused.message(), HasSubstr("node n1 by csi-1 (csi-attacher)"));
  EXPECT_TRUE(ticket("v1", "longhorn-api-n2").is_null());
}

TEST_F(LonghornDoorTest, TheSecondAttachOfAMigratableVolumeIsAnsweredWhenItIsReadyThere) {
  make_volume("v1", R"({"size":"1048576","accessMode":"rwx","migratable":true})");
  ASSERT_EQ(act("v1", "attach", R"({"hostId":"n1","attacherType":"csi-attacher","attachmentID":"a"})").status,
            200);
  set_attached("v1", "n1");
  std::optional<Asked> answer;
  TaskGroup group(executor_);
  group.spawn(ask_for_move(answer));
  executor_.run_ready();
  EXPECT_FALSE(ticket("v1", "b").is_null());
  EXPECT_FALSE(answer.has_value());
  satisfy("v1", "b", false, "the standby starts");
  executor_.run_ready();
  EXPECT_FALSE(answer.has_value());
  satisfy("v1", "b", true, "");
  ASSERT_TRUE(wait(group.join()).ok());
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 200) << answer->message();
  EXPECT_EQ(answer->body.find_path({"volumeAttachment", "attachments", "b", "satisfied"})->as_bool(), true);
}

TEST_F(LonghornDoorTest, AMoveThatTakesTooLongIsToldWithWhatItWaitsForAndGoesOn) {
  make_volume("v1", R"({"size":"1048576","accessMode":"rwx","migratable":true})");
  ASSERT_EQ(act("v1", "attach", R"({"hostId":"n1","attachmentID":"a"})").status, 200);
  set_attached("v1", "n1");
  satisfy("v1", "b", false, "node n2 has no room");
  const Asked late = act("v1", "attach", R"({"hostId":"n2","attachmentID":"b"})");
  EXPECT_EQ(late.status, 504);
  EXPECT_THAT(late.message(), HasSubstr("ticket b stays"));
  EXPECT_FALSE(ticket("v1", "b").is_null());
  const Asked third = act("v1", "attach", R"({"hostId":"n3","attachmentID":"c"})");
  EXPECT_EQ(third.status, 409);
  EXPECT_EQ(act("v1", "detach", R"({"hostId":"n2"})").status, 200);
  EXPECT_TRUE(ticket("v1", "b").is_null());
  EXPECT_FALSE(ticket("v1", "a").is_null());
}

TEST_F(LonghornDoorTest, WhatCannotBeUnderstoodIsRefusedAndNeverGuessed) {
  make_volume("v1");
  struct Row {
    http::Method method;
    std::string path;
    std::string body;
    int status;
  };
  const std::vector<Row> rows = {
      {http::Method::get, "/v1/volumes/none", "", 404},
      {http::Method::get, "/v1/nothing", "", 404},
      {http::Method::get, "/v1/volumes/v1/more", "", 404},
      {http::Method::post, "/v1/volumes/none?action=attach", R"({"hostId":"n1"})", 404},
      {http::Method::post, "/v1/volumes/v1", "{}", 400},
      {http::Method::post, "/v1/volumes/v1?action=fly", "{}", 400},
      {http::Method::post, "/v1/volumes/v1?action=attach&action=detach", "{}", 400},
      {http::Method::post, "/v1/volumes/v1?action=attach", "{", 400},
      {http::Method::post, "/v1/volumes/v1?action=attach", "[]", 400},
      {http::Method::post, "/v1/volumes/v1?action=attach", "{}", 400},
      {http::Method::post, "/v1/volumes/v1?action=attach", R"({"hostId":"n9"})", 404},
      {http::Method::post, "/v1/volumes/v1?action=attach", R"({"hostId":7})", 400},
      {http::Method::post, "/v1/volumes/v1?action=detach", R"({"hostId":7})", 400},
      {http::Method::post, "/v1/volumes/v1?action=detach", R"({"forceDetach":"yes"})", 400},
      {http::Method::post, "/v1/volumes", "{}", 405},
      {http::Method::put, "/v1/volumes/v1", "{}", 405},
      {http::Method::delete_, "/v1", "", 405},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} {} {}", to_string(row.method), row.path, row.body));
    const Asked refused = send(row.method, row.path, row.body);
    EXPECT_EQ(refused.status, row.status) << refused.message();
    EXPECT_EQ(refused.text({"type"}), "error");
    EXPECT_NE(refused.message(), "");
  }
}

TEST_F(LonghornDoorTest, RolesHoldHereToo) {
  make_volume("v1");
  const Caller viewer = make_caller("joe", {std::string(kViewGroup)});
  EXPECT_EQ(wait(start(http::Method::get, "/v1/volumes", "", viewer)).status, 200);
  const Asked refused =
      asked(wait(start(http::Method::post, "/v1/volumes/v1?action=attach", R"({"hostId":"n1"})", viewer)));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.message(), HasSubstr("joe"));
  const Caller stranger = make_caller("eve", {"others"});
  EXPECT_EQ(wait(start(http::Method::get, "/v1/volumes", "", stranger)).status, 403);
}

TEST_F(LonghornDoorTest, AVolumeWithoutABookYetIsAskedToWait) {
  ASSERT_TRUE(
      create(at("volumes.longhorn.io"), R"({"metadata":{"name":"v1"},"spec":{"size":"1048576"}})").ok());
  EXPECT_EQ(act("v1", "attach", R"({"hostId":"n1"})").status, 503);
}

}  // namespace
}  // namespace moor::doors::longhorn
