// Making regions equal: read a chunk from the source and from every other member, compare by block, and write
// only what differs. A region is dirty because of a few writes; copying it whole would turn data that lives
// in older layers into data of the head. Runs only while no client can write (at the start, or frozen for a
// snapshot).
#include <fmt/format.h>
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "block/core/engine_machine.h"

namespace moor::block::engine {

namespace {
constexpr std::uint64_t kChunkBytes = 256u << 10;
constexpr std::size_t kChunksInFlight = 4;

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}
}  // namespace

void Machine::begin_resync(MemberIndex source, MemberMask targets, std::vector<std::uint64_t> regions) {
  resync_ = Resync{};
  resync_.active = true;
  resync_.source = source;
  resync_.targets = targets;
  resync_.regions = std::move(regions);
  resync_.chunks.resize(kChunksInFlight);
  if (targets == 0) resync_.region = resync_.regions.size();  // a single member agrees with itself
}

bool Machine::resync_done() const {
  const bool idle =
      std::none_of(resync_.chunks.begin(), resync_.chunks.end(), [](const auto& c) { return c.busy; });
  return idle && (resync_.broken || resync_.region >= resync_.regions.size());
}

void Machine::pump_resync() {
  if (!resync_.active || resync_.broken) return;
  for (std::uint32_t slot = 0; slot < resync_.chunks.size(); ++slot) {
    ResyncChunk& chunk = resync_.chunks[slot];
    if (chunk.busy || resync_.region >= resync_.regions.size()) continue;
    const std::uint64_t begin = resync_.regions[resync_.region] * kRegionSize + resync_.offset_in_region;
    const std::uint64_t region_end = (resync_.regions[resync_.region] + 1) * kRegionSize;
    const std::uint64_t end = std::min({begin + kChunkBytes, region_end, size_});
    resync_.offset_in_region += kChunkBytes;
    if (begin + kChunkBytes >= std::min(region_end, size_)) {
      ++resync_.region;
      resync_.offset_in_region = 0;
    }
    if (begin >= end) continue;  // a region beyond the end of the volume
    chunk = ResyncChunk{};
    chunk.busy = true;
    chunk.extent = {begin, end - begin};
    chunk.bytes.resize(members_.size());
    PeerRequest request;
    request.op = PeerOp::read;
    request.offset = begin;
    request.length = static_cast<std::uint32_t>(end - begin);
    broadcast(OpKind::resync_read, resync_.targets | bit(resync_.source), request).chunk = slot;
  }
}

void Machine::resync_failed(const Operation& operation) {
  resync_.broken = true;
  const std::string why = "resync: " + operation.message;
  each(operation.failed, [&](MemberIndex index) {
    if (stage_ == Stage::serving) {
      lose(index, why);
    } else {
      lose_in_start(index, why, true);
    }
  });
}

void Machine::complete_resync_read(Operation& operation) {
  const std::uint32_t slot = operation.chunk;
  ResyncChunk& chunk = resync_.chunks[slot];
  if (operation.failed != 0) resync_failed(operation);
  operations_.release(operation);
  if (stage_ == Stage::ended) return;
  if (!resync_.broken) {
    each(resync_.targets, [&](MemberIndex target) { write_differences(slot, target); });
    stats_.resync_compared_bytes += chunk.extent.length;
    resync_.done_bytes += chunk.extent.length;
  }
  if (chunk.writes == 0) chunk = ResyncChunk{};
}

void Machine::write_differences(std::uint32_t slot, MemberIndex target) {
  ResyncChunk& chunk = resync_.chunks[slot];
  const Slice& good = chunk.bytes[resync_.source];
  const Slice& other = chunk.bytes[target];
  MOOR_ASSERT(good.size() == chunk.extent.length && other.size() == chunk.extent.length);
  const auto differs = [&](std::uint64_t at) {
    const std::uint64_t length = std::min<std::uint64_t>(kBlockSize, chunk.extent.length - at);
    return std::memcmp(good.data() + at, other.data() + at, length) != 0;
  };
  for (std::uint64_t at = 0; at < chunk.extent.length; at += kBlockSize) {
    if (!differs(at)) continue;
    std::uint64_t end = at;
    while (end < chunk.extent.length && differs(end)) end += kBlockSize;
    end = std::min(end, chunk.extent.length);
    Slice bytes = good.part(at, end - at);
    PeerRequest request;
    request.op = all_zero(bytes.span()) ? PeerOp::write_zeroes : PeerOp::write;
    request.offset = chunk.extent.offset + at;
    request.length = static_cast<std::uint32_t>(end - at);
    Operation& operation = operations_.open(OpKind::resync_write, now_);
    operation.chunk = slot;
    operation.outstanding = bit(target);
    operation.dispatched = true;
    operation.sent = now_;
    request.id = operation.id;
    const bool zeroes = request.op == PeerOp::write_zeroes;
    stats_.resync_written_bytes += request.length;
    send(target, std::move(request), zeroes ? Slice{} : std::move(bytes));
    ++chunk.writes;
    at = end - kBlockSize < at ? at : end - kBlockSize;
  }
}

void Machine::complete_resync_write(Operation& operation) {
  ResyncChunk& chunk = resync_.chunks[operation.chunk];
  if (operation.failed != 0) resync_failed(operation);
  operations_.release(operation);
  if (stage_ == Stage::ended) return;
  MOOR_ASSERT(chunk.writes > 0);
  if (--chunk.writes == 0) chunk = ResyncChunk{};
}

}  // namespace moor::block::engine
