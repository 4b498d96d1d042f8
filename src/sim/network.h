// Who reaches whom, how late, and what is lost. Messages are independent of each other unless they belong to
// a Wire, which keeps their order as a TCP connection does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/scheduler.h"

namespace moor::sim {

using MachineId = std::uint32_t;

// What is wrong with all messages of a machine.
struct Weather {
  std::uint32_t loss_per_mille = 0;
  Duration extra{0};                 // at most
  std::uint32_t late_per_mille = 0;  // kept back somewhere, for up to an hour
  bool lose_answers = false;         // what it asks arrives, what it is answered does not
  bool watch_cuts = false;
};

struct NetworkCounts {
  std::uint64_t sent = 0;
  std::uint64_t lost = 0;
};

class Network {
 public:
  explicit Network(Scheduler& scheduler) : scheduler_(scheduler) {}
  MachineId add(std::string name);
  const std::string& name(MachineId machine) const { return names_[machine]; }

  // Counted: two cuts of one way need two joins.
  void cut(MachineId from, MachineId to) { ++cuts_[{from, to}]; }
  void join(MachineId from, MachineId to);
  void cut_all(MachineId machine, bool outgoing, bool incoming);
  void join_all(MachineId machine, bool outgoing, bool incoming);
  bool reaches(MachineId from, MachineId to) const { return from == to || !cuts_.contains({from, to}); }
  bool is_cut(MachineId machine) const;
  void clear();  // everything is well again
  // Whose messages are never kept back: what people ask for again and again shall not come true an hour
  // later.
  void set_prompt(MachineId machine) { prompt_ = machine; }
  Weather& weather(MachineId machine) { return weather_[machine]; }

  enum class Role : std::uint8_t { request, answer };
  // Runs `deliver` at the other machine some time later, or never. False: never (nobody in the world knows).
  bool send(MachineId from, MachineId to, Scheduler::Work deliver, Role role = Role::request);
  Duration delay(MachineId from, MachineId to);
  // How long the network keeps this message back, beside its delay; zero for most.
  Duration lateness(MachineId from, MachineId to);
  bool is_lost(MachineId from, MachineId to, Role role);
  const NetworkCounts& counts() const { return counts_; }

 private:
  Scheduler& scheduler_;
  std::vector<std::string> names_;
  std::map<std::pair<MachineId, MachineId>, int> cuts_;
  std::map<MachineId, Weather> weather_;
  MachineId prompt_ = UINT32_MAX;
  NetworkCounts counts_;
};

}  // namespace moor::sim
