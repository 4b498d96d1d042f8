#include "sim/machine.h"

#include <fmt/format.h>

#include <csignal>

#include "base/assert.h"
#include "base/ids.h"
#include "block/core/disk_files.h"
#include "block/core/replica_store.h"
#include "sim/host.h"

namespace moor::sim {

using namespace std::chrono_literals;

struct Machine::AgentLife {
  AgentLife(Machine& machine, const agent::AgentOptions& options)
      : process(machine.context_.scheduler, "agent " + machine.name_, machine.wall_offset_),
        caller(machine.context_, process, machine.id_),
        registry(caller, machine.servers_, {"system:node:" + machine.name_, {"system:nodes"}, machine.name_}),
        host(machine, caller),
        agent(process, registry, host, options),
        group(process) {
    registry.before_write = [this](const std::string& what) { host.pass(what); };
  }
  SimProcess process;
  Caller caller;
  RegistryLink registry;
  HostFace host;
  agent::Agent agent;
  TaskGroup group;
};

Machine::Machine(Context& context, std::uint32_t number, Servers& servers, Machines& machines, bool twin)
    : context_(context),
      name_(fmt::format("node-{}", number)),
      address_(fmt::format("10.0.{}.{}", twin ? 1 : 0, number)),
      id_(context.network.add(twin ? "twin of " + name_ : name_)),
      servers_(servers),
      machines_(machines) {}

Machine::~Machine() {
  up_ = false;
  kill_agent();
  for (const auto& [key, process] : processes)
    if (process->is_alive()) process->kill(SIGKILL);
}

void Machine::boot() {
  if (up_) return;
  up_ = true;
  SeededRandom random(context_.fresh_seed());
  boot_id_ = make_uuid(random);
  ++boots_;
  context_.trace(name_, "process", "boots");
  context_.changed.processes = true;
  start_agent();
}

void Machine::lose_power() {
  if (!up_) return;
  context_.trace(name_, "fault", "loses power");
  ++context_.counts.crashes;
  up_ = false;
  kill_agent();
  for (const auto& [key, process] : processes)
    if (process->is_alive()) process->kill(SIGKILL);
  processes.clear();
  devices_.clear();
  for (auto& [path, directory] : directories) {
    directory.disk->power_loss();
    const auto bytes =
        directory.disk->exists("volume.meta") ? directory.disk->get("volume.meta") : std::vector<std::byte>();
    if (const auto meta = block::decode_meta(bytes)) {
      directory.floor = meta->floor;
      directory.generation = meta->generation;
    }
    context_.changed.touch(directory.volume);
  }
  context_.changed.processes = true;
}

void Machine::crash(bool power) {
  if (power) {
    lose_power();
    context_.scheduler.after(context_.scheduler.between(2s, 60s), [this] { boot(); });
    return;
  }
  if (agent_ == nullptr) return;
  ++context_.counts.crashes;
  kill_agent();
  context_.scheduler.after(context_.scheduler.between(100ms, 5s), [this] { start_agent(); });
}

void Machine::start_agent() {
  if (!up_ || agent_ != nullptr) return;
  agent::AgentOptions options;
  options.node = {name_, address_, "", "", "/var/" + name_ + "/disk"};
  options.directory = "/var/" + name_;
  options.device_directory = "/dev/mooring";
  agent_ = std::make_unique<AgentLife>(*this, options);
  ready_ = false;
  context_.trace(name_, "process", "the agent starts");
  AgentLife& life = *agent_;
  life.group.spawn(life.agent.run(life.group.token(), [this] { ready_ = true; }));
  context_.changed.processes = true;
}

void Machine::kill_agent() {
  if (agent_ == nullptr) return;
  context_.trace(name_, "process", "the agent dies");
  AgentLife& life = *agent_;
  life.caller.sever();
  life.process.die();
  life.group.cancel();
  life.process.unwind([&life] { return life.group.running() == 0; });
  agent_.reset();
  ready_ = false;
  context_.changed.processes = true;
}

void Machine::pause_agent() {
  if (agent_ != nullptr) agent_->process.pause();
}

void Machine::resume_agent() {
  if (agent_ != nullptr) agent_->process.resume();
}

void Machine::reset_disks() {
  if (disk_full)
    for (auto& [path, directory] : directories) directory.full_until = context_.scheduler.steps();
  disk_full = slow_disk = command_timeouts = false;
  for (auto& [path, directory] : directories) {
    directory.disk->fail_syncs_of("");
    directory.disk->set_capacity(UINT64_MAX);
  }
}

template <class Kind, class Listens>
std::shared_ptr<Kind> Machine::find_at(const std::string& address, Listens listens) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return nullptr;
  const int port = std::atoi(address.c_str() + colon + 1);
  for (const auto& machine : machines_) {
    if (machine->address_ != address.substr(0, colon)) continue;
    for (const auto& [key, process] : machine->processes) {
      auto found = std::dynamic_pointer_cast<Kind>(process);
      if (found != nullptr && listens(*found, port)) return found;
    }
  }
  return nullptr;
}

