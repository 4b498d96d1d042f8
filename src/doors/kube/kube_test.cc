// Tables for the parts of the door that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doors/kube/body.h"
#include "doors/kube/form.h"
#include "doors/kube/options.h"
#include "doors/kube/review.h"
#include "doors/kube/route.h"
#include "doors/kube/status.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

using http::Method;
using testing::HasSubstr;

http::Target target_of(std::string_view raw) {
  auto target = http::Target::parse(raw);
  EXPECT_TRUE(target.ok()) << raw;
  return *target;
}

TEST(Route, ObjectsAndTheirVerbs) {
  struct Case {
    Method method;
    const char* path;
    const char* verb;
    const char* space;
    const char* name;
    const char* sub;
  };
  constexpr Case kCases[] = {
      {Method::get, "/api/v1/nodes", "list", "", "", ""},
      {Method::get, "/api/v1/nodes/n1", "get", "", "n1", ""},
      {Method::get, "/api/v1/nodes?watch=1", "watch", "", "", ""},
      {Method::get, "/api/v1/namespaces/x", "get", "", "x", ""},
      {Method::put, "/api/v1/namespaces/x/status", "update", "", "x", "status"},
      {Method::get, "/api/v1/namespaces/x/pods", "list", "x", "", ""},
      {Method::get, "/api/v1/namespaces/x/pods/p/status", "get", "x", "p", "status"},
      {Method::post, "/apis/longhorn.io/v1beta2/namespaces/x/volumes", "create", "x", "", ""},
      {Method::post, "/apis/longhorn.io/v1beta2/volumes", "", "", "", ""},
      {Method::get, "/apis/longhorn.io/v1beta2/volumes", "list", "", "", ""},
      {Method::delete_, "/apis/longhorn.io/v1beta2/volumes", "", "", "", ""},
      {Method::delete_, "/apis/longhorn.io/v1beta2/namespaces/x/volumes", "deletecollection", "x", "", ""},
      {Method::patch, "/apis/longhorn.io/v1beta2/namespaces/x/volumes/v", "patch", "x", "v", ""},
      {Method::put, "/apis/longhorn.io/v1beta2/namespaces/x/volumes", "", "x", "", ""},
  };
  for (const Case& one : kCases) {
    const http::Target target = target_of(one.path);
    const Route route = find_route(target);
    ASSERT_EQ(route.to, Route::To::objects) << one.path;
    EXPECT_EQ(verb_of(one.method, target, route), one.verb) << one.path;
    EXPECT_EQ(route.name.space, one.space) << one.path;
    EXPECT_EQ(route.name.name, one.name) << one.path;
    EXPECT_EQ(route.name.subresource, one.sub) << one.path;
  }
}

TEST(Route, WhatThereIsNotLeadsNowhere) {
  for (const char* path :
       {"/api/v1/volumes", "/api/v1/namespaces/x/nodes", "/apis/longhorn.io/v1beta2/volumes/v",
        "/api/v1/nodes/n/log", "/api/v1/nodes/n/status/x", "/apis/longhorn.io/v9/volumes", "/version/x",
        "/apis/storage.k8s.io/v1/storageclasses/s/status"})
    EXPECT_NE(find_route(target_of(path)).to, Route::To::objects) << path;
}

TEST(Form, FirstEntryThatCanBeServedWins) {
  const auto form = [](const char* accept) { return find_form(accept, "")->form; };
  EXPECT_EQ(form(""), Form::object);
  EXPECT_EQ(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Form::table);
  EXPECT_EQ(form("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"), Form::object);
  EXPECT_EQ(form("application/vnd.kubernetes.protobuf,application/json"), Form::object);
  EXPECT_EQ(form("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,*/*"), Form::object);
  EXPECT_EQ(form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), Form::metadata);
  EXPECT_EQ(code_of(find_form("application/vnd.kubernetes.protobuf", "").error()), 406);
  EXPECT_EQ(code_of(find_form("application/json;q=0", "").error()), 406);
  EXPECT_EQ(code_of(find_form("application/json;as=Table;v=v1;g=meta.k8s.io", "All").error()), 400);
}

TEST(Form, DiscoveryAnswersTheVersionAskedFor) {
  const auto form = [](const char* accept) { return *find_discovery_form(accept); };
  EXPECT_EQ(form("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;"
                 "g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"),
            "v2");
  EXPECT_EQ(
      form("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"),
      "v2beta1");
  EXPECT_EQ(form("application/json"), "");
}

