#include "agent/mounts.h"

#include <fmt/format.h>

#include <sstream>

namespace moor::agent {
namespace {

using namespace std::chrono_literals;

Task<Result<std::string>> run(Host& host, std::vector<std::string> words, Duration limit = 120s) {
  Command command{std::move(words), limit};
  auto done = co_await host.run(std::move(command));
  co_return done;
}

Task<Result<std::string>> real_path(Host& host, std::string device) {
  std::vector<std::string> words{"readlink", "-f", device};
  auto path = co_await run(host, std::move(words));
  co_return path;
}

struct Mounted {
  std::string device;
  std::string filesystem;
};

// What is mounted at the target, topmost; nothing: no device. findmnt fails when it finds nothing.
Task<Result<Mounted>> mounted_at(Host& host, std::string target) {
  std::vector<std::string> words{"findmnt", "-n", "-o", "SOURCE,FSTYPE", "--mountpoint", target};
  const auto found = co_await run(host, std::move(words));
  if (!found && found.code() != Errc::internal) co_return found.error();
  Mounted mounted;
  std::istringstream text(found ? *found : "");
  text >> mounted.device >> mounted.filesystem;
  co_return mounted;
}

}  // namespace

Task<Result<std::string>> find_filesystem(Host& host, std::string device) {
  std::vector<std::string> probe{"blkid", "-p", "-o", "value", "-s", "TYPE", device};
  const auto found = co_await run(host, std::move(probe));
  if (found && !found->empty()) co_return *found;
  if (!found && found.code() != Errc::internal) co_return found.error();
  // No signature is not the same as empty: a database may use the device as it is.
  std::vector<std::string> compare{"cmp", "--bytes=4194304", device, "/dev/zero"};
  const auto zeros = co_await run(host, std::move(compare));
  if (zeros) co_return std::string();
  if (zeros.error().message.find("differ") != std::string::npos)
    co_return make_error(Errc::conflict, device + " holds data that is no file system");
  // A device smaller than what was compared ends early, and that is all of it.
  if (zeros.error().message.find("EOF on " + device) != std::string::npos) co_return std::string();
  co_return zeros.error();
}

Task<Result<void>> format_if_empty(Host& host, FormatRequest request) {
  if (request.filesystem != "ext4" && request.filesystem != "xfs")
    co_return make_error(Errc::unsupported, "file systems are ext4 and xfs, not " + request.filesystem);
  CO_TRY(const std::string found, co_await find_filesystem(host, request.device));
  if (found == request.filesystem) co_return Result<void>();
  if (!found.empty())
    co_return make_error(Errc::conflict, fmt::format("{} has a file system already: {} instead of {}",
                                                     request.device, found, request.filesystem));
  std::vector<std::string> words{"mkfs." + request.filesystem};
  if (request.filesystem == "ext4") words.insert(words.end(), {"-q", "-F", "-m", "0"});
  if (request.filesystem == "xfs") words.emplace_back("-q");
  words.push_back(request.device);
  auto made = co_await run(host, std::move(words), 600s);
  if (!made) co_return made.error();
  co_return Result<void>();
}

Task<Result<void>> mount_device(Host& host, MountRequest request) {
  CO_TRY(const std::string device, co_await real_path(host, request.device));
  CO_TRY(const Mounted there, co_await mounted_at(host, request.target));
  if (!there.device.empty()) {
    if (there.device == device) co_return Result<void>();
    co_return make_error(Errc::conflict, fmt::format("{} is mounted at {}", there.device, request.target));
  }
  CO_TRY_VOID(co_await host.make_directory(request.target));
  std::vector<std::string> words{"mount", "-t", request.filesystem};
  std::string options;
  for (const std::string& option : request.options) options += (options.empty() ? "" : ",") + option;
  if (!options.empty()) words.insert(words.end(), {"-o", options});
  words.insert(words.end(), {device, request.target});
  auto mounted = co_await run(host, std::move(words));
  if (!mounted) co_return mounted.error();
  co_return Result<void>();
}

Task<Result<UnmountProof>> unmount_device(Host& host, std::string target) {
  CO_TRY(const Mounted there, co_await mounted_at(host, target));
  if (there.device.empty()) co_return UnmountProof{target, ""};
  std::vector<std::string> words{"umount", target};
  const auto gone = co_await run(host, std::move(words));
  if (!gone) {
    const bool busy = gone.error().message.find("busy") != std::string::npos;
    co_return busy ? make_error(Errc::conflict, gone.error().message) : gone.error();
  }
  // Looked at, not believed: another mount may have been below.
  CO_TRY(const Mounted still, co_await mounted_at(host, target));
  if (still.device == there.device)
    co_return make_error(Errc::conflict, fmt::format("{} is still mounted at {}", there.device, target));
  co_return UnmountProof{target, there.device};
}

}  // namespace moor::agent
