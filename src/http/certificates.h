// Keys and certificates for a cluster of our own: a CA, server certificates with names and addresses, client
// certificates whose subject says who it is (CN: the user, O: groups). ECDSA P-256. Files are written whole
// or not at all, keys for their owner only. All calls block a little (key generation, files): at start-up.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace moor::http {

struct Identity {
  std::string certificate_pem;
  std::string key_pem;
};

struct Validity {
  WallTime not_before;
  WallTime not_after;
  // From an hour ago, so that a machine whose clock is a little behind accepts it.
  static Validity days_from(WallTime now, int days);
};

enum class CertificateUse { server, client };

struct CertificateRequest {
  CertificateUse use = CertificateUse::client;
  std::string common_name;
  std::vector<std::string> organizations;
  std::vector<std::string> dns_names;     // server
  std::vector<std::string> ip_addresses;  // server
  Validity validity;
};

struct CertificateInfo {
  std::string common_name;
  std::vector<std::string> organizations;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  std::string serial;  // hexadecimal
  Validity validity;
  bool is_authority = false;
};

Result<Identity> make_authority(const std::string& common_name, Validity validity);
Result<Identity> issue_certificate(const Identity& authority, const CertificateRequest& request);
Result<CertificateInfo> describe_certificate(const std::string& certificate_pem);
// The certificate is signed by the authority, and the key belongs to the certificate. Says nothing about
// time.
Result<void> check_identity(const Identity& identity, const std::string& authority_pem);

// For one who keeps his key to himself: a new key, and a request
// (PKCS #10, signed with it) to be certified.
Result<std::string> make_key();
// `key_pem` as make_key() or an earlier Identity has it.
Result<std::string> make_certificate_request(const std::string& key_pem, const std::string& common_name);
// Certifies the request's key, if the request proves that its sender has the key. What the request says about
// names is not looked at: `wanted` alone decides.
Result<std::string> certify(const Identity& authority, const std::string& request_pem,
                            const CertificateRequest& wanted);
// SHA-256 in hexadecimal: of the key that a request or a certificate is about, and of a certificate itself.
Result<std::string> fingerprint_of_request_key(const std::string& request_pem);
Result<std::string> fingerprint_of_certificate(const std::string& certificate_pem);

// Certificate 0644, key 0600. The key is on disk before the certificate: a certificate without its key is
// never left behind by a crash.
struct IdentityFiles {
  std::string certificate_path;
  std::string key_path;
};
Result<void> save_identity(const Identity& identity, const IdentityFiles& files);
Result<Identity> load_identity(const IdentityFiles& files);

// Replaces the file in one step; after it returns the content survives a power cut.
Result<void> write_file_atomically(const std::string& path, const std::string& content, unsigned mode);
Result<std::string> read_small_file(const std::string& path);  // up to 1 MiB

}  // namespace moor::http