TEST(Status, EveryErrorHasItsCode) {
  using registry::Refusal;
  const model::KindInfo& kind = *model::find_kind("longhorn.io", "v1beta2", "volumes");
  EXPECT_EQ(code_of(registry::refuse_bad_request("x")), 400);
  EXPECT_EQ(code_of(registry::refuse_forbidden(kind, "v", "x")), 403);
  EXPECT_EQ(code_of(registry::refuse_not_found(kind, "v")), 404);
  EXPECT_EQ(code_of(registry::refuse_already_exists(kind, "v")), 409);
  EXPECT_EQ(code_of(registry::refuse_modified(kind, "v")), 409);
  EXPECT_EQ(code_of(registry::refuse_expired("x")), 410);
  EXPECT_EQ(code_of(registry::refuse_media_type("x")), 415);
  EXPECT_EQ(code_of(registry::refuse_invalid(kind, "v", {model::required("spec.size")})), 422);
  EXPECT_EQ(code_of(registry::refuse_future("9", "1")), 504);
  EXPECT_EQ(code_of(Refusal{make_error(Errc::exhausted, ""), "", {}, {}}), 413);
  EXPECT_EQ(code_of(Refusal{make_error(Errc::corrupt, ""), "", {}, {}}), 500);
}

TEST(Status, DetailsNameTheObjectAndTheCauses) {
  const model::KindInfo& kind = *model::find_kind("longhorn.io", "v1beta2", "volumes");
  const Json status =
      status_of(registry::refuse_invalid(kind, "v", {model::required("spec.size")}), {&kind, "v"});
  EXPECT_EQ(status.get_string("reason"), "Invalid");
  EXPECT_EQ(status.find("details")->get_string("kind"), "Volume");
  EXPECT_EQ(status.find("details")->get_string("group"), "longhorn.io");
  EXPECT_EQ(status.find("details")->find("causes")->at(0).get_string("field"), "spec.size");
  const http::Response busy = refuse_code(429, "too many", 3);
  EXPECT_EQ(busy.headers.get("retry-after"), "3");
  EXPECT_THAT(busy.body, HasSubstr("\"reason\":\"TooManyRequests\""));
}

http::Request request_of(Method method, std::string raw, std::string body, std::string_view type) {
  http::Request request = http::Request::to(method, raw, std::move(body), type);
  request.target = target_of(raw);
  return request;
}

// Protobuf by hand: field(1, "x") is a string or message, number(5, 1) a varint.
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string envelope(const std::string& version, const std::string& kind, const std::string& message) {
  return std::string("k8s\0", 4) + field(1, field(1, version) + field(2, kind)) + field(2, message) +
         field(3, "");
}

TEST(Body, ObjectsOfTypedClientsComeAsProtobuf) {
  const auto read = [](const std::string& bytes) {
    return read_object(request_of(Method::post, "/x", bytes, "application/vnd.kubernetes.protobuf"));
  };
  const std::string metadata =
      field(1, "team") + field(2, "") + field(8, "") + field(11, field(1, "a") + field(2, "b"));
  const auto space =
      read(envelope("v1", "Namespace", field(1, metadata) + field(2, "") + field(3, field(1, ""))));
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(space->value, *parse_json(R"({"apiVersion":"v1","kind":"Namespace","spec":{},"status":{},
      "metadata":{"name":"team","labels":{"a":"b"}}})"));
  const std::string data = field(2, field(1, "k") + field(2, "v1")) + field(2, field(1, "e") + field(2, ""));
  const auto secret =
      read(envelope("v1", "Secret", field(1, field(1, "s")) + data + field(3, "Opaque") + number(5, 1)));
  ASSERT_TRUE(secret.ok());
  EXPECT_EQ(secret->value, *parse_json(R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},
      "data":{"k":"djE=","e":""},"type":"Opaque","immutable":true})"));
  const std::string renewed = field(1, "me") + number(2, 15) + field(4, number(1, 1) + number(2, 0));
  const auto lease = read(envelope("coordination.k8s.io/v1", "Lease", field(2, renewed)));
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(lease->value, *parse_json(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
      "spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"1970-01-01T00:00:01.000000Z"}})"));
  EXPECT_EQ(code_of(read(envelope("v1", "Pod", "")).error()), 415);
  for (const std::string& bad :
       {envelope("v1", "Namespace", field(1, field(1, "\xff"))), envelope("v1", "Namespace", number(1, 1)),
        envelope("v1", "Namespace", "\x0a\x7f"), std::string("k8s\0\x0a\x7f", 6), std::string("k8s")})
    EXPECT_EQ(code_of(read(bad).error()), 400);
}

TEST(Body, MediaTypesAreTakenAtTheirWord) {
  const auto code = [](std::string body, const char* type) {
    const auto read = read_object(request_of(Method::post, "/x", std::move(body), type));
    return read ? 200 : code_of(read.error());
  };
  EXPECT_EQ(code("{}", "application/json; charset=utf-8"), 200);
  EXPECT_EQ(code("{}", "application/vnd.kubernetes.protobuf"), 400);
  EXPECT_EQ(code("{}", "application/yaml"), 415);
  EXPECT_EQ(code("[]", "application/json"), 400);
  EXPECT_EQ(code("{", "application/json"), 400);
  EXPECT_EQ(code("", "application/json"), 400);
  EXPECT_EQ(code(std::string(200, '[') + std::string(200, ']'), "application/json"), 400);
}

