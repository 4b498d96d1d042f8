#include "http/certificates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace moor::http {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr WallTime kNow{seconds(1'800'000'000)};

CertificateRequest client_request() {
  return {CertificateUse::client,
          "node-1",
          {"system:nodes",
           "b\xc3\xbc"
           "ro"},
          {},
          {},
          Validity::days_from(kNow, 30)};
}

class TemporaryDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/moor-http-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

using CertificateFiles = TemporaryDirectory;

TEST(Certificates, SayWhoTheyAreAndHowLong) {
  const auto authority = make_authority("test CA", Validity::days_from(kNow, 3650)).value();
  const auto about_authority = describe_certificate(authority.certificate_pem).value();
  EXPECT_TRUE(about_authority.is_authority);
  EXPECT_EQ(about_authority.common_name, "test CA");

  const auto client = issue_certificate(authority, client_request()).value();
  const auto info = describe_certificate(client.certificate_pem).value();
  EXPECT_FALSE(info.is_authority);
  EXPECT_EQ(info.common_name, "node-1");
  EXPECT_EQ(info.organizations, (std::vector<std::string>{"system:nodes",
                                                          "b\xc3\xbc"
                                                          "ro"}));
  EXPECT_EQ(info.validity.not_before.since_epoch, kNow.since_epoch - hours(1));
  EXPECT_EQ(info.validity.not_after.since_epoch, kNow.since_epoch + hours(24 * 30));
  EXPECT_TRUE(check_identity(client, authority.certificate_pem).ok());
}

TEST(Certificates, OneWhoKeepsHisKeyGetsItCertified) {
  const auto authority = make_authority("ca", Validity::days_from(kNow, 3650)).value();
  const std::string key = make_key().value();
  const std::string request = make_certificate_request(key, "anything").value();
  const std::string certificate = certify(authority, request, client_request()).value();
  EXPECT_EQ(describe_certificate(certificate)->common_name, "node-1") << "not what the request says";
  EXPECT_TRUE(check_identity({certificate, key}, authority.certificate_pem).ok());
  EXPECT_EQ(fingerprint_of_request_key(request)->size(), 64u);
  EXPECT_EQ(fingerprint_of_request_key(request).value(),
            fingerprint_of_request_key(make_certificate_request(key, "else").value()).value());
  EXPECT_NE(fingerprint_of_certificate(certificate).value(),
            fingerprint_of_certificate(authority.certificate_pem).value());
  EXPECT_TRUE(certify(authority, "nonsense", client_request()).is(Errc::invalid));
}

TEST(Certificates, NameTheirServer) {
  const auto authority = make_authority("ca", Validity::days_from(kNow, 1)).value();
  CertificateRequest request{
      CertificateUse::server,      "moord", {}, {"localhost", "*.example.org"}, {"127.0.0.1", "::1"},
      Validity::days_from(kNow, 1)};
  const auto info = describe_certificate(issue_certificate(authority, request)->certificate_pem).value();
  EXPECT_EQ(info.dns_names, request.dns_names);
  EXPECT_EQ(info.ip_addresses, request.ip_addresses);
}

TEST(Certificates, HaveDifferentLongSerialNumbers) {
  const auto authority = make_authority("ca", Validity::days_from(kNow, 1)).value();
  const auto first =
      describe_certificate(issue_certificate(authority, client_request())->certificate_pem).value();
  const auto second =
      describe_certificate(issue_certificate(authority, client_request())->certificate_pem).value();
  EXPECT_NE(first.serial, second.serial);
  EXPECT_EQ(first.serial.size(), 32U);
}

TEST(Certificates, RefuseNamesThatWouldSmuggleOthers) {
  const auto authority = make_authority("ca", Validity::days_from(kNow, 1)).value();
  auto request = client_request();
  request.dns_names = {"a,IP:1.2.3.4"};
  EXPECT_TRUE(issue_certificate(authority, request).is(Errc::invalid));
  request = client_request();
  request.ip_addresses = {"1.2.3"};
  EXPECT_TRUE(issue_certificate(authority, request).is(Errc::invalid));
  request = client_request();
  request.validity.not_after = request.validity.not_before;
  EXPECT_TRUE(issue_certificate(authority, request).is(Errc::invalid));
}

TEST(Certificates, DoNotPassForThoseOfAnotherAuthority) {
  const auto ours = make_authority("same name", Validity::days_from(kNow, 1)).value();
  const auto foreign = make_authority("same name", Validity::days_from(kNow, 1)).value();
  const auto client = issue_certificate(foreign, client_request()).value();
  EXPECT_TRUE(check_identity(client, ours.certificate_pem).is(Errc::invalid));
  const Identity mixed{client.certificate_pem, issue_certificate(foreign, client_request())->key_pem};
  EXPECT_TRUE(check_identity(mixed, foreign.certificate_pem).is(Errc::invalid));
  EXPECT_TRUE(issue_certificate({ours.certificate_pem, foreign.key_pem}, client_request()).is(Errc::invalid));
  EXPECT_TRUE(describe_certificate("nonsense").is(Errc::invalid));
}

TEST_F(CertificateFiles, KeepKeysForTheirOwner) {
  const auto authority = make_authority("ca", Validity::days_from(kNow, 1)).value();
  const IdentityFiles files{directory_ + "/ca.crt", directory_ + "/ca.key"};
  ASSERT_TRUE(save_identity(authority, files).ok());
  struct stat status {};
  ASSERT_EQ(::stat(files.key_path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(files.certificate_path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);
  const auto loaded = load_identity(files).value();
  EXPECT_EQ(loaded.key_pem, authority.key_pem);
  EXPECT_EQ(loaded.certificate_pem, authority.certificate_pem);
}

TEST_F(CertificateFiles, AreReplacedInOneStepAndLeaveNothingBehind) {
  const std::string path = directory_ + "/token";
  ASSERT_TRUE(write_file_atomically(path, "old", 0600).ok());
  ASSERT_TRUE(write_file_atomically(path, "new", 0600).ok());
  EXPECT_EQ(read_small_file(path).value(), "new");
  EXPECT_FALSE(write_file_atomically(directory_, "x", 0600).ok());
  EXPECT_FALSE(write_file_atomically(directory_ + "/none/file", "x", 0600).ok());
  EXPECT_TRUE(read_small_file(directory_ + "/missing").is(Errc::not_found));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_)) ++entries;
  EXPECT_EQ(entries, 1);
}

}  // namespace
}  // namespace moor::http
