#include <gtest/gtest.h>

#include "doors/auth/authenticator.h"
#include "doors/auth/authorizer.h"

namespace moor::doors {
namespace {

http::Request request_of(std::string authorization) {
  http::Request request;
  request.peer.tls = true;
  request.peer.address = "127.0.0.1:4711";
  if (!authorization.empty()) request.headers.add("Authorization", std::move(authorization));
  return request;
}

struct Fixture : testing::Test {
  ManualClock clock;
  Authenticator authenticator{clock};
  void SetUp() override {
    authenticator.add_token({"0123456789abcdef", "admin", {"system:masters"}});
    authenticator.add_token({"node-a-0123456789", "system:node:a", {"system:nodes"}});
  }
};
using Authentication = Fixture;

TEST_F(Authentication, WithoutCredentialsIsAnonymous) {
  const auto caller = authenticator.authenticate(request_of(""));
  ASSERT_TRUE(caller.ok());
  EXPECT_TRUE(caller->is_anonymous());
  EXPECT_EQ(caller->role, Role::none);
}

TEST_F(Authentication, TokenNamesUserAndRole) {
  const auto caller = authenticator.authenticate(request_of("Bearer 0123456789abcdef"));
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->role, Role::admin);
  EXPECT_EQ(caller->identity.user, "admin");
  EXPECT_EQ(caller->from, "127.0.0.1:4711");
}

TEST_F(Authentication, WrongTokenIsNotTakenForNone) {
  for (const char* header : {"Bearer 0123456789abcdeX", "Bearer ", "Bearer 0123456789abcde", "Basic eDp5"})
    EXPECT_TRUE(authenticator.authenticate(request_of(header)).is(Errc::unauthorized)) << header;
}

TEST_F(Authentication, CertificateThatIsNotVerifiedIsRefusedEvenWithGoodToken) {
  http::Request request = request_of("Bearer 0123456789abcdef");
  request.peer.certificate = http::ClientCertificate{"admin", {"system:masters"}, false, "has expired"};
  const auto caller = authenticator.authenticate(request);
  ASSERT_TRUE(caller.is(Errc::unauthorized));
  EXPECT_NE(caller.error().message.find("has expired"), std::string::npos);
}

TEST_F(Authentication, NodeNeedsGroupAndName) {
  EXPECT_EQ(make_caller("system:node:a", {"system:nodes"}).identity.node, "a");
  EXPECT_EQ(make_caller("system:node:a", {"others"}).role, Role::none);
  EXPECT_EQ(make_caller("a", {"system:nodes"}).role, Role::none);
  EXPECT_EQ(make_caller("system:node:", {"system:nodes"}).role, Role::none);
}

TEST_F(Authentication, PagesInABrowserAreKeptOutOfThePlainListener) {
  authenticator.trust_plain_loopback();
  const auto ask = [&](const char* host, const char* origin) {
    http::Request request;
    request.peer.address = "127.0.0.1:4711";
    request.headers.add("Host", host);
    if (*origin != '\0') request.headers.add("Origin", origin);
    return authenticator.authenticate(request);
  };
  EXPECT_EQ(ask("127.0.0.1:6440", "")->role, Role::admin);
  EXPECT_EQ(ask("localhost:6440", "http://localhost:6440")->role, Role::admin);
  EXPECT_TRUE(ask("evil.example:6440", "").is(Errc::forbidden));
  EXPECT_TRUE(ask("127.0.0.1:6440", "http://evil.example").is(Errc::forbidden));
  EXPECT_TRUE(ask("127.0.0.1:6440", "null").is(Errc::forbidden));
}

TEST(TokenFile, LinesHaveKubernetesForm) {
  const auto tokens = parse_tokens("# ours\n\n0123456789abcdef,jane,1,\"a,b\"\nfedcba9876543210,joe\n");
  ASSERT_TRUE(tokens.ok());
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].groups, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*tokens)[1].user, "joe");
}

TEST(TokenFile, BadLinesAreNamedWithoutTheirSecret) {
  for (const char* text : {"secretsecretsecret\n", "short,jane\n", "secretsecretsecret,\"jane\n"}) {
    const auto tokens = parse_tokens(text);
    ASSERT_TRUE(tokens.is(Errc::invalid)) << text;
    EXPECT_NE(tokens.error().message.find("line 1"), std::string::npos);
    EXPECT_EQ(tokens.error().message.find("secretsecret"), std::string::npos);
  }
}

TEST(Authorization, RolesAreOneTable) {
  const Caller admin = make_caller("admin", {"system:masters"});
  const Caller view = make_caller("jane", {"mooring:view"});
  const Caller node = make_caller("system:node:a", {"system:nodes"});
  const Caller nobody = make_caller("joe", {"others"});
  const Attributes list{"list", "longhorn.io", "volumes", "", "", ""};
  const Attributes create{"create", "longhorn.io", "volumes", "", "x", ""};
  const Attributes secret{"get", "", "secrets", "", "x", "s"};
  const Attributes review{"create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "", ""};
  EXPECT_TRUE(authorize(admin, create).allowed);
  EXPECT_TRUE(authorize(admin, secret).allowed);
  EXPECT_TRUE(authorize(view, list).allowed);
  EXPECT_FALSE(authorize(view, create).allowed);
  EXPECT_FALSE(authorize(view, secret).allowed);
  EXPECT_TRUE(authorize(node, list).allowed);
  EXPECT_FALSE(authorize(node, secret).allowed);
  EXPECT_TRUE(authorize(node, {"get", "", "secrets", "", "x", "v-token"}).allowed);
  EXPECT_FALSE(authorize(node, {"list", "", "secrets", "", "x", ""}).allowed);
  EXPECT_FALSE(authorize(nobody, list).allowed);
  EXPECT_TRUE(authorize(nobody, review).allowed);
  EXPECT_EQ(describe_refusal(view, create),
            "User \"jane\" cannot create resource \"volumes\" in API group \"longhorn.io\" in the namespace "
            "\"x\"");
}

}  // namespace
}  // namespace moor::doors
