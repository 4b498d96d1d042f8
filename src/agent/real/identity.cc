#include "agent/real/identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/json.h"
#include "base/log.h"
#include "http/certificates.h"

namespace moor::agent {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration kServerAnswersWithin = 15s;

bool is_there(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at fails to be read, with the reason
  return fs::exists(path, ignored);
}

struct Token {
  std::string secret;
  std::string fingerprint;  // of the CA; may be empty
};

Result<Token> read_token(const std::string& path) {
  if (path.empty())
    return make_error(
        Errc::invalid,
        "--token-file is needed for the first certificate: bootstrap.token in the server's directory");
  TRY(std::string text, http::read_small_file(path));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t colon = text.find(':');
  if (text.substr(0, colon).size() < 16) return make_error(Errc::invalid, path + " holds no bootstrap token");
  return Token{text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
}

std::string message_in(const http::Response& response) {
  const auto json = parse_json(response.body_view());
  const auto message = json ? json->get_string("message") : std::nullopt;
  return message ? std::string(*message) : fmt::format("the server answered {}", response.status);
}

Task<Result<http::Response>> send(Loop& loop, http::ClientOptions client, http::Request request,
                                  CancelToken token) {
  CO_TRY(const auto connection, http::Client::make(loop, std::move(client)));
  auto response =
      co_await connection->send(std::move(request), token, loop.clock().now() + kServerAnswersWithin);
  co_return response;
}

// The CA of a server that we know only by its fingerprint: fetched from anybody, believed if it fits.
Task<Result<std::string>> fetch_authority(Loop& loop, IdentityOptions options, CancelToken token) {
  CO_TRY(const Token pin, read_token(options.token_file));
  if (pin.fingerprint.empty())
    co_return make_error(
        Errc::invalid,
        options.token_file + " does not say which CA the server has (TOKEN:SHA256); give --ca-file");
  http::ClientOptions client;
  client.endpoint = options.server;
  client.tls.verify = false;  // nothing secret is sent, and what comes is checked below
  http::Request request = http::Request::to(http::Method::get, "/bootstrap/v1/ca");
  CO_TRY(const http::Response response, co_await send(loop, std::move(client), std::move(request), token));
  if (response.status != 200) co_return make_error(Errc::unavailable, message_in(response));
  std::string pem(response.body_view());
  CO_TRY(const std::string found, http::fingerprint_of_certificate(pem));
  if (found != pin.fingerprint)
    co_return make_error(Errc::unauthorized,
                         fmt::format("{} is not the server of this token: its CA is {}, expected {}",
                                     options.server.to_string(), found, pin.fingerprint));
  co_return pem;
}

struct Paths {
  explicit Paths(const std::string& directory)
      : ca(directory + "/pki/ca.crt"), files{directory + "/pki/node.crt", directory + "/pki/node.key"} {}
  std::string ca;
  http::IdentityFiles files;
};

WallTime renewal_of(const http::CertificateInfo& info) {
  const auto whole = info.validity.not_after.since_epoch - info.validity.not_before.since_epoch;
  return {info.validity.not_after.since_epoch - whole / 3};
}

Task<Result<std::string>> ask_for_certificate(Loop& loop, IdentityOptions options, http::TlsClientOptions tls,
                                              std::string key, CancelToken token) {
  CO_TRY(const std::string pem, http::make_certificate_request(key, "system:node:" + options.node));
  http::ClientOptions client;
  client.endpoint = options.server;
  client.tls = std::move(tls);
  if (client.tls.certificate_pem.empty()) {
    CO_TRY(const Token secret, read_token(options.token_file));
    client.bearer_token = secret.secret;
  }
  const std::string target =
      fmt::format("/bootstrap/v1/nodes/{}/certificate", http::percent_encode(options.node));
  const Json body = Json::object({{"request", pem}});
  http::Request request = http::Request::to(http::Method::post, target, to_text(body), "application/json");
  CO_TRY(const http::Response response, co_await send(loop, std::move(client), std::move(request), token));
  if (response.status != 201) {
    const bool later = response.status >= 500 || response.status == 429;
    co_return make_error(later ? Errc::unavailable : Errc::forbidden, message_in(response));
  }
  CO_TRY(const Json answer, parse_json(response.body_view()));
  const auto certificate = answer.get_string("certificate");
  if (!certificate) co_return make_error(Errc::corrupt, "the server's answer has no certificate");
  co_return std::string(*certificate);
}

Result<std::string> load_or_make_key(const Paths& paths) {
  if (is_there(paths.files.key_path)) return http::read_small_file(paths.files.key_path);
  TRY(std::string key, http::make_key());
  // On disk before anybody hears of it: a name is bound to the first key that asks.
  TRY_VOID(http::write_file_atomically(paths.files.key_path, key, 0600));
  return key;
}

}  // namespace

Task<Result<NodeIdentity>> obtain_identity(Loop& loop, IdentityOptions options, CancelToken token) {
  const Paths paths(options.directory);
  std::error_code error;
  fs::create_directories(options.directory + "/pki", error);
  if (error)
    co_return make_error(Errc::internal, fmt::format("make {}/pki: {}", options.directory, error.message()));
  (void)::chmod((options.directory + "/pki").c_str(), 0700);
  NodeIdentity identity;
  if (is_there(paths.ca) && options.ca_file.empty()) {
    CO_TRY(identity.tls.ca_pem, http::read_small_file(paths.ca));
  } else if (!options.ca_file.empty()) {
    CO_TRY(identity.tls.ca_pem, http::read_small_file(options.ca_file));
  } else {
    CO_TRY(identity.tls.ca_pem, co_await fetch_authority(loop, options, token));
  }
  CO_TRY_VOID(http::write_file_atomically(paths.ca, identity.tls.ca_pem, 0644));
  CO_TRY(identity.tls.key_pem, load_or_make_key(paths));
  const WallTime now = loop.clock().wall();
  http::TlsClientOptions with = identity.tls;
  with.key_pem.clear();
  if (is_there(paths.files.certificate_path)) {
    CO_TRY(std::string pem, http::read_small_file(paths.files.certificate_path));
    const auto info = http::describe_certificate(pem);
    const bool ours = info && info->common_name == "system:node:" + options.node &&
                      http::check_identity({pem, identity.tls.key_pem}, identity.tls.ca_pem).ok();
    if (info && !ours && info->common_name != "system:node:" + options.node)
      co_return make_error(Errc::invalid,
                           fmt::format("{} belongs to {}, not to node {}: one directory per node",
                                       options.directory, info->common_name, options.node));
    if (ours && now < renewal_of(*info)) {
      identity.tls.certificate_pem = std::move(pem);
      identity.renew_at = renewal_of(*info);
      co_return identity;
    }
    if (ours && now < info->validity.not_after) {
      with.certificate_pem = std::move(pem);
      with.key_pem = identity.tls.key_pem;
    }
  }
  CO_TRY(identity.tls.certificate_pem,
         co_await ask_for_certificate(loop, options, std::move(with), identity.tls.key_pem, token));
  CO_TRY_VOID(
      http::check_identity({identity.tls.certificate_pem, identity.tls.key_pem}, identity.tls.ca_pem));
  CO_TRY_VOID(http::write_file_atomically(paths.files.certificate_path, identity.tls.certificate_pem, 0644));
  CO_TRY(const http::CertificateInfo info, http::describe_certificate(identity.tls.certificate_pem));
  identity.renew_at = renewal_of(info);
  log_info("certificate obtained", {{"node", options.node}});
  co_return identity;
}

}  // namespace moor::agent
