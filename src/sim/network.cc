#include "sim/network.h"

#include <algorithm>
#include <array>

namespace moor::sim {

using namespace std::chrono_literals;

MachineId Network::add(std::string name) {
  names_.push_back(std::move(name));
  return static_cast<MachineId>(names_.size() - 1);
}

void Network::join(MachineId from, MachineId to) {
  const auto found = cuts_.find({from, to});
  if (found != cuts_.end() && --found->second == 0) cuts_.erase(found);
}

void Network::cut_all(MachineId machine, bool outgoing, bool incoming) {
  for (MachineId other = 0; other < names_.size(); ++other) {
    if (other == machine) continue;
    if (outgoing) cut(machine, other);
    if (incoming) cut(other, machine);
  }
}

void Network::join_all(MachineId machine, bool outgoing, bool incoming) {
  for (MachineId other = 0; other < names_.size(); ++other) {
    if (other == machine) continue;
    if (outgoing) join(machine, other);
    if (incoming) join(other, machine);
  }
}

bool Network::is_cut(MachineId machine) const {
  for (const auto& [way, count] : cuts_)
    if (way.first == machine || way.second == machine) return true;
  return false;
}

void Network::clear() {
  cuts_.clear();
  weather_.clear();
}

Duration Network::delay(MachineId from, MachineId to) {
  Random& random = scheduler_.random();
  if (from == to) return Duration(random.between(20'000, 200'000));
  Duration delay(random.between(100'000, 1'500'000));
  for (const MachineId side : {from, to}) {
    const auto found = weather_.find(side);
    if (found == weather_.end() || found->second.extra == Duration::zero()) continue;
    if (random.chance(1, 2)) delay += Duration(random.between(0, found->second.extra.count()));
  }
  return delay;
}

Duration Network::lateness(MachineId from, MachineId to) {
  if (from == to || weather_.empty() || from == prompt_ || to == prompt_) return Duration::zero();
  std::uint32_t chance = 0;
  for (const MachineId side : {from, to})
    if (const auto found = weather_.find(side); found != weather_.end())
      chance = std::max(chance, found->second.late_per_mille);
  Random& random = scheduler_.random();
  if (chance == 0 || !random.chance(chance, 1000)) return Duration::zero();
  // Seconds, minutes and an hour alike.
  constexpr std::array<Duration, 4> kMost{5s, 60s, 600s, 3600s};
  return Duration(random.between(Duration(1s).count(), kMost[random.below(kMost.size())].count()));
}

bool Network::is_lost(MachineId from, MachineId to, Role role) {
  if (from == to) return false;
  if (!reaches(from, to)) return true;
  if (weather_.empty()) return false;
  const auto at_sender = weather_.find(from);
  const auto at_receiver = weather_.find(to);
  for (const auto& found : {at_sender, at_receiver})
    if (found != weather_.end() && found->second.loss_per_mille != 0 &&
        scheduler_.random().chance(found->second.loss_per_mille, 1000))
      return true;
  return role == Role::answer && at_receiver != weather_.end() && at_receiver->second.lose_answers &&
         scheduler_.random().chance(1, 2);
}

bool Network::send(MachineId from, MachineId to, Scheduler::Work deliver, Role role) {
  ++counts_.sent;
  if (is_lost(from, to, role)) {
    ++counts_.lost;
    return false;
  }
  // One after the other: which operand of a sum comes first is each compiler's choice, and both draw.
  const Duration more = lateness(from, to);
  scheduler_.after(delay(from, to) + more, [this, from, to, deliver = std::move(deliver)] {
    if (reaches(from, to)) return deliver();
    ++counts_.lost;
  });
  return true;
}

}  // namespace moor::sim
