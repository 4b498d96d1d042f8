#include "agent/hollow/hollow_host.h"

#include <fmt/format.h>

#include "agent/hollow/hollow_process.h"

namespace moor::agent {
namespace {

constexpr std::int64_t kDiskBytes = 100ll << 40;
constexpr int kFirstPort = 10'000;
constexpr int kPorts = 50'000;

}  // namespace

HollowHost::HollowHost(Executor& executor, std::string node, std::string boot_id)
    : executor_(executor), node_(std::move(node)), boot_id_(std::move(boot_id)) {}

HollowHost::~HollowHost() = default;

Task<Result<std::unique_ptr<Process>>> HollowHost::start(ProcessSpec spec) {
  const std::string key = spec.key;
  auto& place = processes_[key];
  if (place != nullptr && !place->ended)
    co_return make_error(Errc::already_exists, "a process of this key lives: " + key);
  place = std::make_shared<HollowProcess>(executor_, std::move(spec), next_pid_++);
  co_return view_process(place);
}

Task<Result<std::vector<FoundProcess>>> HollowHost::find_all() {
  std::vector<FoundProcess> found;
  for (const auto& [key, process] : processes_)
    found.push_back({key, process->spec.record, process->ended ? nullptr : view_process(process)});
  co_return found;
}

Task<Result<void>> HollowHost::write_record(std::string key, Json record) {
  auto& place = processes_[key];
  if (place == nullptr) {
    place = std::make_shared<HollowProcess>(executor_, ProcessSpec{key, {}, {}}, next_pid_++);
    place->end(0);
  }
  place->spec.record = std::move(record);
  co_return Result<void>();
}

Task<Result<void>> HollowHost::forget(std::string key) {
  processes_.erase(key);
  co_return Result<void>();
}

Task<Result<std::string>> HollowHost::output(std::string key) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) co_return make_error(Errc::not_found, key);
  const HollowProcess& process = *found->second;
  if (process.role() != "replica") co_return std::string("ready\n");
  co_return fmt::format("ready tcp:127.0.0.1:{}\n", kFirstPort + process.pid % kPorts);
}

Task<std::string> HollowHost::last_words(std::string) {
  co_return std::string();
}

Task<Result<std::unique_ptr<Control>>> HollowHost::connect(std::string key, CancelToken token) {
  CO_TRY_VOID(token.check());
  const auto found = processes_.find(key);
  if (found == processes_.end() || found->second->ended)
    co_return make_error(Errc::unavailable, "no process of this key lives: " + key);
  co_return view_control(found->second);
}

// moorblk replica create DIR … leaves a replica; the other commands leave nothing that counts here.
Task<Result<std::string>> HollowHost::run(Command command) {
  const auto& words = command.arguments;
  if (words.size() > 3 && words[1] == "replica" && words[2] == "create")
    files_[words[3] + "/volume.meta"] = "";
  co_return std::string();
}

Task<Result<bool>> HollowHost::exists(std::string path) {
  const auto below = files_.lower_bound(path + "/");
  co_return files_.contains(path) || (below != files_.end() && below->first.starts_with(path + "/"));
}

Task<Result<void>> HollowHost::make_directory(std::string) {
  co_return Result<void>();
}

Task<Result<void>> HollowHost::remove_tree(std::string path) {
  files_.erase(path);
  for (auto file = files_.lower_bound(path + "/");
       file != files_.end() && file->first.starts_with(path + "/");)
    file = files_.erase(file);
  co_return Result<void>();
}

Task<Result<void>> HollowHost::rename(std::string from, std::string to) {
  std::map<std::string, std::string> moved;
  for (auto file = files_.lower_bound(from); file != files_.end() && file->first.starts_with(from);) {
    const bool inside = file->first.size() == from.size() || file->first[from.size()] == '/';
    if (!inside) {
      ++file;
      continue;
    }
    moved[to + file->first.substr(from.size())] = file->second;
    file = files_.erase(file);
  }
  if (moved.empty()) co_return make_error(Errc::not_found, from);
  files_.merge(moved);
  co_return Result<void>();
}

Task<Result<std::string>> HollowHost::read_file(std::string path) {
  const auto found = files_.find(path);
  if (found == files_.end()) co_return make_error(Errc::not_found, path);
  co_return found->second;
}

Task<Result<void>> HollowHost::write_file(std::string path, std::string content) {
  files_[path] = std::move(content);
  co_return Result<void>();
}

Task<DiskFacts> HollowHost::look_at_disk(std::string, bool) {
  DiskFacts facts;
  facts.uuid = "hollow-disk-" + node_;
  facts.filesystem = "hollow";
  facts.available = facts.maximum = kDiskBytes;
  co_return facts;
}

Task<std::vector<std::string>> HollowHost::users_of(std::string) {
  co_return std::vector<std::string>();
}

Task<Result<std::string>> HollowHost::boot_id() {
  co_return boot_id_;
}

Task<std::string> HollowHost::kernel_version() {
  co_return std::string("hollow");
}

}  // namespace moor::agent
