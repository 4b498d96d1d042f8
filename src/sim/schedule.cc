#include "sim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace moor::sim {

namespace {

constexpr std::array<std::string_view, 32> kFaults{
    "kill_server",   "power_server", "pause_server", "kill_agent",  "pause_agent",    "kill_process",
    "pause_process", "power_node",   "cut_node",     "cut_one_way", "cut_pair",       "cut_store",
    "lossy",         "slow",         "lose_answers", "watch_cuts",  "expire_watches", "store_down",
    "step_clock",    "full_disk",    "failing_sync", "slow_disk",   "old_boot",       "backend_timeout",
    "crash_point",   "late",         "stray_hello",  "ambush",      "power_room",     "bit_rot",
    "lost_data",     "twin"};
constexpr std::array<std::string_view, 11> kWishes{
    "create_volume", "delete_volume", "attach",      "detach",    "open_client", "close_client",
    "retarget",      "set_parameter", "set_setting", "hand_over", "count"};

template <std::size_t N>
std::optional<std::size_t> index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return kFaults[static_cast<std::size_t>(kind)];
}

std::optional<FaultKind> fault_kind_of(std::string_view name) {
  const auto index = index_of(kFaults, name);
  return index ? std::optional(static_cast<FaultKind>(*index)) : std::nullopt;
}

std::string_view to_string(WishKind kind) {
  return kWishes[static_cast<std::size_t>(kind)];
}

Json to_json(const Schedule& schedule) {
  Json faults = Json::array();
  for (const Fault& fault : schedule.faults)
    faults.push_back(Json::object({{"at", static_cast<std::int64_t>(fault.at.count())},
                                   {"kind", to_string(fault.kind)},
                                   {"target", static_cast<std::int64_t>(fault.target)},
                                   {"lasts", static_cast<std::int64_t>(fault.lasts.count())},
                                   {"argument", fault.argument},
                                   {"process", fault.process}}));
  Json wishes = Json::array();
  for (const Wish& wish : schedule.wishes) {
    Json one(Json::object({{"at", static_cast<std::int64_t>(wish.at.count())},
                           {"kind", to_string(wish.kind)},
                           {"volume", static_cast<std::int64_t>(wish.volume)},
                           {"node", static_cast<std::int64_t>(wish.node)},
                           {"ticket", wish.ticket},
                           {"type", wish.type},
                           {"replicas", static_cast<std::int64_t>(wish.replicas)}}));
    if (wish.migratable) one.set("migratable", true);
    if (!wish.access_mode.empty()) one.set("access_mode", wish.access_mode);
    if (wish.parameters.contains("activate")) one.set("activate", true);
    if (!wish.owner.empty()) one.set("owner", wish.owner);
    wishes.push_back(std::move(one));
  }
  return Json::object({{"faults", std::move(faults)}, {"wishes", std::move(wishes)}});
}

Result<Schedule> schedule_from(const Json& json) {
  Schedule schedule;
  const Json* faults = json.find("faults");
  const Json* wishes = json.find("wishes");
  if (faults == nullptr || wishes == nullptr)
    return make_error(Errc::invalid, "no schedule: faults or wishes are missing");
  const auto number = [](const Json& one, const char* key) { return one.get_int64(key).value_or(0); };
  const auto text = [](const Json& one, const char* key) {
    return std::string(one.get_string(key).value_or(""));
  };
  for (std::size_t i = 0; i < faults->size(); ++i) {
    const Json& one = faults->at(i);
    const auto kind = index_of(kFaults, text(one, "kind"));
    if (!kind) return make_error(Errc::invalid, "no such fault: " + text(one, "kind"));
    schedule.faults.push_back({Duration(number(one, "at")), static_cast<FaultKind>(*kind),
                               static_cast<std::uint32_t>(number(one, "target")),
                               Duration(number(one, "lasts")), number(one, "argument"),
                               text(one, "process")});
  }
  for (std::size_t i = 0; i < wishes->size(); ++i) {
    const Json& one = wishes->at(i);
    const auto kind = index_of(kWishes, text(one, "kind"));
    if (!kind) return make_error(Errc::invalid, "no such wish: " + text(one, "kind"));
    schedule.wishes.push_back({Duration(number(one, "at")), static_cast<WishKind>(*kind),
                               static_cast<std::uint32_t>(number(one, "volume")),
                               static_cast<std::uint32_t>(number(one, "node")), text(one, "ticket"),
                               text(one, "type"), static_cast<std::uint32_t>(number(one, "replicas"))});
    Wish& wish = schedule.wishes.back();
    wish.migratable = one.get_bool("migratable").value_or(false);
    wish.access_mode = text(one, "access_mode");
    wish.owner = text(one, "owner");
    if (one.get_bool("activate").value_or(false)) wish.parameters["activate"] = "true";
  }
  return schedule;
}

}  // namespace moor::sim
