// What `moord server` keeps in its directory: the CA and certificates (pki/), the administrator's token and
// kubeconfig. Made at the first start, renewed when they run out, left alone otherwise. Blocks: at start-up.
//
//   D/pki/{ca,server,admin}.{crt,key}   D/admin.token, D/bootstrap.token (0600)   D/kubeconfig (0600)
//   D/store/
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "http/certificates.h"
#include "http/url.h"

namespace moor::cmd {

struct ServerFiles {
  std::string authority_pem;
  http::Identity authority;
  // With which nodes get their first certificate. The file has it and, after a colon, the SHA-256 of the CA's
  // certificate, so that a node knows that it speaks to this server before it shows the token.
  std::string bootstrap_token;
  http::Identity server;
  http::Identity admin;
  std::string admin_token;
};

struct ServerPlace {
  std::filesystem::path directory;
  std::string host;                          // that clients reach us at: stands in the server's certificate
  std::vector<std::string> more_hosts = {};  // these too
};

// An authority whose key or certificate is missing or does not fit is an error, never replaced: everything
// that was ever signed by it would stop being accepted.
Result<ServerFiles> prepare_server_files(const ServerPlace& place, Random& random, WallTime now);
// Only the token, for a server without TLS.
Result<std::string> prepare_admin_token(const std::filesystem::path& directory, Random& random);
Result<void> make_private_directory(const std::filesystem::path& directory);

// The administrator's way in. `files` absent: plain HTTP on the loopback.
Result<void> write_kubeconfig(const std::filesystem::path& directory, const http::Url& url,
                              const ServerFiles* files);

}  // namespace moor::cmd