std::shared_ptr<ReplicaProcess> Machine::find_replica(const std::string& address) {
  return find_at<ReplicaProcess>(address, [](const ReplicaProcess& replica, int port) {
    return replica.is_alive() && replica.is_open() && replica.port() == port;
  });
}

std::shared_ptr<EngineProcess> Machine::find_source(const std::string& address) {
  return find_at<EngineProcess>(address, [](const EngineProcess& engine, int port) {
    return engine.listens() && port != 0 && engine.peer_port() == port;
  });
}

std::string Machine::socket_key(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.rfind('.'));
}

std::shared_ptr<EngineProcess> Machine::find_engine(const std::string& socket) {
  const auto found = processes.find(socket_key(socket));
  if (found == processes.end() || !found->second->is_alive()) return nullptr;
  auto engine = std::dynamic_pointer_cast<EngineProcess>(found->second);
  return engine != nullptr && engine->is_serving() ? engine : nullptr;
}

std::shared_ptr<DeviceProcess> Machine::find_device(const std::string& link) {
  const auto found = devices_.find(link);
  return found == devices_.end() ? nullptr : found->second.lock();
}

void Machine::link_device(const std::string& path, std::shared_ptr<DeviceProcess> device) {
  devices_[path] = device;
}

void Machine::unlink_device(const std::string& path, const DeviceProcess* device) {
  const auto found = devices_.find(path);
  if (found == devices_.end()) return;
  const auto known = found->second.lock();
  if (known == nullptr || known.get() == device) devices_.erase(found);
}

std::shared_ptr<BlockProcess> Machine::make_process(agent::ProcessSpec spec) {
  const int pid = next_pid++;
  const std::string key = spec.key;
  std::shared_ptr<BlockProcess> process;
  if (spec.arguments.front() == "engine") {
    process = std::make_shared<EngineProcess>(*this, std::move(spec), pid);
  } else if (spec.arguments.front() == "replica") {
    process = std::make_shared<ReplicaProcess>(*this, std::move(spec), pid);
  } else {
    process = std::make_shared<DeviceProcess>(*this, std::move(spec), pid);
  }
  processes[key] = process;
  context_.changed.processes = true;
  return process;
}

// moorblk replica create DIR --size N --volume V --token-file F; moorblk device … --force-remove.
Result<std::string> Machine::run_command(const std::vector<std::string>& words) {
  const auto option = [&](std::string_view name) -> std::string {
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i] == name) return words[i + 1];
    return "";
  };
  if (words.size() > 3 && words[1] == "replica" && words[2] == "create") {
    if (disk_full) return make_error(Errc::exhausted, "no space left on device");
    Directory directory;
    directory.disk = std::make_unique<block::SimDisk>(context_.fresh_seed());
    directory.volume = option("--volume");
    block::ReplicaCreate wanted;
    wanted.size = static_cast<std::uint64_t>(std::atoll(option("--size").c_str()));
    wanted.volume = directory.volume;
    const std::string token = files[option("--token-file")];
    wanted.token = token.substr(0, token.find('\n'));
    block::Runner runner;
    block::DiskFiles on_disk(*directory.disk, runner);
    std::optional<Result<void>> made;
    struct Keep {
      static block::Task<void> result(block::Task<Result<void>> work, std::optional<Result<void>>& into) {
        into.emplace(co_await std::move(work));
      }
    };
    runner.spawn(Keep::result(block::ReplicaStore::create(on_disk, wanted), made));
    do {
      runner.run();
    } while (directory.disk->step());
    runner.run();
    if (!made) return make_error(Errc::internal, "create does not end");
    if (!*made) return made->error();
    directories.put(words[3], std::move(directory));
    return std::string();
  }
  if (words.size() > 2 && words[1] == "device") {
    const auto found = processes.find(socket_key(option("--control")));
    if (found != processes.end() && found->second->is_alive()) found->second->kill(SIGKILL);
    return std::string();
  }
  return make_error(Errc::unsupported, words.empty() ? "" : words[0]);
}

}  // namespace moor::sim
