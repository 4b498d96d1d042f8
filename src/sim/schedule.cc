#include "sim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace moor::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::array<std::string_view, 25> kFaults{
    "kill_server",   "power_server", "pause_server", "kill_agent",  "pause_agent",    "kill_process",
    "pause_process", "power_node",   "cut_node",     "cut_one_way", "cut_pair",       "cut_store",
    "lossy",         "slow",         "lose_answers", "watch_cuts",  "expire_watches", "store_down",
    "step_clock",    "full_disk",    "failing_sync", "slow_disk",   "old_boot",       "backend_timeout",
    "crash_point"};
constexpr std::array<std::string_view, 10> kWishes{
    "create_volume", "delete_volume", "attach",        "detach",      "open_client",
    "close_client",  "retarget",      "set_parameter", "set_setting", "hand_over"};

template <std::size_t N>
std::optional<std::size_t> index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

Duration draw(Random& random, Duration low, Duration high) {
  return Duration(random.between(low.count(), high.count()));
}

// Short ones are common, long ones are not rare: 0.1 to 300 s.
Duration draw_pause(Random& random) {
  switch (random.below(4)) {
    case 0: return draw(random, 100ms, 2s);
    case 1: return draw(random, 1s, 10s);
    case 2: return draw(random, 5s, 40s);
    default: return draw(random, 20s, random.chance(1, 4) ? Duration(300s) : Duration(90s));
  }
}

Fault draw_fault(Random& random, FaultKind kind, Duration at) {
  Fault fault{at, kind, static_cast<std::uint32_t>(random.below(1000)), draw_pause(random), 0};
  switch (kind) {
    case FaultKind::lossy: fault.argument = random.between(5, 300); break;
    case FaultKind::slow: fault.argument = random.between(10, random.chance(1, 8) ? 60'000 : 3'000); break;
    case FaultKind::step_clock: fault.argument = random.between(-600, 600); break;
    case FaultKind::kill_server:
    case FaultKind::kill_agent:
      if (random.chance(1, 2)) fault.lasts = draw(random, 50ms, 3s);
      break;
    case FaultKind::cut_one_way: fault.argument = random.between(0, 1); break;
    case FaultKind::cut_pair: fault.argument = random.between(0, 1000); break;
    case FaultKind::crash_point: fault.argument = random.between(1, 400); break;
    default: break;
  }
  return fault;
}

// One volume's life: tickets come and go, mostly one at a time, now and then two that compete.
void draw_volume(Random& random, const DrawOptions& options, std::uint32_t volume,
                 std::vector<Wish>& wishes) {
  const Duration end = options.warm_up + options.faults;
  const auto node = [&] { return 1 + static_cast<std::uint32_t>(random.below(options.nodes)); };
  Duration at = draw(random, 500ms, 4s);
  Wish create{at, WishKind::create_volume, volume, 0, "", "", 0};
  create.replicas = 1 + static_cast<std::uint32_t>(random.below(std::min<std::uint32_t>(options.nodes, 3)));
  if (random.chance(2, 3)) create.replicas = std::min<std::uint32_t>(options.nodes, 3);
  wishes.push_back(create);
  at += 1s;
  for (int number = 1; at < end; ++number) {
    const std::uint32_t where = node();
    const std::string ticket = fmt::format("t{}-{}", volume, number);
    const Duration stays = random.chance(1, 4) ? draw(random, 500ms, 10s) : draw(random, 10s, 150s);
    const char* type = random.chance(1, 5) ? "longhorn-api" : "csi-attacher";
    wishes.push_back({at, WishKind::attach, volume, where, ticket, type, 0});
    wishes.push_back({at + 100ms, WishKind::open_client, volume, where, ticket, "", 0});
    if (random.chance(1, 5)) {
      const Duration later = draw(random, std::min<Duration>(1s, stays), stays);
      const std::string rival = ticket + "b";
      wishes.push_back({at + later, WishKind::attach, volume, node(), rival, "csi-attacher", 0});
      wishes.push_back({at + later + draw(random, 1s, 30s), WishKind::detach, volume, 0, rival, "", 0});
    }
    if (at + stays >= end && random.chance(1, 2)) break;  // it stays attached
    const Duration leaves = at + stays;
    wishes.push_back({leaves, WishKind::close_client, volume, where, ticket, "", 0});
    // Some remove the ticket while the device is still in use.
    const Duration early = random.chance(1, 8) ? -draw(random, 0s, std::min<Duration>(stays / 2, 5s)) : 200ms;
    wishes.push_back({leaves + early, WishKind::detach, volume, where, ticket, "", 0});
    at = leaves + draw(random, 300ms, 15s);
  }
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return kFaults[static_cast<std::size_t>(kind)];
}

std::string_view to_string(WishKind kind) {
  return kWishes[static_cast<std::size_t>(kind)];
}

