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
  Weather& weather = context.network.weather(node.id());
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
      if (one == other) return;
      ++context.counts.cuts;
      for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
        context.network.cut(from, to);
        later(fault.lasts, [this, from, to] { context.network.join(from, to); });
      }
      return;
    }
    case FaultKind::cut_store:
      if (place != nullptr) cut(server.machine(), fault);
      return;
    case FaultKind::store_down:
      if (place != nullptr) cut(place->endpoint()->machine, fault);
      return;
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
  later(fault.lasts, [this, id = node.id()] { context.network.weather(id) = {}; });
}

void Cluster::heal() {
  context.trace("world", "fault", "healing: no more faults");
  healing = true;
  context.network.clear();
  context.crash_points = {};
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
  for (const auto& process : living()) process->resume();
}

}  // namespace moor::sim
