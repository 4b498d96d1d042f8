// Making members equal: read a chunk from the source and from every other member, compare by block, and write
// only what differs. A region is dirty because of a few writes; copying it whole would turn data that lives
// in older layers into data of the head. Runs only where no client can write: at the start, or under the
// range of a write that failed on every RW member and may have left them different.
#include <algorithm>
#include <bit>
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

void Machine::begin_resync(MemberIndex source, MemberMask targets, std::vector<Extent> extents) {
  resync_ = Resync{};
  resync_.active = true;
  resync_.source = source;
  resync_.targets = targets;
  resync_.extents = std::move(extents);
  for (const Extent& extent : resync_.extents) resync_.total_bytes += extent.length;
  resync_.chunks.resize(kChunksInFlight);
  if (targets == 0) resync_.next_extent = resync_.extents.size();  // a single member agrees with itself
}

bool Machine::resync_done() const {
  const bool idle =
      std::none_of(resync_.chunks.begin(), resync_.chunks.end(), [](const auto& c) { return c.busy; });
  return idle && (resync_.broken || resync_.next_extent >= resync_.extents.size());
}

void Machine::pump_resync() {
  if (!resync_.active || resync_.broken) return;
  for (std::uint32_t slot = 0; slot < resync_.chunks.size(); ++slot) {
    ResyncChunk& chunk = resync_.chunks[slot];
    if (chunk.busy || resync_.next_extent >= resync_.extents.size()) continue;
    const Extent& extent = resync_.extents[resync_.next_extent];
    const std::uint64_t begin = extent.offset + resync_.next_offset;
    const std::uint64_t end = std::min(begin + kChunkBytes, extent.end());
    resync_.next_offset += end - begin;
    if (end == extent.end()) {
      ++resync_.next_extent;
      resync_.next_offset = 0;
    }
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
    request.copy = true;
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

// A write that no RW member took may still have reached some of them in part. Before the client hears of the
// error they are made equal again; otherwise a read could show the new bytes today and the old ones when that
// member is gone.
void Machine::repair_step() {
  if (stage_ != Stage::serving || repairs_.empty()) return;
  Operation& operation = *repairs_.front();
  if (!resync_.active) {
    const auto source = static_cast<MemberIndex>(std::countr_zero(readers()));
    begin_resync(source, writers() & ~bit(source), {{operation.client.offset, operation.client.length}});
  }
  pump_resync();
  if (!resync_done()) return;
  resync_.active = false;
  if (resync_.broken) return repair_step();  // with one member less, so this ends
  repairs_.pop_front();
  operation.parked = true;
  parked_.push_back(&operation);
}

}  // namespace moor::block::engine
