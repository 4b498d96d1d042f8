#include "agent/real/real_host.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "agent/real/control_link.h"
#include "agent/real/machine.h"
#include "agent/real/real_process.h"
#include "agent/real/spawn.h"
#include "base/ids.h"
#include "base/log.h"
#include "http/certificates.h"

namespace moor::agent {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kLongestSocket = 107;
constexpr std::string_view kLongestName = "/run/d-01234567-89ab-00000000.sock";

Result<void> make_private(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return make_error(Errc::internal, fmt::format("make {}: {}", path, error.message()));
  if (::chmod(path.c_str(), 0700) != 0) return errno_error(errno, "chmod " + path);
  return {};
}

}  // namespace

Result<std::unique_ptr<RealHost>> RealHost::make(Loop& loop, Random& random, RealHostOptions options) {
  std::error_code error;
  options.directory = fs::absolute(options.directory, error).lexically_normal().string();
  while (options.directory.ends_with('/')) options.directory.pop_back();
  if (options.directory.size() + kLongestName.size() > kLongestSocket)
    return make_error(Errc::invalid, fmt::format("--dir {}: at most {} characters, because sockets lie in it",
                                                 options.directory, kLongestSocket - kLongestName.size()));
  if (::access(options.program.c_str(), X_OK) != 0) return errno_error(errno, options.program);
  TRY_VOID(make_private(options.directory + "/run"));
  TRY_VOID(make_private(options.directory + "/log"));
  return std::unique_ptr<RealHost>(new RealHost(loop, random, std::move(options)));
}

Task<Result<std::unique_ptr<Process>>> RealHost::start(ProcessSpec spec) {
  std::vector<std::string> words = std::move(spec.arguments);
  words.insert(words.begin(), options_.program);
  const std::string record = in_run(spec.key, ".json");
  const SpawnFiles files{in_run(spec.key, ".lock"), in_run(spec.key, ".out"), log_path(spec.key)};
  const std::vector<std::string> stale{control_path(spec.key), socket_path(spec.key)};
  const std::string text = to_text(spec.record) + "\n";
  auto work = [words = std::move(words), record, files, stale, text]() -> Result<Spawned> {
    TRY(Handle lock, take_lock(files.lock));
    TRY_VOID(http::write_file_atomically(record, text, 0600));
    for (const std::string& path : stale) ::unlink(path.c_str());
    return spawn_detached(words, std::move(lock), files);
  };
  auto spawned = co_await pool_.run(std::move(work));
  if (!spawned) co_return spawned.error();
  co_return watch_process(loop_, *std::move(spawned));
}

Task<Result<std::vector<FoundProcess>>> RealHost::find_all() {
  struct Seen {
    std::string key;
    Json record;
    Result<Spawned> holder = make_error(Errc::not_found, "");
  };
  const std::string directory = options_.directory + "/run";
  auto look = [directory]() -> Result<std::vector<Seen>> {
    std::vector<Seen> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.path().extension() != ".json") continue;
      Seen seen;
      seen.key = entry.path().stem().string();
      TRY(const std::string text, http::read_small_file(entry.path().string()));
      TRY(seen.record, parse_json(text));
      seen.holder = find_holder(directory + "/" + seen.key + ".lock");
      if (!seen.holder && seen.holder.code() != Errc::not_found)
        return Error(seen.holder.error()).with_context(seen.key);
      all.push_back(std::move(seen));
    }
    if (error) return make_error(Errc::internal, fmt::format("read {}: {}", directory, error.message()));
    std::sort(all.begin(), all.end(), [](const Seen& a, const Seen& b) { return a.key < b.key; });
    return all;
  };
  auto seen = co_await pool_.run(std::move(look));
  if (!seen) co_return seen.error();
  std::vector<FoundProcess> found;
  for (Seen& one : *seen) {
    FoundProcess process{std::move(one.key), std::move(one.record), nullptr};
    if (one.holder) {
      auto watched = watch_process(loop_, *std::move(one.holder));
      if (!watched) co_return watched.error();
      process.process = *std::move(watched);
    }
    found.push_back(std::move(process));
  }
  co_return found;
}

