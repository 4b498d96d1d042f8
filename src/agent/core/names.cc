#include "agent/core/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace moor::agent {
namespace {

constexpr std::size_t kUidPart = 13;

std::string_view tail_of(std::string_view name) {
  const std::size_t at = name.rfind("-r-");
  return at == std::string_view::npos ? std::string_view() : name.substr(at);
}

bool is_plain(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 255 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.' || c == '_'; });
}

}  // namespace

std::string engine_key(const std::string& uid) {
  return "e-" + uid.substr(0, kUidPart);
}

std::string replica_key(const std::string& uid) {
  return "r-" + uid.substr(0, kUidPart);
}

std::string device_key(const std::string& engine_uid, std::uint64_t number) {
  return fmt::format("d-{}-{}", engine_uid.substr(0, kUidPart), number);
}

std::string device_name(const std::string& space, const std::string& volume) {
  return space == "longhorn-system" ? volume : space + "_" + volume;
}

Result<std::string> replica_directory(const model::longhorn::Replica& replica) {
  std::string name = replica.spec.data_directory_name;
  if (name.empty()) {
    const auto& owners = replica.metadata.owner_references;
    const auto owner =
        std::find_if(owners.begin(), owners.end(), [](const auto& one) { return one.kind == "Volume"; });
    if (owner == owners.end() || owner->uid.size() < 8)
      return make_error(Errc::invalid,
                        "neither spec.dataDirectoryName nor an owning Volume names a directory");
    const std::string_view tail = tail_of(replica.metadata.name);
    name = fmt::format("{}-{}{}", replica.spec.volume_name, owner->uid.substr(0, 8),
                       tail.empty() ? "-" + replica.metadata.name : std::string(tail));
  }
  if (!is_plain(name))
    return make_error(Errc::invalid, fmt::format("\"{}\" is no name for a replica's directory", name));
  return name;
}

std::string member_address(const std::string& address) {
  if (address.starts_with("tcp://")) return "tcp:" + address.substr(6);
  if (address.starts_with("tcp:") || address.starts_with("unix:")) return address;
  return "tcp:" + address;
}

}  // namespace moor::agent
