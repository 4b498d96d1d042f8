#include "cli/kubeconfig.h"

#include <fmt/format.h>

#include "cli/dev_cluster.h"
#include "cli/yaml.h"
#include "http/certificates.h"
#include "model/core/secret.h"

namespace moor::cli {
namespace {

// The entry of that name in one of the three lists, and what stands in it.
Result<const Json*> named(const Json& config, std::string_view list, std::string_view member,
                          std::string_view name) {
  const Json* entries = config.find(list);
  for (std::size_t i = 0; entries != nullptr && entries->is_array() && i < entries->size(); ++i) {
    const Json& entry = entries->at(i);
    if (entry.get_string("name") != name) continue;
    const Json* inside = entry.find(member);
    if (inside != nullptr && inside->is_object()) return inside;
    return make_error(Errc::invalid, fmt::format("{} '{}' has no {}", list, name, member));
  }
  return make_error(Errc::invalid, fmt::format("there is no '{}' among the {}", name, list));
}

struct Source {
  const Json& from;
  const std::filesystem::path& directory;

  // `name`-data inline in base64, else `name` as a file. Empty when neither is there.
  Result<std::string> content(const std::string& name) const {
    if (const auto data = from.get_string(name + "-data"); data && !data->empty()) {
      auto bytes = model::core::from_base64(*data);
      if (!bytes) return make_error(Errc::invalid, fmt::format("{}-data is not base64", name));
      return std::move(*bytes);
    }
    return file(name);
  }
  Result<std::string> file(std::string_view name) const {
    const auto path = from.get_string(name);
    if (!path || path->empty()) return std::string();
    return http::read_small_file(directory / std::filesystem::path(*path));
  }
};

Result<void> read_cluster(const Source& cluster, http::ClientOptions& client) {
  const auto server = cluster.from.get_string("server");
  if (!server) return make_error(Errc::invalid, "the cluster has no server");
  TRY(client.endpoint, http::Url::parse(*server));
  TRY(client.tls.ca_pem, cluster.content("certificate-authority"));
  client.tls.server_name = std::string(cluster.from.get_string("tls-server-name").value_or(""));
  client.tls.verify = !cluster.from.get_bool("insecure-skip-tls-verify").value_or(false);
  return {};
}

Result<void> read_user(const Source& user, http::ClientOptions& client) {
  for (const char* helper : {"exec", "auth-provider", "username"})
    if (user.from.contains(helper))
      return make_error(
          Errc::unsupported,
          fmt::format("the user's '{}' is not supported: use a client certificate or a token", helper));
  TRY(client.tls.certificate_pem, user.content("client-certificate"));
  TRY(client.tls.key_pem, user.content("client-key"));
  if (client.tls.certificate_pem.empty() != client.tls.key_pem.empty())
    return make_error(Errc::invalid, "a client certificate needs its key, and a key its certificate");
  client.bearer_token = std::string(user.from.get_string("token").value_or(""));
  if (client.bearer_token.empty()) {
    TRY(client.bearer_token, user.file("tokenFile"));
    while (!client.bearer_token.empty() &&
           std::isspace(static_cast<unsigned char>(client.bearer_token.back())))
      client.bearer_token.pop_back();
  }
  return {};
}

}  // namespace

Result<ClusterAccess> parse_kubeconfig(std::string_view text, const std::filesystem::path& directory) {
  TRY(const Json config, parse_yaml(text));
  const auto current = config.get_string("current-context");
  if (!current || current->empty()) return make_error(Errc::invalid, "it has no current-context");
  TRY(const Json* context, named(config, "contexts", "context", *current));
  TRY(const Json* cluster, named(config, "clusters", "cluster", context->get_string("cluster").value_or("")));
  ClusterAccess access;
  access.space = std::string(context->get_string("namespace").value_or(""));
  TRY_VOID(read_cluster({*cluster, directory}, access.client));
  if (const auto user_name = context->get_string("user"); user_name && !user_name->empty()) {
    TRY(const Json* user, named(config, "users", "user", *user_name));
    TRY_VOID(read_user({*user, directory}, access.client));
  }
  return access;
}

Result<ClusterAccess> load_kubeconfig(const std::filesystem::path& path) {
  TRY(const std::string text, http::read_small_file(path));
  auto access = parse_kubeconfig(text, path.parent_path());
  if (!access) return std::move(access).error().with_context(path.string());
  access->source = path;
  return access;
}

Result<FoundConfig> find_kubeconfig(const std::string& given, const Environment& environment) {
  if (!given.empty()) return FoundConfig{given, "--kubeconfig"};
  for (const char* name : {"MOOR_KUBECONFIG", "KUBECONFIG"}) {
    auto value = environment(name);
    if (!value || value->empty()) continue;
    // kubectl merges a list of files; the first one is where it would write, and what we take.
    return FoundConfig{value->substr(0, value->find(':')), fmt::format("${}", name)};
  }
  TRY(const std::filesystem::path note, dev_cluster_note(environment));
  if (auto directory = read_dev_cluster(note))
    return FoundConfig{*directory / "kubeconfig", fmt::format("the dev cluster in {}", directory->string())};
  return make_error(Errc::not_found,
                    "no cluster: neither --kubeconfig, $MOOR_KUBECONFIG nor $KUBECONFIG is "
                    "given, and no dev cluster was started here");
}

}  // namespace moor::cli
