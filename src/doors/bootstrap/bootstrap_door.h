// How a node gets its certificate: the first time with the bootstrap token, later with the certificate that
// it has.
//
//   GET  /bootstrap/v1/ca                       the CA's certificate (PEM), for anybody: it is no secret, and
//                                               who asks checks it against the fingerprint in his token file
//   POST /bootstrap/v1/nodes/NAME/certificate   {"request": PKCS #10 in PEM} → {"certificate": PEM, "ca":
//   PEM}
//
// A name belongs to the first key that asked for it until the last certificate issued for it has run out (two
// machines with one name would both act for one node). The binding is a Secret,
// kube-system/node-identity-NAME, so that several servers agree on it; deleting it frees the name for another
// machine. Renewal with the same key is always granted. One thread; registry and clock outlive the door.
#pragma once

#include <string>

#include "base/clock.h"
#include "doors/front/door.h"
#include "http/certificates.h"
#include "registry/registry.h"

namespace moor::doors {

// The group of whoever shows the bootstrap token; it gives no role, only this door looks at it.
inline constexpr std::string_view kBootstrapGroup = "system:bootstrappers:mooring";

class BootstrapDoor final : public Door {
 public:
  struct Env {
    registry::Registry& registry;
    const Clock& clock;
  };
  // How long a node's certificate is good for.
  static constexpr int kDays = 90;

  BootstrapDoor(Env env, http::Identity authority) : env_(env), authority_(std::move(authority)) {}

  http::Lane classify(const http::Request& request) const override;
  bool is_open(const http::Request& request) const override;
  Task<http::Response> handle(http::Request request, Caller caller) override;
  http::Response refuse(int status, const std::string& message, int retry_after_seconds) const override;

 private:
  Task<registry::Answer<Json>> certify(std::string node, std::string body);
  // The name is this key's until `until`, from now on. Errc::conflict: it is another's.
  Task<registry::Answer<void>> bind(std::string node, std::string fingerprint, WallTime until);

  Env env_;
  http::Identity authority_;
};

}  // namespace moor::doors
