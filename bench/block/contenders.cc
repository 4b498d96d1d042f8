#include "bench/block/contenders.h"

#include <fmt/format.h>

#include <filesystem>

namespace moor::bench {
namespace {

constexpr auto kStartLimit = std::chrono::seconds(20);

std::string socket_of(const Place& place, const std::string& name) {
  return place.sockets + "/" + name + ".sock";
}

Process serve(const Place& place, const std::string& name, std::vector<std::string> command) {
  std::filesystem::remove(socket_of(place, name));
  Process process(std::move(command), place.sockets + "/" + name + ".log");
  wait_for_path(socket_of(place, name), process, kStartLimit);
  return process;
}

}  // namespace

Duration Contender::cpu() const {
  Duration sum(0);
  for (const Process& process : processes) sum += process.cpu();
  return sum;
}

std::string nbd_uri(const Place& place, const std::string& name, const std::string& export_name) {
  return fmt::format("nbd+unix:///{}?socket={}", export_name, socket_of(place, name));
}

Process serve_replica(const Place& place, const std::string& name) {
  const std::string directory = place.files + "/" + name;
  if (!std::filesystem::exists(directory))
    run_or_die({place.moorblk, "replica", "create", directory, "--size", std::to_string(place.size)});
  return serve(place, name,
               {place.moorblk, "replica", "serve", directory, "--listen", "unix:" + socket_of(place, name),
                "--control", place.sockets + "/" + name + ".ctl"});
}

Process serve_engine(const Place& place, const std::string& name, const std::vector<std::string>& replicas) {
  std::vector<std::string> command{place.moorblk, "engine", "--volume", name, "--replica"};
  for (const std::string& replica : replicas) command.push_back("unix:" + socket_of(place, replica));
  command.insert(command.end(), {"--listen", "unix:" + socket_of(place, name), "--control",
                                 place.sockets + "/" + name + ".ctl", "--confirm", "auto"});
  return serve(place, name, std::move(command));
}

Contender start_engine(const Place& place) {
  Contender contender;
  contender.name = "engine, 3 replicas";
  const std::vector<std::string> replicas{"e1", "e2", "e3"};
  for (const std::string& replica : replicas) {
    contender.processes.push_back(serve_replica(place, replica));
    contender.roles.emplace_back("replica");
  }
  contender.processes.push_back(serve_engine(place, "engine", replicas));
  contender.roles.emplace_back("engine");
  contender.target = nbd_uri(place, "engine");
  return contender;
}

Contender start_single(const Place& place) {
  Contender contender;
  contender.name = "single replica";
  contender.processes.push_back(serve_replica(place, "single"));
  contender.roles.emplace_back("single");
  contender.target = nbd_uri(place, "single");
  return contender;
}

Contender start_quorum(const Place& place, QuorumKind kind) {
  const bool tuned = kind == QuorumKind::tuned;
  const std::string name = tuned ? "quorum-tuned" : "quorum";
  std::vector<std::string> command{"qemu-storage-daemon"};
  std::string quorum = "driver=quorum,node-name=q,vote-threshold=2";
  if (tuned) quorum += ",read-pattern=fifo";
  for (int i = 0; i < 3; ++i) {
    const std::string file = fmt::format("{}/{}{}.qcow2", place.files, name, i);
    run_or_die({"qemu-img", "create", "-q", "-f", "qcow2", file, std::to_string(place.size)});
    command.insert(command.end(), {"--blockdev",
                                   fmt::format("driver=file,node-name=f{},filename={},cache.direct=on,aio={}",
                                               i, file, tuned ? "io_uring" : "threads"),
                                   "--blockdev", fmt::format("driver=qcow2,node-name=c{0},file=f{0}", i)});
    quorum += fmt::format(",children.{0}=c{0}", i);
  }
  command.insert(command.end(),
                 {"--blockdev", quorum, "--nbd-server", "addr.type=unix,addr.path=" + socket_of(place, name),
                  "--export", "type=nbd,id=e,node-name=q,name=v,writable=on"});
  Contender contender;
  contender.name = tuned ? "QEMU quorum, tuned" : "QEMU quorum";
  contender.processes.push_back(serve(place, name, std::move(command)));
  contender.roles.emplace_back("qemu-storage-daemon");
  contender.target = nbd_uri(place, name, "v");
  return contender;
}

Contender start_qemu_nbd(const Place& place) {
  const std::string file = place.files + "/qemu-nbd.raw";
  run_or_die({"truncate", "-s", std::to_string(place.size), file});
  Contender contender;
  contender.name = "qemu-nbd, raw file";
  contender.processes.push_back(
      serve(place, "qemu-nbd",
            {"qemu-nbd", "--socket", socket_of(place, "qemu-nbd"), "--format=raw", "--cache=none",
             "--aio=io_uring", "--persistent", "--shared=4", file}));
  contender.roles.emplace_back("qemu-nbd");
  contender.target = nbd_uri(place, "qemu-nbd");
  return contender;
}

Contender start_nbdkit(const Place& place) {
  const std::string file = place.files + "/nbdkit.raw";
  run_or_die({"truncate", "-s", std::to_string(place.size), file});
  Contender contender;
  contender.name = "nbdkit file (page cache)";
  contender.processes.push_back(
      serve(place, "nbdkit", {"nbdkit", "--foreground", "--unix", socket_of(place, "nbdkit"), "file", file}));
  contender.roles.emplace_back("nbdkit");
  contender.target = nbd_uri(place, "nbdkit");
  return contender;
}

Contender plain_file(const Place& place) {
  Contender contender;
  contender.name = "raw fio";
  contender.target = place.files + "/raw";
  run_or_die({"truncate", "-s", std::to_string(place.size), contender.target});
  return contender;
}

}  // namespace moor::bench
