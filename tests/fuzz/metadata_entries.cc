#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "block/core/crc32c.h"
#include "block/core/replica_check.h"
#include "block/core/replica_testing.h"
#include "entries.h"

namespace moor::block::fuzz {

namespace {

constexpr std::uint64_t kSize = 1u << 20;

// A replica with everything in it that has a file: layers, sums, a dirty log, a purge that is not done.
std::unique_ptr<SimDisk> make_base() {
  auto disk = std::make_unique<SimDisk>(1);
  ReplicaCreate options;
  options.size = kSize;
  MOOR_ASSERT(SimReplica::create(*disk, options).ok());
  SimReplica world(*disk);
  MOOR_ASSERT(world.start().ok());
  const PeerId peer = world.connect(1);
  for (std::uint8_t i = 0; i < 3; ++i) {
    world.write(peer, i * 8192u, pattern(16384, i));
    world.snapshot(peer, PeerOp::snapshot_create, "s" + std::to_string(i));
    world.pump();
  }
  world.write(peer, 4096, pattern(512, 9));
  world.flush(peer);
  world.snapshot(peer, PeerOp::snapshot_mark_removed, "s1");
  MOOR_ASSERT(world.stop().ok());
  return disk;
}

Task<void> keep_report(DiskFiles& files, BufferPool& pool, CheckReport& report) {
  report = co_await check_replica(files, pool);
}

void check_offline(SimDisk& disk) {
  CheckReport report;
  Runner runner;
  BufferPool pool;
  DiskFiles files(disk, runner);
  runner.spawn(keep_report(files, pool, report));
  do {
    runner.run();
  } while (disk.step());
  runner.run();
}

// So that what lies behind the checksum is reached too. Only where the checksum needs no more than the file.
void seal(const std::string& name, std::vector<std::byte>& bytes) {
  if (name == kMetaName && bytes.size() >= 20) {
    const auto length = static_cast<std::uint32_t>(bytes.size() - 20);
    std::memcpy(bytes.data() + 12, &length, 4);
    const std::span<const std::byte> all(bytes);
    const std::uint32_t crc = crc32c(all.subspan(20), crc32c(all.first(16)));
    std::memcpy(bytes.data() + 16, &crc, 4);
  }
  for (std::uint64_t sector = 0; name == "dirty.log" && (sector + 1) * 512 <= bytes.size(); ++sector) {
    const std::span<std::byte> raw(bytes.data() + sector * 512, 512);
    const std::uint32_t crc = crc32c(raw.subspan(8), crc32c(std::as_bytes(std::span(&sector, 1))));
    std::memcpy(raw.data() + 4, &crc, 4);
  }
}

void use(SimReplica& world) {
  const PeerId peer = world.connect(1u << 20);
  if (!world.accepted.contains(peer)) return;
  const std::uint64_t size = std::min<std::uint64_t>(world.replica().store().meta().size, kSize);
  for (std::uint64_t at = 0; at + 65536 <= size; at += 65536) world.read(peer, at, 65536);
  if (size >= 8192) world.write(peer, 4096 + 512, pattern(512, 3));
  world.flush(peer);
  world.snapshot(peer, PeerOp::snapshot_purge, "s1");
  world.snapshot(peer, PeerOp::snapshot_revert, "s0");
  world.pump();
}

}  // namespace

// First byte: which file, whether it is replaced or changed in places, whether its checksum is made to fit.
void metadata(Input input) {
  static const std::unique_ptr<SimDisk> base = make_base();
  static const std::vector<std::string> names = base->list();
  if (input.size() < 2) return;
  const std::string& name = names[(input[0] & 0x3f) % names.size()];
  const auto disk = base->clone(input[0]);
  std::vector<std::byte> bytes = disk->get(name);
  const std::vector<std::byte> good = bytes;
  const Input rest = input.subspan(1);
  if ((input[0] & 0x40) != 0) {
    bytes.assign(std::as_bytes(rest).begin(), std::as_bytes(rest).end());
  } else {
    for (std::size_t i = 0; i + 2 < rest.size() && !bytes.empty(); i += 3) {
      bytes[(rest[i] | rest[i + 1] << 8) % bytes.size()] = static_cast<std::byte>(rest[i + 2]);
    }
  }
  const bool sealed = (input[0] & 0x80) != 0;
  if (sealed) seal(name, bytes);
  disk->put(name, bytes);
  check_offline(*disk->clone(2));
  SimReplica world(*disk);
  const bool opened = world.start().ok();
  MOOR_ASSERT(!opened || sealed || name != kMetaName || bytes == good, "damaged metadata is taken for good");
  if (opened) use(world);
}

}  // namespace moor::block::fuzz
