#include "cmd/moord/server_files.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace moor::cmd {
namespace {

constexpr int kAuthorityDays = 3650;
constexpr int kCertificateDays = 365;
constexpr int kRenewDays = 30;
constexpr std::size_t kTokenBytes = 32;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at will fail to be read, with the reason
  return std::filesystem::exists(path, ignored);
}

http::IdentityFiles files_of(const std::filesystem::path& pki, const std::string& name) {
  return {pki / (name + ".crt"), pki / (name + ".key")};
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

Result<http::Identity> load_or_make_authority(const std::filesystem::path& pki, WallTime now) {
  const http::IdentityFiles files = files_of(pki, "ca");
  if (is_there(files.certificate_path) || is_there(files.key_path)) {
    TRY(http::Identity authority, http::load_identity(files));
    TRY_VOID(http::check_identity(authority, authority.certificate_pem));
    return authority;
  }
  TRY(http::Identity authority,
      http::make_authority("mooring-ca", http::Validity::days_from(now, kAuthorityDays)));
  TRY_VOID(http::save_identity(authority, files));
  return authority;
}

bool has_all(const std::vector<std::string>& have, const std::vector<std::string>& want) {
  return std::all_of(want.begin(), want.end(), [&](const std::string& one) {
    return std::find(have.begin(), have.end(), one) != have.end();
  });
}

// Good for a while yet, ours, and made for these names.
bool is_good(const http::Identity& identity, const http::Identity& authority,
             const http::CertificateRequest& wanted, WallTime now) {
  if (!http::check_identity(identity, authority.certificate_pem)) return false;
  const auto info = http::describe_certificate(identity.certificate_pem);
  if (!info || info->common_name != wanted.common_name) return false;
  const WallTime renew_at{info->validity.not_after.since_epoch - std::chrono::hours(24 * kRenewDays)};
  return now < renew_at && has_all(info->dns_names, wanted.dns_names) &&
         has_all(info->ip_addresses, wanted.ip_addresses);
}

Result<http::Identity> load_or_issue(const std::filesystem::path& pki, const std::string& name,
                                     const http::Identity& authority, const http::CertificateRequest& wanted,
                                     WallTime now) {
  const http::IdentityFiles files = files_of(pki, name);
  if (is_there(files.certificate_path) && is_there(files.key_path)) {
    auto identity = http::load_identity(files);
    if (identity && is_good(*identity, authority, wanted, now)) return identity;
  }
  TRY(http::Identity identity, http::issue_certificate(authority, wanted));
  TRY_VOID(http::save_identity(identity, files));
  return identity;
}

void add_host(http::CertificateRequest& request, const std::string& host) {
  if (host == "0.0.0.0" || host == "::") return;  // everywhere: no name to certify
  std::vector<std::string>& names = is_address(host) ? request.ip_addresses : request.dns_names;
  if (std::find(names.begin(), names.end(), host) == names.end()) names.push_back(host);
}

http::CertificateRequest server_request(const ServerPlace& place, WallTime now) {
  http::CertificateRequest request;
  request.use = http::CertificateUse::server;
  request.common_name = "mooring";
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1"};
  add_host(request, place.host);
  for (const std::string& host : place.more_hosts) add_host(request, host);
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') add_host(request, name.data());
  request.validity = http::Validity::days_from(now, kCertificateDays);
  return request;
}

http::CertificateRequest admin_request(WallTime now) {
  http::CertificateRequest request;
  request.common_name = "admin";
  request.organizations = {"system:masters"};
  request.validity = http::Validity::days_from(now, kCertificateDays);
  return request;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63u] : '=';
  }
  return text;
}