TEST(Body, PatchTypeFollowsContentType) {
  const auto type = [](std::string body, const char* media) {
    return read_patch(request_of(Method::patch, "/x", std::move(body), media));
  };
  EXPECT_EQ(type("[]", "application/json-patch+json")->type, registry::PatchType::json);
  EXPECT_EQ(type("{}", "application/apply-patch+yaml")->type, registry::PatchType::apply);
  EXPECT_EQ(code_of(type("{}", "application/json-patch+json").error()), 400);
  EXPECT_EQ(code_of(type("{}", "application/json").error()), 415);
  EXPECT_EQ(code_of(type("a: b", "application/apply-patch+yaml").error()), 400);
}

TEST(Options, WhatCannotBeUnderstoodIsRefused) {
  const Caller caller = make_caller("jane", {"system:masters"});
  const auto write = [&](const char* raw, std::optional<registry::PatchType> patch) {
    const auto options =
        write_options(request_of(Method::post, raw, "{}", "application/json"), caller, patch);
    return options ? 200 : code_of(options.error());
  };
  EXPECT_EQ(write("/x?dryRun=All&fieldValidation=Strict&fieldManager=m", std::nullopt), 200);
  EXPECT_EQ(write("/x?dryRun=Some", std::nullopt), 422);
  EXPECT_EQ(write("/x?fieldValidation=Loose", std::nullopt), 422);
  EXPECT_EQ(write("/x", registry::PatchType::apply), 422);
  EXPECT_EQ(write("/x?force=true", registry::PatchType::merge), 422);
  EXPECT_EQ(write("/x?force=true&fieldManager=m", registry::PatchType::apply), 200);
  const auto list = [](const char* raw) {
    const auto options = list_options(target_of(raw).query);
    return options ? 200 : code_of(options.error());
  };
  EXPECT_EQ(list("/x?limit=5&labelSelector=a%3Db"), 200);
  EXPECT_EQ(list("/x?limit=-1"), 400);
  EXPECT_EQ(list("/x?limit=many"), 400);
  EXPECT_EQ(list("/x?labelSelector=a%3D%3D%3Db"), 400);
  EXPECT_EQ(list("/x?sendInitialEvents=true"), 422);
}

TEST(Options, ManagerIsTheFirstWordOfTheUserAgent) {
  http::Request request = request_of(Method::post, "/x", "{}", "application/json");
  request.headers.add("User-Agent", "kubectl/v1.30.0 (linux/amd64)");
  EXPECT_EQ(write_options(request, make_caller("a", {}), std::nullopt)->field_manager, "kubectl");
}

TEST(Options, DeleteOptionsComeFromBodyAndQuery) {
  const Caller caller = make_caller("jane", {"system:masters"});
  const Json body = *parse_json(
      R"({"kind":"DeleteOptions","propagationPolicy":"Orphan","preconditions":{"uid":"u"},"dryRun":["All"]})");
  const auto options = delete_options(target_of("/x?gracePeriodSeconds=0").query, body, caller);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->propagation, registry::Propagation::orphan);
  EXPECT_EQ(options->uid, "u");
  EXPECT_EQ(options->grace_period_seconds, 0);
  EXPECT_TRUE(options->dry_run);
  const Json wrong = *parse_json(R"({"propagationPolicy":"Never"})");
  EXPECT_EQ(code_of(delete_options({}, wrong, caller).error()), 422);
}

TEST(Review, ProtobufOfKubectlIsRead) {
  // k8s\0, TypeMeta{authorization.k8s.io/v1, SelfSubjectAccessReview}, spec.resourceAttributes{x, get, nodes}
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
  };
  const std::string type = field(1, "authorization.k8s.io/v1") + field(2, "SelfSubjectAccessReview");
  const std::string attributes = field(1, "x") + field(2, "get") + field(5, "nodes");
  const std::string message = field(1, "") + field(2, field(1, attributes));
  const std::string bytes = std::string("k8s\0", 4) + field(1, type) + field(2, message);
  const auto review = decode_review(bytes);
  ASSERT_TRUE(review.ok());
  EXPECT_EQ(review->get_string("kind"), "SelfSubjectAccessReview");
  EXPECT_EQ(review->find_path({"spec", "resourceAttributes", "resource"})->as_string(), "nodes");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    (void)decode_review(std::string_view(bytes).substr(0, cut));  // must not read beyond its end
  EXPECT_FALSE(decode_review("k8s").ok());
}

}  // namespace
}  // namespace moor::doors::kube
