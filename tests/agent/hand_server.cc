// The server of moord with its doors and its admission, without the controllers, and with one token more:
// whoever shows D/controller.token is taken for a controller. So a test can write Grants, Engines and
// Replicas by hand, as controllers would, and agents meet the same rules as ever.
//
//   hand_server server --dir D --listen ADDRESS
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "cmd/moord/server_files.h"
#include "cmd/moord/stop_signals.h"
#include "control/admission/admission.h"
#include "doors/auth/authenticator.h"
#include "doors/bootstrap/bootstrap_door.h"
#include "doors/front/front.h"
#include "doors/kube/kube_door.h"
#include "http/server.h"
#include "registry/gc.h"
#include "registry/local_registry.h"
#include "registry/namespaces.h"
#include "store/embedded/embedded_store.h"

namespace moor {
namespace {

struct House {
  House(Loop& loop_, registry::LocalRegistry& registry_, Random& random)
      : loop(loop_),
        registry(registry_),
        authenticator(loop_.clock()),
        door(doors::kube::KubeDoor::Env{loop_, registry_, random, metrics}, {}),
        front(authenticator, metrics, door) {}

  Result<http::Url> listen(const std::filesystem::path& directory, const std::string& address,
                           Random& random) {
    TRY(const cmd::ServerFiles files,
        cmd::prepare_server_files({directory, "127.0.0.1"}, random, loop.clock().wall()));
    bootstrap.emplace(doors::BootstrapDoor::Env{registry, loop.clock()}, files.authority);
    for (const char* first : {"api", "apis"}) front.add_door(first, door);
    front.add_door("bootstrap", *bootstrap);
    authenticator.add_token(
        {files.bootstrap_token, "system:bootstrap", {std::string(doors::kBootstrapGroup)}});
    authenticator.add_token({files.admin_token, "admin", {std::string(doors::kAdminGroup)}});
    const std::string controller = "controller-" + files.admin_token;
    authenticator.add_token({controller, "", {std::string(doors::kAdminGroup)}});
    TRY_VOID(http::write_file_atomically(directory / "controller.token", controller + "\n", 0600));
    http::TlsServerOptions tls;
    tls.certificate_pem = files.server.certificate_pem;
    tls.key_pem = files.server.key_pem;
    tls.client_ca_pem = files.authority_pem;
    tls.client_certificates = http::ClientCertificates::flagged;
    http::ListenOptions options;
    options.address = address;
    TRY(options.tls, http::TlsContext::server(tls));
    server.emplace(loop, front, http::ServerOptions{});
    return server->listen(std::move(options));
  }

  Loop& loop;
  registry::LocalRegistry& registry;
  doors::Metrics metrics;
  doors::Authenticator authenticator;
  doors::kube::KubeDoor door;
  std::optional<doors::BootstrapDoor> bootstrap;
  doors::Front front;
  std::optional<http::Server> server;
};

Task<Result<void>> until_cancelled(Executor& executor, CancelToken token) {
  const Completion<bool> done(executor);
  const CancelCallback callback(token, [done] { done.set(true); });
  (void)co_await done;
  co_return Result<void>();
}

Task<Result<void>> run(Loop& loop, std::filesystem::path directory, std::string address, CancelToken token) {
  CO_TRY_VOID(cmd::make_private_directory(directory));
  CO_TRY(const auto store, store::open_embedded_store(loop, directory / "store"));
  RealRandom random;
  registry::LocalRegistry registry(loop, *store, random);
  control::ControlAdmission admission(loop.clock(), random);
  registry.add_admission(admission);
  registry::GarbageCollector collector(registry);
  House house(loop, registry, random);
  TaskGroup group(loop, token);
  group.spawn(registry.run(group.token()));
  group.spawn(collector.run(group.token()));
  CO_TRY_VOID(co_await registry.catch_up());
  CO_TRY_VOID(co_await registry::ensure_namespaces(registry));
  const auto url = house.listen(directory, address, random);
  if (url) {
    fmt::print("ready {}\n", url->to_string());
    std::fflush(stdout);
    (void)co_await until_cancelled(loop, group.token());
    (void)co_await house.server->stop(std::chrono::seconds(5));
  }
  group.cancel();
  Result<void> joined = co_await group.join();
  if (!url) co_return url.error();
  co_return joined;
}

}  // namespace
}  // namespace moor

int main(int count, char** words) {
  std::string directory;
  std::string address = "127.0.0.1:0";
  for (int i = 2; i + 1 < count; i += 2) {
    if (std::string_view(words[i]) == "--dir") directory = words[i + 1];
    if (std::string_view(words[i]) == "--listen") address = words[i + 1];
  }
  moor::Loop loop;
  moor::CancelSource stop;
  const moor::cmd::StopSignals signals(loop, [&stop](int) { stop.cancel(); });
  const auto done = moor::block_on(loop, moor::run(loop, directory, address, stop.token()));
  if (!done) fmt::print(stderr, "hand_server: {}\n", done.error().message);
  return done ? 0 : 1;
}
