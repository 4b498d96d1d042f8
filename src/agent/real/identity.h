// Who a node is to the server: a key that never leaves D/pki, a certificate for system:node:NAME, and the CA
// that the server must be signed by.
//
// The first time the bootstrap token is shown. Whom it is shown to is settled before: the token file carries
// the SHA-256 of the CA's certificate (TOKEN:SHA256), which is fetched and compared; or --ca-file names the
// CA. A certificate is renewed with itself when a third of its time is left.
#pragma once

#include <string>

#include "base/cancel.h"
#include "base/loop.h"
#include "http/client.h"

namespace moor::agent {

struct IdentityOptions {
  http::Url server;
  std::string node;
  std::string directory;   // D
  std::string token_file;  // may be empty once there is a certificate
  std::string ca_file;
};

struct NodeIdentity {
  http::TlsClientOptions tls;
  WallTime renew_at;
};

// Reads or gets it. unavailable: the server does not answer, try again; anything else is for a person to
// mend. Blocks a little on small files: at the start, and when a certificate is renewed.
Task<Result<NodeIdentity>> obtain_identity(Loop& loop, IdentityOptions options, CancelToken token);

}  // namespace moor::agent
