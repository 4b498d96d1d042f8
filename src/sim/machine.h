// One node: a machine with power, a boot id, files, replica directories on simulated disks, processes of
// moorblk and an agent. Files of the host are durable when their call has ended, as the Host promises.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/agent.h"
#include "sim/block_process.h"
#include "sim/directories.h"
#include "sim/registry_link.h"

namespace moor::sim {

class Client;
class HostFace;

class Machine {
 public:
  using Servers = RegistryLink::Servers;
  using Machines = std::vector<std::unique_ptr<Machine>>;
  // `twin`: another machine that was given the name of that node.
  Machine(Context& context, std::uint32_t number, Servers& servers, Machines& machines, bool twin = false);
  ~Machine();

  Context& context() { return context_; }
  const std::string& name() const { return name_; }
  const std::string& boot_id() const { return boot_id_; }
  const std::string& address() const { return address_; }
  MachineId id() const { return id_; }
  std::chrono::microseconds& wall_offset() { return wall_offset_; }

  void boot();
  void lose_power();
  bool is_up() const { return up_; }
  // A crash out of the blue: whoever supervises the agent, or the machine, starts it again after a while.
  void crash(bool power);
  void start_agent();
  void kill_agent();
  bool agent_is_up() const { return agent_ != nullptr; }
  bool agent_is_ready() const { return agent_ != nullptr && ready_; }
  void pause_agent();
  void resume_agent();
  void reset_disks();  // no faults any more

  std::shared_ptr<ReplicaProcess> find_replica(const std::string& address);  // "10.0.0.1:1234" anywhere
  std::shared_ptr<EngineProcess> find_source(const std::string& address);    // of a standby, likewise
  std::shared_ptr<EngineProcess> find_engine(const std::string& socket);
  std::shared_ptr<DeviceProcess> find_device(const std::string& link);
  void link_device(const std::string& path, std::shared_ptr<DeviceProcess> device);
  void unlink_device(const std::string& path, const DeviceProcess* device);
  std::shared_ptr<BlockProcess> make_process(agent::ProcessSpec spec);
  // Commands of the host; see agent::Host::run.
  Result<std::string> run_command(const std::vector<std::string>& words);

  std::map<std::string, std::string> files;
  Directories directories;
  std::map<std::string, std::shared_ptr<BlockProcess>> processes;  // by key; ended ones until forgotten
  std::map<std::string, Json> records;
  std::map<std::string, std::string> outputs;
  std::set<std::string> durable_directories;
  bool disk_full = false;
  bool slow_disk = false;
  bool command_timeouts = false;
  int next_pid = 100;
  int next_port = 10'000;
  int next_loop = 1;

 private:
  template <class Kind, class Listens>
  std::shared_ptr<Kind> find_at(const std::string& address, Listens listens);
  struct AgentLife;
  static std::string socket_key(const std::string& path);

  Context& context_;
  std::string name_;
  std::string address_;
  MachineId id_;
  Servers& servers_;
  Machines& machines_;
  std::chrono::microseconds wall_offset_{0};
  std::string boot_id_;
  std::uint64_t boots_ = 0;
  bool up_ = false;
  bool ready_ = false;
  std::unique_ptr<AgentLife> agent_;
  std::map<std::string, std::weak_ptr<DeviceProcess>> devices_;  // by link
};

}  // namespace moor::sim