Swarm draw_swarm(Random& random, const DrawOptions& options) {
  Swarm swarm;
  for (std::size_t kind = 0; kind < kFaults.size(); ++kind) {
    const auto one = static_cast<FaultKind>(kind);
    const bool for_shared =
        one == FaultKind::cut_store || one == FaultKind::expire_watches || one == FaultKind::store_down;
    if (for_shared && !options.shared_store) continue;
    if (random.chance(1, 3)) swarm.kinds.push_back(one);
  }
  swarm.mean_pause = draw(random, 2s, 30s);
  return swarm;
}

Schedule draw_schedule(Random& random, const Swarm& swarm, const DrawOptions& options) {
  Schedule schedule;
  for (std::uint32_t volume = 1; volume <= options.volumes; ++volume)
    draw_volume(random, options, volume, schedule.wishes);
  std::stable_sort(schedule.wishes.begin(), schedule.wishes.end(),
                   [](const Wish& a, const Wish& b) { return a.at < b.at; });
  Duration at = options.warm_up;
  while (!swarm.kinds.empty()) {
    at += draw(random, swarm.mean_pause / 10, swarm.mean_pause * 2);
    if (at >= options.warm_up + options.faults) break;
    const FaultKind kind = swarm.kinds[random.below(swarm.kinds.size())];
    schedule.faults.push_back(draw_fault(random, kind, at));
  }
  return schedule;
}

namespace {

// One move during the stay of a ticket: how it goes on and how it ends is drawn too.
void draw_move(Random& random, const DrawOptions& options, const Wish& stay, Duration leaves,
               std::vector<Wish>& wishes) {
  const auto second =
      leaves - stay.at < 4s ? leaves : stay.at + draw(random, 1s, std::min<Duration>(leaves - stay.at, 60s));
  const std::uint32_t step = 1 + static_cast<std::uint32_t>(random.below(options.nodes - 1));
  const std::uint32_t there = 1 + (stay.node - 1 + step) % options.nodes;
  const std::string ticket = stay.ticket + "m";
  const auto add = [&](Duration at, WishKind kind, const std::string& of, std::uint32_t node,
                       const std::string& type = "") {
    wishes.push_back({at, kind, stay.volume, node, of, type, 0});
  };
  add(second, WishKind::attach, ticket, there, "csi-attacher");
  const Duration acts = second + draw(random, 500ms, 15s);
  Duration ends = acts + draw(random, 500ms, 40s);
  switch (random.below(5)) {
    case 0:
    case 1:  // the guest moves, and the source's detach confirms
      add(acts, WishKind::hand_over, stay.ticket, there, ticket);
      add(ends, WishKind::detach, stay.ticket, 0);
      ends = std::max(leaves, ends) + draw(random, 1s, 40s);
      break;
    case 2: break;  // the destination's detach rolls back before anybody has used it
    case 3:         // somebody opens the destination while the source is still in use
      add(acts, WishKind::open_client, ticket, there);
      break;
    default: {  // asked for, without a client; both stay until the source leaves
      Wish activate{acts, WishKind::set_parameter, stay.volume, 0, ticket, "", 0};
      activate.parameters["activate"] = "true";
      wishes.push_back(activate);
      if (random.chance(1, 2)) ends = leaves + draw(random, 200ms, 20s);
      break;
    }
  }
  add(ends, WishKind::close_client, ticket, there);
  add(ends + 200ms, WishKind::detach, ticket, 0);
}

}  // namespace

void draw_moves(Random& random, const DrawOptions& options, Schedule& schedule) {
  if (options.nodes < 2) return;
  std::vector<Wish> more;
  for (std::uint32_t volume = 1; volume <= options.volumes; ++volume) {
    if (random.chance(1, 4)) continue;
    for (Wish& wish : schedule.wishes) {
      if (wish.volume != volume) continue;
      if (wish.kind == WishKind::create_volume) {
        wish.migratable = true;
        wish.access_mode = "rwx";
      }
      if (wish.kind != WishKind::attach || wish.ticket.ends_with('b') || random.chance(1, 4)) continue;
      Duration leaves = options.warm_up + options.faults;
      for (const Wish& other : schedule.wishes)
        if (other.kind == WishKind::detach && other.ticket == wish.ticket) leaves = other.at;
      if (leaves > wish.at + 1s) draw_move(random, options, wish, leaves, more);
    }
  }
  schedule.wishes.insert(schedule.wishes.end(), more.begin(), more.end());
  std::stable_sort(schedule.wishes.begin(), schedule.wishes.end(),
                   [](const Wish& a, const Wish& b) { return a.at < b.at; });
}

Json to_json(const Schedule& schedule) {
  Json faults = Json::array();
  for (const Fault& fault : schedule.faults)
    faults.push_back(Json::object({{"at", static_cast<std::int64_t>(fault.at.count())},
                                   {"kind", to_string(fault.kind)},
                                   {"target", static_cast<std::int64_t>(fault.target)},
                                   {"lasts", static_cast<std::int64_t>(fault.lasts.count())},
                                   {"argument", fault.argument}}));
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
                               Duration(number(one, "lasts")), number(one, "argument")});
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
    if (one.get_bool("activate").value_or(false)) wish.parameters["activate"] = "true";
  }
  return schedule;
}

}  // namespace moor::sim
