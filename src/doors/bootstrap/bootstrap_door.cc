#include "doors/bootstrap/bootstrap_door.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/timestamp.h"
#include "model/core/secret.h"
#include "model/names.h"

namespace moor::doors {
namespace {

constexpr std::string_view kSpace = "kube-system";
constexpr std::string_view kIdentityType = "mooring.io/node-identity";
constexpr int kTries = 4;

http::Response json_answer(int status, const Json& json) {
  return http::Response::text(status, to_text(json) + "\n", "application/json");
}

int code_of(const registry::Refusal& refusal) {
  switch (refusal.error.code) {
    case Errc::invalid: return 422;
    case Errc::conflict:
    case Errc::already_exists: return 409;
    case Errc::forbidden: return 403;
    case Errc::unavailable: return 503;
    default: return 500;
  }
}

registry::ResourceName identity_of(const std::string& node) {
  const auto& kind = kind_info(static_cast<const model::core::Secret*>(nullptr));
  return {&kind, std::string(kSpace), "node-identity-" + node, ""};
}

bool is_bootstrapper(const Caller& caller) {
  const auto& groups = caller.identity.groups;
  return std::find(groups.begin(), groups.end(), kBootstrapGroup) != groups.end();
}

std::string text_of(const model::core::Secret& secret, const std::string& key) {
  const auto found = secret.data.find(key);
  return found == secret.data.end() ? "" : model::core::from_base64(found->second).value_or("");
}

// Why the name cannot be given to this key; empty: it can.
std::string objection(const model::core::Secret& bound, const std::string& node,
                      const std::string& fingerprint, WallTime now) {
  const std::string other = text_of(bound, "key");
  if (other.empty() || other == fingerprint) return {};
  const auto until = parse_timestamp(text_of(bound, "until"));
  if (until && *until < now) return {};
  return fmt::format(
      "node \"{}\" has another key already: two nodes with one name? If the old machine is gone for good, "
      "delete the Secret {}/node-identity-{}; else choose another name",
      node, kSpace, node);
}

}  // namespace

http::Lane BootstrapDoor::classify(const http::Request& request) const {
  return request.method == http::Method::get ? http::Lane::read : http::Lane::mutating;
}

bool BootstrapDoor::is_open(const http::Request& request) const {
  const auto& segments = request.target.segments;
  return request.method == http::Method::get && segments.size() == 3 && segments[1] == "v1" &&
         segments[2] == "ca";
}

http::Response BootstrapDoor::refuse(int status, const std::string& message, int retry_after_seconds) const {
  http::Response response = json_answer(status, Json::object({{"kind", "Status"},
                                                              {"apiVersion", "v1"},
                                                              {"status", "Failure"},
                                                              {"message", message},
                                                              {"code", status}}));
  if (retry_after_seconds > 0) response.headers.set("Retry-After", std::to_string(retry_after_seconds));
  return response;
}

Task<registry::Answer<void>> BootstrapDoor::bind(std::string node, std::string fingerprint, WallTime until) {
  registry::WriteOptions options;
  options.field_manager = "moord-bootstrap";
  for (int attempt = 0; attempt < kTries; ++attempt) {
    registry::ResourceName what = identity_of(node);
    const auto known = co_await env_.registry.get(what, "");
    if (!known && !known.is(Errc::not_found)) co_return known.error();
    Json object = known ? *known : Json::object();
    CO_TRY(auto secret, model::decode<model::core::Secret>(object));
    if (const std::string why = objection(secret, node, fingerprint, env_.clock.wall()); !why.empty())
      co_return make_error(Errc::conflict, why);
    secret.metadata.name = "node-identity-" + node;
    secret.metadata.space = kSpace;
    secret.type = kIdentityType;
    secret.data["key"] = model::core::to_base64(fingerprint);
    secret.data["until"] = model::core::to_base64(format_timestamp(until));
    model::encode_onto(object, secret);
    registry::ResourceName where = std::move(what);
    registry::Answer<registry::Written> written = make_error(Errc::internal, "not tried");
    if (known) {
      written = co_await env_.registry.update(where, std::move(object), options);
    } else {
      where.name.clear();
      written = co_await env_.registry.create(where, std::move(object), options);
    }
    if (written) co_return registry::Answer<void>();
    // Another server, or another request: whoever was first has the name.
    if (!written.is(Errc::conflict) && !written.is(Errc::already_exists)) co_return written.error();
  }
  co_return make_error(Errc::unavailable, "too many at once ask for this name");
}

Task<registry::Answer<Json>> BootstrapDoor::certify(std::string node, std::string body) {
  CO_TRY(const Json wanted, parse_json(body));
  const auto request = wanted.get_string("request");
  if (!request) co_return make_error(Errc::invalid, "\"request\", a PKCS #10 request in PEM, is missing");
  http::CertificateRequest subject;
  subject.common_name = std::string(kNodeUserPrefix) + node;
  subject.organizations = {std::string(kNodeGroup)};
  subject.validity = http::Validity::days_from(env_.clock.wall(), kDays);
  CO_TRY(const std::string fingerprint, http::fingerprint_of_request_key(std::string(*request)));
  CO_TRY(const std::string certificate, http::certify(authority_, std::string(*request), subject));
  CO_TRY_VOID(co_await bind(node, fingerprint, subject.validity.not_after));
  log_info("certificate issued", {{"node", node}, {"key", fingerprint}});
  co_return Json::object({{"certificate", certificate}, {"ca", authority_.certificate_pem}});
}

Task<http::Response> BootstrapDoor::handle(http::Request request, Caller caller) {
  if (is_open(request))
    co_return http::Response::text(200, authority_.certificate_pem, "application/x-pem-file");
  const std::vector<std::string> segments = request.target.segments;
  if (segments.size() != 5 || segments[1] != "v1" || segments[2] != "nodes" || segments[4] != "certificate")
    co_return refuse(404, "the path is /bootstrap/v1/nodes/NAME/certificate", 0);
  if (request.method != http::Method::post) co_return refuse(405, "a certificate is asked for by POST", 0);
  const std::string& node = segments[3];
  const bool may = is_bootstrapper(caller) || caller.role == Role::admin ||
                   (caller.role == Role::node && caller.identity.node == node);
  if (!may)
    co_return refuse(403,
                     fmt::format("\"{}\" may not get a certificate for node \"{}\": that takes the "
                                 "bootstrap token, or the node's own certificate",
                                 caller.identity.user, node),
                     0);
  if (!model::is_dns1123_subdomain(node))
    co_return refuse(
        422, fmt::format("\"{}\" is no name for a node: small letters, digits, '-' and '.'", node), 0);
  const auto answer = co_await certify(node, std::move(request.body));
  if (answer) co_return json_answer(201, *answer);
  log_warn("certificate refused", {{"node", node}, {"from", caller.from}, {"error", answer.error().error}});
  co_return refuse(code_of(answer.error()), answer.error().error.message, 0);
}

}  // namespace moor::doors
