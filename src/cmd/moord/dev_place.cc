#include "cmd/moord/dev_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <utility>

#include "cmd/moord/server_files.h"

namespace moor::cmd {
namespace {

constexpr std::chrono::seconds kStopGrace{20};

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> arguments_of(pid_t pid) {
  const std::string text = read_all(fmt::format("/proc/{}/cmdline", pid));
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

std::optional<BlockProcess> as_block_process(pid_t pid, const std::filesystem::path& directory) {
  const std::vector<std::string> arguments = arguments_of(pid);
  if (arguments.size() < 2 || std::filesystem::path(arguments[0]).filename() != "moorblk")
    return std::nullopt;
  const std::string inside = directory.string() + "/";
  const bool ours = std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument.find(inside) != std::string::npos;
  });
  if (!ours) return std::nullopt;
  return BlockProcess{pid, arguments[1], fmt::format("{}", fmt::join(arguments, " "))};
}

// Waits for the end of processes that are not our children, without asking again and again.
class Watched {
 public:
  explicit Watched(BlockProcess process)
      : process_(std::move(process)),
        descriptor_(static_cast<int>(syscall(SYS_pidfd_open, process_.pid, 0))) {}
  ~Watched() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Watched(Watched&& other) noexcept
      : process_(std::move(other.process_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Watched& operator=(Watched&&) = delete;

  void signal(int number) const {
    if (descriptor_ >= 0) syscall(SYS_pidfd_send_signal, descriptor_, number, nullptr, 0);
  }
  bool wait_until(std::chrono::steady_clock::time_point deadline) const {
    while (descriptor_ >= 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd wait{descriptor_, POLLIN, 0};
      const int ready = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
      if (ready > 0) return true;
      if (ready == 0) return false;
      if (errno != EINTR) return false;
    }
    return true;
  }
  const BlockProcess& process() const { return process_; }

 private:
  BlockProcess process_;
  int descriptor_;
};

Result<void> stop_role(const std::filesystem::path& directory, std::string_view role, bool force) {
  std::vector<Watched> running;
  for (BlockProcess& process : find_block_processes(directory))
    if (process.role == role) running.emplace_back(std::move(process));
  for (const Watched& one : running) one.signal(SIGTERM);
  if (force)
    for (const Watched& one : running) one.signal(SIGTERM);  // the second one waits for nobody
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  for (const Watched& one : running) {
    if (one.wait_until(deadline)) continue;
    if (!force)
      return make_error(
          Errc::conflict,
          fmt::format("this process does not end, perhaps somebody uses its device: {} (pid {})",
                      one.process().command, one.process().pid));
    one.signal(SIGKILL);
    (void)one.wait_until(std::chrono::steady_clock::now() + kStopGrace);
  }
  return {};
}

}  // namespace

Result<DevPlace> DevPlace::open(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(directory, error).lexically_normal();
  if (error) return make_error(Errc::invalid, fmt::format("{}: {}", directory, error.message()));
  DevPlace place(path.filename().empty() ? path.parent_path() : path);
  TRY_VOID(make_private_directory(place.directory_));
  TRY_VOID(make_private_directory(place.directory_ / "logs"));
  TRY_VOID(make_private_directory(place.directory_ / "nodes"));
  return place;
}

std::filesystem::path DevPlace::node_directory(int number) const {
  return directory_ / "nodes" / node_name(number);
}

int DevPlace::known_nodes() const {
  int count = 0;
  std::error_code ignored;
  while (std::filesystem::is_directory(node_directory(count + 1), ignored)) ++count;
  return count;
}

std::string DevPlace::tag() const {
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a: the same for the same directory, every time
  for (const char c : directory_.string()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return fmt::format("{:06x}", hash & 0xffffffu);
}

Result<DevLock> DevLock::take(const DevPlace& place) {
  const std::filesystem::path path = place.directory() / "dev.lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno_error(errno, "open " + path.string());
  DevLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const auto other = holder(place);
    return make_error(Errc::conflict,
                      fmt::format("a dev cluster runs in {} already{}", place.directory().string(),
                                  other ? fmt::format(" (pid {})", *other) : ""));
  }
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text.data(), text.size(), 0) < 0)
    return errno_error(errno, "write " + path.string());
  return lock;
}

DevLock::DevLock(DevLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

DevLock::~DevLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<pid_t> DevLock::holder(const DevPlace& place) {
  const std::filesystem::path path = place.directory() / "dev.lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  const bool free = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  close(descriptor);
  if (free) return std::nullopt;
  const std::string text = read_all(path);
  pid_t pid = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
  return parsed.ec == std::errc() && pid > 0 ? std::optional(pid) : std::nullopt;
}

std::vector<BlockProcess> find_block_processes(const std::filesystem::path& directory) {
  std::vector<BlockProcess> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    if (auto process = as_block_process(pid, directory)) found.push_back(std::move(*process));
  }
  return found;
}

Result<void> stop_block_processes(const std::filesystem::path& directory, bool force) {
  for (const char* role : {"device", "engine", "replica"}) TRY_VOID(stop_role(directory, role, force));
  return {};
}

}  // namespace moor::cmd
