#include "control/controllers/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace moor::control {
namespace {

// The first of the wanted tags that is not there.
std::string missing_tag(const std::vector<std::string>& wanted, const std::vector<std::string>& have) {
  for (const std::string& tag : wanted)
    if (std::find(have.begin(), have.end(), tag) == have.end()) return tag;
  return {};
}

struct Neighbours {
  bool node = false;
  bool zone = false;
  bool disk = false;
};

Neighbours neighbours_of(const DiskFacts& disk, const std::vector<Taken>& taken) {
  Neighbours found;
  for (const Taken& one : taken) {
    found.node |= one.node == disk.node;
    found.disk |= one.disk == disk.uuid;
    found.zone |= !disk.zone.empty() && one.zone == disk.zone;
  }
  return found;
}

// Why this disk is none for this volume; empty: it may be, if there is room.
std::string objection(const PlacementWish& wish, const DiskFacts& disk, const Neighbours& neighbours) {
  if (!disk.objection.empty()) return disk.objection;
  if (!wish.only_node.empty() && disk.node != wish.only_node) return "not on " + wish.only_node;
  if (const auto tag = missing_tag(wish.node_selector, disk.node_tags); !tag.empty())
    return "node lacks tag " + tag;
  if (const auto tag = missing_tag(wish.disk_selector, disk.disk_tags); !tag.empty())
    return "lacks tag " + tag;
  if (neighbours.node && !wish.share_node) return "node holds another replica";
  if (neighbours.zone && !wish.share_zone) return "zone holds another replica";
  if (neighbours.disk && !wish.share_disk) return "holds another replica";
  return {};
}

std::string summary(const std::map<std::string, int>& reasons, std::size_t disks) {
  std::string text = fmt::format("{} disk{}", disks, disks == 1 ? "" : "s");
  const char* separator = ": ";
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("{}{} {}", separator, count, reason);
    separator = ", ";
  }
  return text;
}

}  // namespace

PlacementWish wish_of(const model::longhorn::VolumeSpec& volume, const attach::Settings& settings) {
  PlacementWish wish;
  wish.size = volume.size;
  wish.node_selector = volume.node_selector;
  wish.disk_selector = volume.disk_selector;
  wish.share_node = settings.node_soft_anti_affinity(volume);
  wish.share_zone = settings.zone_soft_anti_affinity(volume);
  wish.share_disk = settings.disk_soft_anti_affinity(volume);
  return wish;
}

std::int64_t room_on(const DiskFacts& disk, const attach::Settings& settings) {
  const std::int64_t usable = std::max<std::int64_t>(0, disk.maximum - disk.reserved);
  // In whole units first: bytes times a percentage of many thousands would leave the number's range.
  const std::int64_t percent = settings.over_provisioning_percentage();
  const std::int64_t may_promise = usable / 100 * percent + usable % 100 * percent / 100;
  return may_promise - disk.promised;
}

Placement place(const PlacementWish& wish, const std::vector<DiskFacts>& disks,
                const std::vector<Taken>& taken, const attach::Settings& settings) {
  Placement result;
  std::map<std::string, int> reasons;
  using Rank = std::tuple<bool, bool, bool, std::int64_t, std::string_view, std::string_view>;
  std::optional<Rank> best;
  for (const DiskFacts& disk : disks) {
    const Neighbours neighbours = neighbours_of(disk, taken);
    if (const std::string why = objection(wish, disk, neighbours); !why.empty()) {
      ++reasons[why];
      continue;
    }
    const std::int64_t room = room_on(disk, settings);
    result.largest_free = std::max(result.largest_free, std::max<std::int64_t>(room, 0));
    if (room < wish.size) {
      ++reasons["without room"];
      result.insufficient_capacity = true;
      continue;
    }
    const Rank rank{neighbours.zone, neighbours.node, neighbours.disk, -room, disk.node, disk.name};
    if (best && *best <= rank) continue;
    best = rank;
    result.disk = &disk;
  }
  if (result.disk != nullptr) {
    result.insufficient_capacity = false;
    return result;
  }
  result.no_schedulable_disk = !result.insufficient_capacity;
  result.detail = disks.empty() ? "there are no disks" : summary(reasons, disks.size());
  return result;
}

}  // namespace moor::control
