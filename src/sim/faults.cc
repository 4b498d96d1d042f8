// What each fault does, and how it is mended.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <set>

#include "sim/cluster.h"

namespace moor::sim {

using namespace std::chrono_literals;

namespace {
// Parts of names: everything, the record of a replica, its data and maps.
constexpr std::array<const char*, 3> kSyncsThatFail{".", "volume.meta", "layer."};
}  // namespace

namespace {
std::string name_of(const BlockProcess& process) {
  return std::string(process.spec().record.get_string("name").value_or(""));
}
}  // namespace

void Cluster::later(Duration after, std::function<void()> work) {
  context.scheduler.after(after, [this, work = std::move(work)] {
    if (!healing) work();
  });
}

void Cluster::cut(MachineId machine, const Fault& fault) {
  const bool out = fault.kind != FaultKind::cut_one_way || fault.argument % 2 == 0;
  const bool in = fault.kind != FaultKind::cut_one_way || fault.argument % 2 != 0;
  ++context.counts.cuts;
  context.network.cut_all(machine, out, in);
  later(fault.lasts, [this, machine, out, in] { context.network.join_all(machine, out, in); });
}

void Cluster::cut_between(MachineId one, MachineId other, Duration lasts) {
  ++context.counts.cuts;
  for (const auto& link : {std::pair(one, other), std::pair(other, one)}) {
    context.network.cut(link.first, link.second);
    later(lasts, [this, link] { context.network.join(link.first, link.second); });
  }
}

// Those that the fault names, or the one that its number chooses.
std::vector<std::shared_ptr<BlockProcess>> Cluster::targets_of(const Fault& fault) {
  const auto processes = living();
  if (processes.empty()) return {};
  if (fault.process.empty()) return {processes[fault.target % processes.size()]};
  std::set<std::pair<std::string, int>> wanted;  // node, pid
  const std::string title = fault.process.substr(0, fault.process.find(" on "));
  const std::string only = title == fault.process ? "" : fault.process.substr(title.size() + 4);
  const auto note = [&](std::string_view kind, const std::string& name, const std::string& node, int pid) {
    const std::string whole = fmt::format("{} {}", kind, name);
    if (!only.empty() && node != only) return;
    if (whole == title || whole.starts_with(title + "-")) wanted.emplace(node, pid);
  };
  for (const EngineSight& one : engines()) note("engine", one.volume, one.node, one.pid);
  for (const DeviceSight& one : devices()) note("device", one.volume, one.node, one.pid);
  for (const ReplicaSight& one : replicas()) note("replica", one.name, one.node, one.pid);
  std::vector<std::shared_ptr<BlockProcess>> found;
  for (const auto& process : processes)
    if (wanted.contains({process->machine().name(), process->pid()})) found.push_back(process);
  return found;
}

void Cluster::inject(
    const Fault& fault) {  // tidy: one switch over all faults reads better than twenty helpers
  Machine& node = *machines[fault.target % machines.size()];
  Server& server = *machines_of_servers[fault.target % machines_of_servers.size()];
  const MachineId stormy = fault.target < Fault::kServers ? node.id() : server.machine();
  Weather& weather = context.network.weather(stormy);
  context.trace("world", "fault",
                fmt::format("{} {} (node {}, server {}) for {:.1f} s, {}", to_string(fault.kind),
                            fault.target, node.name(), server.name(),
                            std::chrono::duration<double>(fault.lasts).count(), fault.argument));
  switch (fault.kind) {
    case FaultKind::kill_server:
    case FaultKind::power_server:
      if (!server.is_up()) return;
      ++context.counts.crashes;
      server.kill();
      return later(fault.lasts, [&server] {
        if (!server.is_up()) server.start();
      });
    case FaultKind::pause_server:
      ++context.counts.pauses;
      server.pause();
      return later(fault.lasts, [&server] { server.resume(); });
    case FaultKind::kill_agent:
      if (!node.agent_is_up()) return;
      ++context.counts.crashes;
      node.kill_agent();
      return later(fault.lasts, [&node] { node.start_agent(); });
    case FaultKind::pause_agent:
      ++context.counts.pauses;
      node.pause_agent();
      return later(fault.lasts, [&node] { node.resume_agent(); });
    case FaultKind::kill_process:
      for (const auto& process : targets_of(fault)) process->kill(SIGKILL);
      return;
    case FaultKind::pause_process:
      for (const auto& process : targets_of(fault)) {
        ++context.counts.pauses;
        process->pause();
        later(fault.lasts, [process] { process->resume(); });
      }
      return;
    case FaultKind::power_node:
      for (auto& [ticket, client] : clients_)
        if (&client->machine() == &node) client->die();
      node.lose_power();
      return later(fault.lasts, [&node] { node.boot(); });
    case FaultKind::cut_node:
    case FaultKind::cut_one_way: return cut(node.id(), fault);
    case FaultKind::cut_pair: {
      const MachineId one = node.id();
      const MachineId other = machines[static_cast<std::size_t>(fault.argument) % machines.size()]->id();
      if (one != other) cut_between(one, other, fault.lasts);
      return;
    }
    case FaultKind::cut_store:
      // That one link: agents and people still reach the server, which can tell them nothing new.
      if (place != nullptr) cut_between(server.machine(), place->endpoint()->machine, fault.lasts);
      return;
    case FaultKind::store_down:
      if (place != nullptr) cut(place->endpoint()->machine, fault);
      return;
    case FaultKind::late: weather.late_per_mille = static_cast<std::uint32_t>(fault.argument); break;
    case FaultKind::stray_hello: return stray_hello(fault);
    case FaultKind::ambush:
      context.ambush =
          Ambush{fault.argument, [this, fault](const std::string& volume, const std::string& on) {
                   if (!healing) ambushed(fault, volume, on);
                 }};
      return;
    case FaultKind::power_room:
      for (std::uint32_t i = 0; i < machines.size(); ++i) {
        Fault one = fault;
        one.kind = FaultKind::power_node;
        one.target = i;
        inject(one);
      }
      return;
    case FaultKind::bit_rot: return rot(fault);
    case FaultKind::lost_data:
      for (const auto& machine : machines) {
        std::vector<std::string> gone;
        for (const auto& [path, directory] : machine->directories)
          if (const auto process = directory.process.lock();
              "replica " + directory.replica == fault.process && (process == nullptr || !process->is_alive()))
            gone.push_back(path);
        for (const std::string& path : gone) machine->directories.erase(path);
      }
      return;
    case FaultKind::twin: {
      const std::uint32_t number = 1 + fault.target % static_cast<std::uint32_t>(machines.size());
      twins.push_back(std::make_unique<Machine>(context, number, machines_of_servers, machines, true));
      Machine& twin = *twins.back();
      twin.boot();
      return later(fault.lasts, [&twin] { twin.lose_power(); });
    }
    case FaultKind::lossy: weather.loss_per_mille = static_cast<std::uint32_t>(fault.argument); break;
    case FaultKind::slow: weather.extra = std::chrono::milliseconds(fault.argument); break;
    case FaultKind::lose_answers: weather.lose_answers = true; break;
    case FaultKind::watch_cuts: weather.watch_cuts = true; break;
    case FaultKind::expire_watches:
      if (place != nullptr) place->compact();
      return;
    case FaultKind::step_clock: {
      auto& clock = fault.target % 2 == 0 ? node.wall_offset() : server.wall_offset();
      clock += std::chrono::seconds(fault.argument);
      return;
    }
    case FaultKind::full_disk:
      node.disk_full = true;
      for (auto& [path, directory] : node.directories)
        directory.disk->set_capacity(directory.disk->used_bytes());
      return later(fault.lasts, [&node] { node.reset_disks(); });
    case FaultKind::failing_sync:
      if (!fault.process.empty()) {
        for (const auto& machine : machines)
          for (auto& [path, directory] : machine->directories)
            if (path.ends_with(fault.process.substr(fault.process.rfind("-r-"))))
              directory.disk->fail_syncs_of(".");
        return;
      }
      if (node.directories.empty()) return;
      std::next(node.directories.begin(), static_cast<std::ptrdiff_t>(fault.target % node.directories.size()))
          ->second.disk->fail_syncs_of(kSyncsThatFail[fault.target % kSyncsThatFail.size()]);
      return later(fault.lasts, [&node] { node.reset_disks(); });
    case FaultKind::slow_disk:
      node.slow_disk = true;
      return later(fault.lasts, [&node] { node.slow_disk = false; });
    case FaultKind::old_boot: node.files.erase("/var/" + node.name() + "/node.json"); return;
    case FaultKind::backend_timeout:
      node.command_timeouts = true;
      return later(fault.lasts, [&node] { node.command_timeouts = false; });
    case FaultKind::crash_point:
      context.crash_points.arm_later(static_cast<std::uint64_t>(fault.argument),
                                     fault.target % 2 == 0 ? CrashWhen::before : CrashWhen::after,
                                     fault.target % 4 >= 2);
      return;
  }
  later(fault.lasts, [this, id = stormy] { context.network.weather(id) = {}; });
}

// What a replica may hear, and must not heed: a HELLO of an epoch that has passed, one that the network has
// sent twice or kept back, and one of another engine that claims the same epoch.
void Cluster::stray_hello(const Fault& fault) {
  std::vector<std::shared_ptr<ReplicaProcess>> replicas;
  for (const auto& process : living())
    if (auto replica = std::dynamic_pointer_cast<ReplicaProcess>(process);
        (fault.process.empty() || fault.process == "replica " + name_of(*process)) && replica != nullptr &&
        replica->is_open() && replica->core()->store().meta().floor.epoch != 0)
      replicas.push_back(std::move(replica));
  if (replicas.empty()) return;
  const auto replica = replicas[fault.target % replicas.size()];
  const block::ReplicaMeta& meta = replica->core()->store().meta();
  block::Hello hello;
  hello.volume = meta.volume;
  hello.token = meta.token;
  hello.mode = block::HelloMode::active;
  hello.epoch = meta.floor.epoch;
  hello.engine = meta.floor.engine;
  hello.session = meta.floor.session;
  const auto kind = static_cast<std::uint64_t>(fault.argument) % 4;
  if (kind == 0 && hello.epoch > 1) {
    --hello.epoch;
    hello.session += 7;
  } else if (kind == 1) {
    hello.engine += "-of-another";
    hello.session += 7;
  } else if (kind == 2 && hello.session > 1) {
    --hello.session;
  }
  const auto wire = std::make_shared<PeerWire>();
  wire->replica = replica;
  wire->engine_machine = wire->replica_machine = replica->machine().id();
  replica->deliver([replica, wire, hello] { replica->hello(wire, hello); });
  context.scheduler.after(context.scheduler.between(10ms, 20s),
                          [replica, wire] { replica->deliver([replica, wire] { replica->closed(wire); }); });
}

// An engine of `volume` is just starting on node `on`.
void Cluster::ambushed(const Fault& fault, const std::string& volume, const std::string& on) {
  const auto replicas = replicas_of(volume);
  std::vector<ReplicaSight> alive;
  for (const ReplicaSight& one : replicas)
    if (one.pid != 0) alive.push_back(one);
  if (alive.empty()) return;
  const ReplicaSight victim = alive[(fault.target / 8) % alive.size()];
  Fault next;
  next.lasts = fault.lasts;
  const auto number_of = [this](const std::string& node) {
    std::uint32_t i = 0;
    while (i + 1 < machines.size() && machines[i]->name() != node) ++i;
    return i;
  };
  switch (fault.target % 8) {
    case 0:
      next.kind = FaultKind::kill_process;
      next.process = fmt::format("engine {} on {}", volume, on);
      break;
    case 1:
    case 2:
      next.kind = FaultKind::power_node;
      next.target = number_of(victim.node);
      break;
    case 3:
      next.kind = FaultKind::cut_pair;
      next.target = number_of(on);
      next.argument = number_of(victim.node);
      break;
    default:
      next.kind = FaultKind::kill_process;
      next.process = "replica " + victim.name;
      break;
  }
  inject(next);
}

// Of the record only, which is summed. Nobody sums the data of a head yet, so nobody could notice there.
void Cluster::rot(const Fault& fault) {
  constexpr const char* kFile = "volume.meta";
  for (const auto& machine : machines)
    for (auto& [path, directory] : machine->directories) {
      if ("replica " + directory.replica != fault.process || !directory.disk->exists(kFile)) continue;
      const std::uint64_t bits = directory.disk->size_of(kFile) * 8;
      context.trace(machine->name(), "fault", fmt::format("a bit of {} in {} flips", kFile, path));
      if (bits != 0) directory.disk->flip_bit(kFile, static_cast<std::uint64_t>(fault.argument) % bits);
    }
}

void Cluster::heal() {
  context.trace("world", "fault", "healing: no more faults");
  healing = true;
  context.network.clear();
  context.crash_points = {};
  context.ambush.reset();
  for (const auto& server : machines_of_servers) {
    server->resume();
    if (!server->is_up()) server->start();
  }
  for (const auto& machine : machines) {
    machine->reset_disks();
    machine->resume_agent();
    if (!machine->is_up()) {
      machine->boot();
    } else {
      machine->start_agent();
    }
  }
  for (const auto& twin : twins) twin->lose_power();
  for (const auto& process : living()) process->resume();
}

}  // namespace moor::sim