Task<Result<void>> RealHost::write_record(std::string key, Json record) {
  const std::string path = in_run(key, ".json");
  auto work = [path, text = to_text(record)] { return http::write_file_atomically(path, text, 0600); };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<void>> RealHost::forget(std::string key) {
  std::vector<std::string> paths;
  for (const char* suffix : {".json", ".ctl", ".sock", ".token", ".out", ".lock"})
    paths.push_back(in_run(key, suffix));
  paths.push_back(log_path(key));
  paths.push_back(log_path(key) + ".1");
  const std::string lock = in_run(key, ".lock");
  auto work = [paths, lock]() -> Result<void> {
    TRY(const Handle held, take_lock(lock));
    for (const std::string& path : paths)
      if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error(errno, "remove " + path);
    return {};
  };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<std::string>> RealHost::output(std::string key) {
  const std::string path = in_run(key, ".out");
  auto work = [path] { return http::read_small_file(path); };
  co_return co_await pool_.run(std::move(work));
}

Task<std::string> RealHost::last_words(std::string key) {
  const std::string path = log_path(key);
  auto work = [path] { return last_line(path); };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<std::unique_ptr<Control>>> RealHost::connect(std::string key, CancelToken token) {
  Duration pause = 1ms;
  while (true) {
    auto control = co_await open_control(loop_, control_path(key), token);
    if (control) co_return control;
    CO_TRY_VOID(token.check());
    // Not there yet: it has just been started. The process's end cancels this.
    CO_TRY_VOID(co_await sleep_for(loop_, pause, token));
    pause = std::min<Duration>(pause * 2, 100ms);
  }
}

Task<Result<std::string>> RealHost::run(Command command) {
  if (command.arguments[0] == "moorblk") command.arguments[0] = options_.program;
  const int limit = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(command.limit).count());
  auto work = [words = std::move(command.arguments), limit] { return run_to_end(words, limit); };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<bool>> RealHost::exists(std::string path) {
  auto work = [path]() -> Result<bool> {
    struct stat about {};
    if (::lstat(path.c_str(), &about) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return errno_error(errno, path);
  };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<void>> RealHost::make_directory(std::string path) {
  auto work = [path]() -> Result<void> {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return make_error(Errc::internal, fmt::format("make {}: {}", path, error.message()));
    return {};
  };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<void>> RealHost::remove_tree(std::string path) {
  auto work = [path]() -> Result<void> {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return make_error(Errc::internal, fmt::format("remove {}: {}", path, error.message()));
    return {};
  };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<void>> RealHost::rename(std::string from, std::string to) {
  auto work = [from, to] { return rename_durably(from, to); };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<std::string>> RealHost::read_file(std::string path) {
  auto work = [path]() -> Result<std::string> {
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT)
      return make_error(Errc::not_found, path + " is not there");
    return http::read_small_file(path);
  };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<void>> RealHost::write_file(std::string path, std::string content) {
  auto work = [path, content] { return http::write_file_atomically(path, content, 0600); };
  co_return co_await pool_.run(std::move(work));
}

Task<DiskFacts> RealHost::look_at_disk(std::string path, bool may_mark) {
  const std::string fresh = make_uuid(random_);
  auto work = [path, fresh, may_mark] { return inspect_disk(path, may_mark ? fresh : std::string()); };
  co_return co_await pool_.run(std::move(work));
}

Task<std::vector<std::string>> RealHost::users_of(std::string device) {
  auto work = [device] { return find_users(device); };
  co_return co_await pool_.run(std::move(work));
}

Task<Result<std::string>> RealHost::boot_id() {
  auto work = []() -> Result<std::string> { return first_line("/proc/sys/kernel/random/boot_id"); };
  co_return co_await pool_.run(std::move(work));
}

Task<std::string> RealHost::kernel_version() {
  auto work = [] { return first_line("/proc/sys/kernel/osrelease").value_or(""); };
  co_return co_await pool_.run(std::move(work));
}

}  // namespace moor::agent
