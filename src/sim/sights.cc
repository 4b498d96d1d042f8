// What checkers see of a cluster.
#include "block/core/replica_store.h"
#include "registry/keys.h"
#include "sim/cluster.h"

namespace moor::sim {

std::vector<NodeSight> Cluster::nodes() const {
  std::vector<NodeSight> found;
  for (const auto& machine : machines)
    found.push_back({machine->name(), machine->boot_id(), machine->is_up(), machine->agent_is_up(),
                     context.network.is_cut(machine->id())});
  return found;
}

std::vector<ServerSight> Cluster::servers_seen() const {
  std::vector<ServerSight> found;
  for (const auto& server : machines_of_servers)
    found.push_back({server->name(), server->is_up(), server->is_paused(), server->is_leading()});
  return found;
}

std::vector<EngineSight> Cluster::engines() const {
  std::vector<EngineSight> found;
  for (const auto& [volume, those] : context.engines)
    for (const EngineProcess* engine : those) found.push_back(engine->sight());
  return found;
}

std::vector<EngineSight> Cluster::engines_of(std::string_view volume) const {
  std::vector<EngineSight> found;
  if (const auto those = context.engines.find(volume); those != context.engines.end())
    for (const EngineProcess* engine : those->second) found.push_back(engine->sight());
  return found;
}

std::size_t Cluster::engine_count_of(std::string_view volume) const {
  const auto those = context.engines.find(volume);
  return those == context.engines.end() ? 0 : those->second.size();
}

namespace {

ReplicaSight sight_of(const Machine& machine, const Directories::Entry& entry) {
  const auto& [path, directory] = entry;
  ReplicaSight sight;
  sight.node = machine.name();
  sight.directory = path;
  sight.volume = directory.volume;
  sight.name = directory.replica;
  sight.disk = directory.disk.get();
  sight.floor = directory.floor;
  sight.generation = directory.generation;
  sight.full_until = machine.disk_full ? UINT64_MAX : directory.full_until;
  const auto replica = directory.process.lock();
  if (replica != nullptr && replica->is_alive() && replica->directory() == path) {
    sight.pid = replica->pid();
    sight.open = replica->is_open();
    sight.core = replica->core();
    sight.holder_connection = replica->admitted();
    sight.unfinished = replica->unfinished();
  }
  return sight;
}

}  // namespace

std::vector<ReplicaSight> Cluster::replicas() const {
  std::vector<ReplicaSight> found;
  for (const auto& machine : machines)
    for (const auto& entry : machine->directories) found.push_back(sight_of(*machine, entry));
  return found;
}

std::vector<ReplicaSight> Cluster::replicas_of(std::string_view volume) const {
  std::vector<ReplicaSight> found;
  for (const auto& machine : machines)
    for (const auto* entry : machine->directories.of(volume)) found.push_back(sight_of(*machine, *entry));
  return found;
}

std::vector<DeviceSight> Cluster::devices() const {
  std::vector<DeviceSight> found;
  for (const auto& process : living()) {
    const auto device = std::dynamic_pointer_cast<DeviceProcess>(process);
    if (device == nullptr) continue;
    found.push_back({process->machine().name(),
                     std::string(device->spec().record.get_string("volume").value_or("")), device->link(),
                     device->pid(), device->users().size(), &device->core()});
  }
  return found;
}

JsonPtr Cluster::find(const model::KindInfo& kind, std::string_view space, std::string_view name) const {
  const auto& objects = disk().objects();
  const auto found = objects.find(registry::key_of(kind, space, name));
  return found == objects.end() ? nullptr : found->second.second;
}

void Cluster::for_each(const model::KindInfo& kind, const std::function<void(const JsonPtr&)>& visit) const {
  const std::string prefix = registry::prefix_of(kind, "");
  const auto& objects = disk().objects();
  for (auto at = objects.lower_bound(prefix); at != objects.end() && at->first.starts_with(prefix); ++at)
    if (at->second.second != nullptr) visit(at->second.second);
}

namespace {

// A copy of a replica's disk with a process of its own, and an engine above every other.
class Copy final : private block::ReplicaSink {
 public:
  explicit Copy(const block::SimDisk& disk) : disk_(disk.clone(1)) {
    const auto raw = disk_->exists("volume.meta") ? disk_->get("volume.meta") : std::vector<std::byte>();
    const auto meta = block::decode_meta(raw);
    if (!meta) return;
    core_ = std::make_unique<block::Replica>(*disk_, pool_, static_cast<block::ReplicaSink&>(*this));
    core_->open();
    drain();
    if (!open_) return;
    core_->hello(1, {meta->volume, meta->floor.epoch + 1'000'000, "checker", 1, block::HelloMode::active,
                     meta->token});
    drain();
  }
  ~Copy() {
    disk_->process_crash();
    core_.reset();
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  const std::optional<block::HelloAnswer>& answer() const { return answer_; }
  std::optional<std::vector<std::byte>> read() {
    if (!answer_) return std::nullopt;
    constexpr std::uint32_t kPiece = 1u << 20;
    bytes_.reserve(answer_->size);
    for (std::uint64_t at = 0; at < answer_->size; at += kPiece) {
      block::PeerRequest read;
      read.id = at + 1;
      read.op = block::PeerOp::read;
      read.offset = at;
      read.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(kPiece, answer_->size - at));
      core_->request(1, read);
      drain();
    }
    if (bytes_.size() != answer_->size) return std::nullopt;
    return std::move(bytes_);
  }

 private:
  void drain() {
    do {
      core_->run();
    } while (disk_->step());
    core_->run();
  }
  void opened(const Result<void>& outcome) override { open_ = outcome.ok(); }
  void accept(block::PeerId, const block::HelloAnswer& answer) override { answer_ = answer; }
  void refuse(block::PeerId, block::PeerRefusal, const std::string&) override {}
  void reply(block::PeerId, block::PeerReply reply, block::Slice data) override {
    if (reply.error == 0) bytes_.insert(bytes_.end(), data.data(), data.data() + data.size());
  }
  void close(block::PeerId, block::PeerRefusal, const std::string&) override {}
  void stopped(const Result<void>&) override {}

  std::unique_ptr<block::SimDisk> disk_;
  block::BufferPool pool_;
  std::unique_ptr<block::Replica> core_;
  bool open_ = false;
  std::optional<block::HelloAnswer> answer_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::optional<std::vector<std::byte>> Cluster::bytes_of(const ReplicaSight& replica) const {
  return Copy(*replica.disk).read();
}

std::optional<block::HelloAnswer> Cluster::answer_of(const ReplicaSight& replica) const {
  return Copy(*replica.disk).answer();
}

}  // namespace moor::sim
