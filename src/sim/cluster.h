// The parts of a world and the reality that checkers see. Private to the room.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sim/client.h"
#include "sim/machine.h"
#include "sim/people.h"
#include "sim/world.h"

namespace moor::sim {

class Cluster final : public Reality {
 public:
  explicit Cluster(WorldOptions options);
  ~Cluster() override;

  // Reality.
  TimePoint now() const override { return context.scheduler.now(); }
  std::uint64_t step() const override { return context.scheduler.steps(); }
  bool is_healing() const override { return healing; }
  std::vector<NodeSight> nodes() const override;
  std::vector<ServerSight> servers_seen() const;
  std::vector<ServerSight> servers() const override { return servers_seen(); }
  std::vector<EngineSight> engines() const override;
  std::vector<ReplicaSight> replicas() const override;
  std::vector<DeviceSight> devices() const override;
  std::vector<EngineSight> engines_of(std::string_view volume) const override;
  control::Decoder* decoder() const override { return &context.decoder; }
  std::size_t engine_count_of(std::string_view volume) const override;
  std::vector<ReplicaSight> replicas_of(std::string_view volume) const override;
  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override;
  void for_each(const model::KindInfo& kind, const std::function<void(const JsonPtr&)>& visit) const override;
  const std::map<std::string, VolumeHistory>& histories() const override { return histories_; }
  std::optional<std::vector<std::byte>> bytes_of(const ReplicaSight& replica) const override;
  std::optional<block::HelloAnswer> answer_of(const ReplicaSight& replica) const override;

  // One event, then the checkers.
  bool step_once();
  void run_for(Duration duration);
  bool run_until(const std::function<bool(const Reality&)>& holds, Duration limit);
  void start();
  void inject(const Fault& fault);  // faults.cc
  void heal();                      // faults.cc
  void wish(const Wish& wish);
  void schedule_all(const Schedule& schedule);
  void violated(std::string_view rule, std::string message);
  bool is_quiet() const;
  bool is_ready() const;
  // Every volume is where its tickets want it.
  bool is_content() const;
  void begin_final_reads();
  // The last reads are not answered, though everything is well.
  void judge_unanswered();
  void end_clients();
  // Workloads whose ticket is gone let go of their device: the pod has ended.
  void close_leftover_clients();
  void remove_all_tickets();
  std::size_t reads_open() const { return final_reads_.size(); }
  std::uint64_t state_hash() const;
  JournalDisk& disk() const { return place ? place->disk() : machines_of_servers.front()->disk(); }

  mutable Context context;
  std::unique_ptr<StorePlace> place;
  RegistryLink::Servers machines_of_servers;
  Machine::Machines machines;
  Machine::Machines twins;  // that were given the name of one of them
  std::unique_ptr<People> people;
  std::vector<std::unique_ptr<Checker>> checkers;
  std::optional<Violation> violation;
  std::vector<TraceLine> trace;
  Schedule schedule;
  bool healing = false;

 private:
  void see_commit(const Commit& commit);
  void see_serve(const EngineSight& engine, const block::engine::Serve& serve);
  VolumeHistory& history_of(const std::string& volume);
  std::shared_ptr<Client> open_client(const Wish& wish);
  void hand_over(const Wish& wish);
  void watch_guest(const Wish& wish);
  void close_client(const Wish& wish);
  void ask_checkers();
  std::vector<std::shared_ptr<BlockProcess>> living() const;
  // Of all volumes when it is absent.
  std::vector<std::shared_ptr<BlockProcess>> targets_of(const Fault& fault);
  void cut(MachineId machine, const Fault& fault);
  void cut_between(MachineId one, MachineId other, Duration lasts);
  void stray_hello(const Fault& fault);
  void ambushed(const Fault& fault, const std::string& volume, const std::string& on);
  void rot(const Fault& fault);
  void later(Duration after, std::function<void()> work);

  std::map<std::string, VolumeHistory> histories_;
  std::map<std::string, std::shared_ptr<Client>> clients_;  // by ticket
  std::vector<std::shared_ptr<Client>> past_clients_;
  std::uint64_t next_client_ = 1;
  std::map<std::string, std::shared_ptr<Client>> final_reads_;  // by ticket
  std::string leader_;
  std::uint64_t satisfied_ = 0;
  std::uint64_t steps_at_once_ = 0;  // within a millisecond from this moment on
  TimePoint moment_;
  bool in_checkers_ = false;
};

}  // namespace moor::sim