std::string kubeconfig_text(const std::string& server, const ServerFiles* files) {
  std::string cluster = fmt::format("    server: {}\n", server);
  std::string user = "    {}\n";
  if (files != nullptr) {
    cluster += fmt::format("    certificate-authority-data: {}\n", base64(files->authority_pem));
    user = fmt::format("    client-certificate-data: {}\n    client-key-data: {}\n",
                       base64(files->admin.certificate_pem), base64(files->admin.key_pem));
  }
  return fmt::format(
      "apiVersion: v1\nkind: Config\nclusters:\n- name: mooring\n  cluster:\n{}"
      "users:\n- name: admin\n  user:\n{}"
      "contexts:\n- name: mooring\n  context:\n    cluster: mooring\n    user: admin\n    namespace: "
      "longhorn-system\ncurrent-context: mooring\n",
      cluster, user);
}

}  // namespace

Result<void> make_private_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (directory.has_parent_path()) std::filesystem::create_directories(directory.parent_path(), error);
  if (error)
    return make_error(Errc::internal, fmt::format("make {}: {}", directory.string(), error.message()));
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error(errno, "mkdir " + directory.string());
  return {};
}

namespace {

std::string random_token(Random& random) {
  std::array<std::byte, kTokenBytes> bytes{};
  random.fill(bytes);
  std::string token;
  for (const std::byte byte : bytes) token += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return token;
}

// A file with one secret; empty: there is none yet.
Result<std::string> read_token(const std::filesystem::path& path) {
  if (!is_there(path)) return std::string();
  TRY(std::string token, http::read_small_file(path));
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.size() < kTokenBytes)
    return make_error(Errc::invalid, fmt::format("{} is too short to be a secret", path.string()));
  // Copied back from somewhere it may have lost its mode.
  if (chmod(path.c_str(), 0600) != 0) return errno_error(errno, "chmod " + path.string());
  return token;
}

Result<std::string> prepare_bootstrap_token(const std::filesystem::path& directory,
                                            const std::string& authority_pem, Random& random) {
  const std::filesystem::path path = directory / "bootstrap.token";
  TRY(std::string token, read_token(path));
  TRY(const std::string fingerprint, http::fingerprint_of_certificate(authority_pem));
  const std::string known = token;
  token.resize(std::min(token.size(), token.find(':')));
  if (token.empty()) token = random_token(random);
  const std::string text = fmt::format("{}:{}", token, fingerprint);
  if (text != known) TRY_VOID(http::write_file_atomically(path, text + "\n", 0600));
  return token;
}

}  // namespace

Result<std::string> prepare_admin_token(const std::filesystem::path& directory, Random& random) {
  const std::filesystem::path path = directory / "admin.token";
  TRY(std::string token, read_token(path));
  if (!token.empty()) return token;
  token = random_token(random);
  TRY_VOID(http::write_file_atomically(path, token + "\n", 0600));
  return token;
}

Result<ServerFiles> prepare_server_files(const ServerPlace& place, Random& random, WallTime now) {
  const std::filesystem::path pki = place.directory / "pki";
  TRY_VOID(make_private_directory(pki));
  ServerFiles files;
  TRY(files.authority, load_or_make_authority(pki, now));
  const http::Identity& authority = files.authority;
  files.authority_pem = authority.certificate_pem;
  TRY(files.server, load_or_issue(pki, "server", authority, server_request(place, now), now));
  TRY(files.admin, load_or_issue(pki, "admin", authority, admin_request(now), now));
  TRY(files.admin_token, prepare_admin_token(place.directory, random));
  TRY(files.bootstrap_token, prepare_bootstrap_token(place.directory, files.authority_pem, random));
  return files;
}

Result<void> write_kubeconfig(const std::filesystem::path& directory, const http::Url& url,
                              const ServerFiles* files) {
  http::Url reachable = url;
  if (reachable.host == "0.0.0.0" || reachable.host == "::") reachable.host = "127.0.0.1";
  const std::filesystem::path path = directory / "kubeconfig";
  const std::string text = kubeconfig_text(reachable.to_string(), files);
  if (is_there(path)) {
    const auto known = http::read_small_file(path);
    if (known && *known == text) return {};
  }
  return http::write_file_atomically(path, text, 0600);
}

}  // namespace moor::cmd
