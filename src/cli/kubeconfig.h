// Which server to talk to, and as whom: what a kubeconfig's current context says. Understood: certificate
// authority, client certificate and key (inline or as files beside the kubeconfig), bearer token (inline or a
// file), insecure-skip-tls-verify, tls-server-name, plain http, the context's namespace. What would need a
// helper program (exec, auth-provider) is refused by name instead of ignored.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/client.h"

namespace moor::cli {

struct ClusterAccess {
  http::ClientOptions client;
  std::string space;   // the context's namespace; may be empty
  std::string source;  // the file, for messages
};

// `directory` is where relative file names count from.
Result<ClusterAccess> parse_kubeconfig(std::string_view text, const std::filesystem::path& directory);
Result<ClusterAccess> load_kubeconfig(const std::filesystem::path& path);

using Environment = std::function<std::optional<std::string>(const char*)>;

// Where moor looks, in this order: `given` (--kubeconfig), $MOOR_KUBECONFIG, $KUBECONFIG (its first file),
// the dev cluster that was started last. Errc::not_found says how to get a cluster.
struct FoundConfig {
  std::filesystem::path path;
  std::string because;  // "--kubeconfig", "$KUBECONFIG", "the dev cluster"
};
Result<FoundConfig> find_kubeconfig(const std::string& given, const Environment& environment);

}  // namespace moor::cli
