#include "agent/real/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "agent/real/spawn.h"
#include "base/json.h"
#include "http/certificates.h"

namespace moor::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentityFile = "mooring-disk.json";
constexpr std::size_t kMostUsers = 8;

std::string filesystem_of(const std::string& path) {
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0) return {};
  switch (about.f_type) {
    case 0xEF53: return "ext4";
    case 0x58465342: return "xfs";
    case 0x9123683E: return "btrfs";
    case 0x01021994: return "tmpfs";
    case 0x794c7630: return "overlay";
    default: return fmt::format("{:#x}", static_cast<unsigned long>(about.f_type));
  }
}

Result<std::string> read_identity(const std::string& file) {
  TRY(const std::string text, http::read_small_file(file));
  TRY(const Json json, parse_json(text));
  const auto uuid = json.get_string("diskUUID");
  if (!uuid || uuid->empty()) return make_error(Errc::corrupt, file + " names no diskUUID");
  return std::string(*uuid);
}

// Octal escapes of mountinfo: \040 is a space.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// In every mount namespace that some process is in.
void find_mounts(dev_t device, std::set<std::string>& users) {
  const std::string wanted = fmt::format("{}:{}", major(device), minor(device));
  std::set<std::string> namespaces;
  std::error_code ignored;  // processes come and go while we look
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = entry.path().filename();
    if (!std::isdigit(static_cast<unsigned char>(pid[0]))) continue;
    const std::string space = fs::read_symlink(entry.path() / "ns/mnt", ignored).string();
    if (space.empty() || !namespaces.insert(space).second) continue;
    std::ifstream mounts(entry.path() / "mountinfo");
    for (std::string line; std::getline(mounts, line);) {
      std::istringstream words(line);
      std::string id, parent, number, root, target;
      words >> id >> parent >> number >> root >> target;
      if (number == wanted) users.insert("mounted at " + unescape(target));
    }
  }
}

void find_openers(dev_t device, std::set<std::string>& users) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = entry.path().filename();
    if (!std::isdigit(static_cast<unsigned char>(pid[0])) || users.size() >= kMostUsers) continue;
    for (const auto& file : fs::directory_iterator(entry.path() / "fd", ignored)) {
      struct stat about {};
      if (::stat(file.path().c_str(), &about) != 0 || !S_ISBLK(about.st_mode) || about.st_rdev != device)
        continue;
      users.insert(
          fmt::format("pid {} ({})", pid, first_line((entry.path() / "comm").string()).value_or("?")));
      break;
    }
  }
}

}  // namespace

DiskFacts inspect_disk(const std::string& path, const std::string& fresh_uuid) {
  DiskFacts facts;
  std::error_code error;
  if (!fresh_uuid.empty()) fs::create_directories(path, error);
  if (!fs::is_directory(path, error)) {
    facts.problem = fmt::format("{} is no directory", path);
    return facts;
  }
  const std::string file = path + "/" + kIdentityFile;
  if (!fs::exists(file, error) && !fresh_uuid.empty()) {
    const std::string text = to_text(Json::object({{"diskUUID", fresh_uuid}})) + "\n";
    const auto written = http::write_file_atomically(file, text, 0644);
    if (!written) facts.problem = written.error().message;
  }
  if (fs::exists(file, error)) {
    auto uuid = read_identity(file);
    if (uuid)
      facts.uuid = *std::move(uuid);
    else
      facts.problem = uuid.error().message;
  }
  struct statvfs room {};
  if (::statvfs(path.c_str(), &room) != 0) {
    facts.problem = errno_error(errno, path).message;
    return facts;
  }
  facts.available = static_cast<std::int64_t>(room.f_bavail * room.f_frsize);
  facts.maximum = static_cast<std::int64_t>(room.f_blocks * room.f_frsize);
  facts.filesystem = filesystem_of(path);
  if (facts.uuid.empty() && facts.problem.empty() && fresh_uuid.empty())
    return facts;  // whether that is a problem depends on what was known of it
  if ((room.f_flag & ST_RDONLY) != 0) facts.problem = path + " is mounted read-only";
  return facts;
}

std::vector<std::string> find_users(const std::string& device) {
  struct stat about {};
  if (device.empty() || ::stat(device.c_str(), &about) != 0 || !S_ISBLK(about.st_mode)) return {};
  std::set<std::string> users;
  find_mounts(about.st_rdev, users);
  std::error_code ignored;
  const std::string name = fs::path(device).filename();
  for (const auto& holder : fs::directory_iterator("/sys/block/" + name + "/holders", ignored))
    users.insert("held by " + holder.path().filename().string());
  find_openers(about.st_rdev, users);
  return {users.begin(), users.end()};
}

Result<void> rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return errno_error(errno, "rename " + from);
  const Handle parent(::open(fs::path(to).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0) return errno_error(errno, "sync the directory of " + to);
  return {};
}

Result<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return make_error(Errc::not_found, "cannot read " + path);
  return line;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path, std::ios::ate);
  const auto size = static_cast<std::int64_t>(file.tellg());
  if (size <= 0) return {};
  file.seekg(std::max<std::int64_t>(0, size - 2048));
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last;
}

}  // namespace moor::agent
