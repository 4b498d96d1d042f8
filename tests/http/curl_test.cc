// curl as a client that we did not write. Skipped where it is not installed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support.h"

namespace moor::http::test {
namespace {

class Curl : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("curl --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "curl is not installed";
    directory_ = testing::TempDir() + "/moor-curl-XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  static std::string run(const std::string& arguments) {
    FILE* pipe = ::popen(("curl -sS --max-time 20 " + arguments + " 2>&1").c_str(), "r");
    std::string out;
    char buffer[4096];
    for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      out.append(buffer, count);
    ::pclose(pipe);
    return out;
  }
  std::string directory_;
};

TEST_F(Curl, SpeaksToThePlainServer) {
  TestServer server({}, {{"127.0.0.1:0", nullptr}, {"unix:" + directory_ + "/s", nullptr}});
  const std::string url = server.url().to_string();
  EXPECT_EQ(run(url + "/echo/a%20b?x=1"), "GET [echo] [a b] x=1\n");
  EXPECT_EQ(run("-d hello " + url + "/echo"), "POST [echo]\nhello");
  EXPECT_EQ(run("-X DELETE " + url + "/echo"), "DELETE [echo]\n");
  EXPECT_EQ(run("-H 'Transfer-Encoding: chunked' -d hello " + url + "/echo"), "POST [echo]\nhello");
  EXPECT_EQ(run(url + "/stream?count=3"), "line 0\nline 1\nline 2\n");
  EXPECT_EQ(run("-0 " + url + "/stream?count=2"), "line 0\nline 1\n");
  EXPECT_EQ(run("--unix-socket " + directory_ + "/s http://h/echo"), "GET [echo]\n");
  EXPECT_EQ(run("--path-as-is -o /dev/null -w '%{http_code}' " + url + "/a/../b"), "400");
  EXPECT_EQ(run(url + "/echo/1 " + url + "/echo/2 -w '%{num_connects}\n'"),
            "GET [echo] [1]\n1\nGET [echo] [2]\n0\n");
  const std::string file = directory_ + "/body";
  std::ofstream(file) << std::string(2'000'000, 'z');  // large enough for curl to wait for 100 Continue
  EXPECT_EQ(run("--data-binary @" + file + " " + url + "/echo").size(), 2'000'000U + 12);
  std::ofstream(file) << std::string(4'000'000, 'z');
  EXPECT_EQ(run("-o /dev/null -w '%{http_code}' --data-binary @" + file + " " + url + "/echo"), "413");
}

TEST_F(Curl, SpeaksToTheTlsServer) {
  const auto validity = Validity::days_from(RealClock().wall(), 1);
  const auto authority = make_authority("ca", validity).value();
  const auto identity =
      issue_certificate(authority,
                        {CertificateUse::server, "moord", {}, {"localhost"}, {"127.0.0.1"}, validity})
          .value();
  const auto client =
      issue_certificate(authority, {CertificateUse::client, "admin", {"masters"}, {}, {}, validity}).value();
  ASSERT_TRUE(save_identity(client, {directory_ + "/c.crt", directory_ + "/c.key"}).ok());
  ASSERT_TRUE(write_file_atomically(directory_ + "/ca.crt", authority.certificate_pem, 0644).ok());
  const auto context =
      TlsContext::server({identity.certificate_pem, identity.key_pem, authority.certificate_pem}).value();
  TestServer server({}, {{"127.0.0.1:0", context}});
  const std::string url = server.url().to_string();
  const std::string trust = "--cacert " + directory_ + "/ca.crt ";
  EXPECT_EQ(run(trust + url + "/info"), "tls=true\n");
  EXPECT_EQ(run(trust + "--cert " + directory_ + "/c.crt --key " + directory_ + "/c.key " + url + "/info"),
            "tls=true\ncn=admin verified=true\no=masters\n");
  EXPECT_EQ(run(trust + "--tls-max 1.2 " + url + "/info"), "tls=true\n");
  EXPECT_NE(run(trust + "--tls-max 1.1 " + url + "/info"), "tls=true\n");
  EXPECT_EQ(run(trust + "--http2 -w '%{http_version}' -o /dev/null " + url + "/info"), "1.1");
  EXPECT_NE(run(url + "/info").find("certificate"), std::string::npos);
}

}  // namespace
}  // namespace moor::http::test
