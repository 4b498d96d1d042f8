// moor: the command line. Wiring only: the loop, the terminal, the environment and the way to the server.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/loop.h"
#include "cli/app.h"
#include "registry/client/remote_registry.h"

namespace {

moor::cli::Streams streams() {
  const bool plain = std::getenv("NO_COLOR") != nullptr && *std::getenv("NO_COLOR") != '\0';
  const auto to = [](FILE* file) {
    return [file](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), file);
      std::fflush(file);
    };
  };
  return {to(stdout), to(stderr), !plain && isatty(STDOUT_FILENO) == 1, !plain && isatty(STDERR_FILENO) == 1};
}

}  // namespace

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // `moor volume list | head` is no reason to die
  moor::configure_log(moor::LogLevel::off, moor::LogFormat::text);
  moor::Loop loop;
  moor::cli::Surroundings around{
      loop, streams(),
      [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      },
      [&loop](
          const moor::cli::ClusterAccess& access) -> moor::Result<std::unique_ptr<moor::registry::Registry>> {
        moor::registry::RemoteOptions options;
        options.client = access.client;
        TRY(auto remote, moor::registry::RemoteRegistry::make(loop, std::move(options)));
        return std::unique_ptr<moor::registry::Registry>(std::move(remote));
      }};
  return moor::cli::run({arguments + 1, arguments + count}, around);
}
