// The door on a real registry in memory, without a listener.
#include "doors/bootstrap/bootstrap_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "registry/testing/world.h"

namespace moor::doors {
namespace {

using testing::HasSubstr;

class BootstrapTest : public registry::World {
 protected:
  struct Asked {
    int status = 0;
    Json body;
  };
  Asked ask(const std::string& node, const std::string& key, const Caller& caller) {
    const auto request = http::make_certificate_request(key, "whoever");
    EXPECT_TRUE(request.ok());
    return send(http::Method::post, "/bootstrap/v1/nodes/" + node + "/certificate",
                to_text(Json::object({{"request", *request}})), caller);
  }
  Asked send(http::Method method, const std::string& path, std::string body, const Caller& caller) {
    http::Request request = http::Request::to(method, path, std::move(body), "application/json");
    request.target = *http::Target::parse(path);
    const http::Response response = wait(door_.handle(std::move(request), caller));
    const auto parsed = parse_json(response.body_view());
    return {response.status, parsed ? *parsed : Json(response.body_view())};
  }
  static std::string message(const Asked& asked) {
    return std::string(asked.body.get_string("message").value_or(""));
  }
  const Caller newcomer_ = make_caller("system:bootstrap", {std::string(kBootstrapGroup)});
  const http::Identity authority_ =
      *http::make_authority("ca", http::Validity::days_from(executor_.clock().wall(), 3650));
  BootstrapDoor door_{{registry_, executor_.clock()}, authority_};
};

TEST_F(BootstrapTest, TheTokenGivesANodeItsCertificate) {
  const std::string key = *http::make_key();
  const Asked asked = ask("node-1", key, newcomer_);
  ASSERT_EQ(asked.status, 201) << message(asked);
  const std::string certificate(*asked.body.get_string("certificate"));
  const auto info = *http::describe_certificate(certificate);
  EXPECT_EQ(info.common_name, "system:node:node-1");
  EXPECT_EQ(info.organizations, std::vector<std::string>{"system:nodes"});
  EXPECT_FALSE(info.is_authority);
  EXPECT_TRUE(http::check_identity({certificate, key}, authority_.certificate_pem).ok());
}

TEST_F(BootstrapTest, ASecondMachineOfTheSameNameIsRefusedUntilTheFirstHasRunOut) {
  const std::string first = *http::make_key();
  const std::string second = *http::make_key();
  ASSERT_EQ(ask("node-1", first, newcomer_).status, 201);
  const Asked refused = ask("node-1", second, newcomer_);
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(message(refused), HasSubstr("two nodes with one name"));
  EXPECT_EQ(ask("node-1", first, newcomer_).status, 201) << "the same key again is a renewal";
  executor_.manual_clock().step_wall(std::chrono::hours(24 * (BootstrapDoor::kDays + 1)));
  EXPECT_EQ(ask("node-1", second, newcomer_).status, 201);
}

TEST_F(BootstrapTest, ANodeRenewsItsOwnCertificateAndNoOther) {
  const std::string key = *http::make_key();
  ASSERT_EQ(ask("node-1", key, newcomer_).status, 201);
  const Caller node = make_caller("system:node:node-1", {"system:nodes"});
  EXPECT_EQ(ask("node-1", key, node).status, 201);
  EXPECT_EQ(ask("node-2", key, node).status, 403);
  EXPECT_EQ(ask("node-1", key, make_caller("eve", {"mooring:view"})).status, 403);
}

TEST_F(BootstrapTest, NonsenseIsRefusedAndBindsNothing) {
  const std::string path = "/bootstrap/v1/nodes/node-1/certificate";
  EXPECT_EQ(send(http::Method::post, path, "{", newcomer_).status, 422);
  EXPECT_EQ(send(http::Method::post, path, "{}", newcomer_).status, 422);
  EXPECT_EQ(send(http::Method::post, path, R"({"request": "-----BEGIN"})", newcomer_).status, 422);
  EXPECT_EQ(send(http::Method::get, path, "", newcomer_).status, 405);
  EXPECT_EQ(send(http::Method::post, "/bootstrap/v1/nodes", "{}", newcomer_).status, 404);
  EXPECT_EQ(ask("Node_1", *http::make_key(), newcomer_).status, 422);
  EXPECT_EQ(ask("node-1", *http::make_key(), newcomer_).status, 201);
}

}  // namespace
}  // namespace moor::doors
