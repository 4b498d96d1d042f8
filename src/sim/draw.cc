// What a seed draws: its own subset of faults and their rates, and the lives of its volumes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "sim/schedule.h"

namespace moor::sim {

using namespace std::chrono_literals;

namespace {

// Whole milliseconds, so that a schedule can be told as a story.
Duration draw(Random& random, Duration low, Duration high) {
  return std::chrono::floor<std::chrono::milliseconds>(Duration(random.between(low.count(), high.count())));
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
  // Servers have links too: to each other's store, to agents and to people.
  const bool of_messages = kind == FaultKind::lossy || kind == FaultKind::slow || kind == FaultKind::late ||
                           kind == FaultKind::lose_answers;
  if (of_messages && random.chance(1, 3)) fault.target += Fault::kServers;
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
    case FaultKind::late: fault.argument = random.between(2, 60); break;
    case FaultKind::stray_hello: fault.argument = random.between(0, 3); break;
    // Most of a start's steps are the answers of its members.
    case FaultKind::ambush: fault.argument = random.between(1, random.chance(1, 2) ? 12 : 60); break;
    case FaultKind::bit_rot: fault.argument = random.between(0, 1 << 20); break;
    case FaultKind::kill_process:
    case FaultKind::pause_process:
      // All copies of one volume at once, or its engine: what a rack or an upgrade does.
      if (random.chance(1, 4)) {
        const std::uint64_t volume = 1 + random.below(2);
        fault.process = fmt::format("{} volume-{}", random.chance(1, 2) ? "replica" : "engine", volume);
      }
      break;
    default: break;
  }
  return fault;
}

constexpr std::array<const char*, 10> kRivals{"csi-attacher",
                                              "csi-attacher",
                                              "csi-attacher",
                                              "longhorn-api",
                                              "snapshot-controller",
                                              "backup-controller",
                                              "volume-rebuilding-controller",
                                              "volume-eviction-controller",
                                              "volume-expansion-controller",
                                              "snapshot-controller"};

// Somebody else wants the volume too: before the ticket, when both must wait and one is chosen, or while it
// is in use. Its id ends with b, and may be shorter or longer than the ticket's.
void draw_rival(Random& random, const DrawOptions& options, const Wish& attach, Duration stays,
                std::vector<Wish>& wishes) {
  const bool first = random.chance(1, 3);
  const Duration at = first ? attach.at - std::min<Duration>(attach.at / 2, draw(random, 0s, 400ms))
                            : attach.at + draw(random, std::min<Duration>(1s, stays), stays);
  const std::string id = random.chance(1, 2) ? attach.ticket + "b"
                                             : fmt::format("r{}{}b", attach.volume,
                                                           attach.ticket.substr(attach.ticket.find('-')));
  const std::uint32_t node = 1 + static_cast<std::uint32_t>(random.below(options.nodes));
  Wish rival{at, WishKind::attach, attach.volume, node, id, kRivals[random.below(kRivals.size())], 0};
  // The other volume's: with it, it goes.
  if (options.volumes > 1 && random.chance(1, 4))
    rival.owner = fmt::format("volume-{}", 1 + attach.volume % options.volumes);
  wishes.push_back(rival);
  if (rival.owner.empty() || random.chance(1, 2))
    wishes.push_back({at + draw(random, 1s, 30s), WishKind::detach, attach.volume, 0, id, "", 0});
}

// Some volumes are deleted, whatever they are used for, and some of those made anew under the same name.
void draw_deletion(Random& random, Duration end, std::uint32_t volume, std::vector<Wish>& wishes) {
  if (!random.chance(1, 5)) return;
  const Duration at = draw(random, end / 4, end - end / 8);
  Wish again;
  for (const Wish& wish : wishes)
    if (wish.volume == volume && wish.kind == WishKind::create_volume) again = wish;
  const Duration back = at + draw(random, 1s, 20s);
  const bool returns = random.chance(1, 2);
  std::erase_if(wishes, [&](const Wish& wish) {
    return wish.volume == volume && wish.at >= at && (!returns || wish.at < back) &&
           wish.kind != WishKind::close_client;
  });
  wishes.push_back({at, WishKind::delete_volume, volume, 0, "", "", 0});
  again.at = back;
  if (returns) wishes.push_back(again);
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
    const std::string ticket = fmt::format("{}{}-{}", random.chance(1, 2) ? "t" : "ticket", volume, number);
    const Duration stays = random.chance(1, 4) ? draw(random, 500ms, 10s) : draw(random, 10s, 150s);
    const char* type = random.chance(1, 5) ? "longhorn-api" : "csi-attacher";
    // Work that can be done later, and is taken away for others: it needs no device.
    const bool later = random.chance(1, 8);
    if (later) type = kRivals[4 + random.below(3)];
    const Wish attach{at, WishKind::attach, volume, where, ticket, type, 0};
    wishes.push_back(attach);
    if (!later) wishes.push_back({at + 100ms, WishKind::open_client, volume, where, ticket, "", 0});
    if (random.chance(1, 3)) draw_rival(random, options, attach, stays, wishes);
    if (at + stays >= end && random.chance(1, 2)) break;  // it stays attached
    const Duration leaves = at + stays;
    wishes.push_back({leaves, WishKind::close_client, volume, where, ticket, "", 0});
    // Some remove the ticket while the device is still in use.
    const Duration early = random.chance(1, 8) ? -draw(random, 0s, std::min<Duration>(stays / 2, 5s)) : 200ms;
    wishes.push_back({leaves + early, WishKind::detach, volume, where, ticket, "", 0});
    at = leaves + draw(random, 300ms, 15s);
  }
  draw_deletion(random, end, volume, wishes);
}

}  // namespace

Swarm draw_swarm(Random& random, const DrawOptions& options) {
  Swarm swarm;
  for (std::size_t kind = 0; kind <= static_cast<std::size_t>(FaultKind::power_room); ++kind) {
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
  // A limit that nobody reaches: every attachment is counted all the same.
  if (random.chance(1, 4))
    schedule.wishes.push_back({draw(random, 0s, 4s), WishKind::set_setting, 0, 0, "node-attach-limit",
                               std::to_string(options.volumes + 1), 0});
  if (random.chance(1, 4))
    schedule.wishes.push_back(
        {draw(random, 0s, 4s), WishKind::set_setting, 0, 0, "attachment-tie-break", "arrival", 0});
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
  switch (random.below(6)) {
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
    case 4:  // or only reads there
      add(acts, WishKind::open_client, ticket, there, "reader");
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

}  // namespace moor::sim
