#include "block/core/replica_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/plant.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kChunkBlocks = 256;  // 1 MiB: how much zeros are written at once

}  // namespace

ReplicaStore::ReplicaStore(Disk& disk, Runner& runner, BufferPool& pool)
    : runner_(runner),
      pool_(pool),
      files_(disk, runner),
      meta_(files_),
      dirty_(files_),
      sums_(files_),
      gate_(runner),
      ranges_(runner),
      flushing_(runner),
      background_signal_(runner),
      background_ended_(runner) {}

ReplicaStore::OpenLayer* ReplicaStore::layer_of(std::uint8_t code) {
  if (code == LookupCode::head_data) return &head_;
  OpenLayer* layer = slots_[code];
  MOOR_ASSERT(layer != nullptr, "lookup code {} names no layer", code);
  return layer;
}

Result<void> ReplicaStore::check_extent(Extent extent) const {
  if (files_.broken()) return files_.broken_error();
  if (extent.length == 0) return make_error(Errc::invalid, "empty request");
  if (extent.offset > meta().size || extent.length > meta().size - extent.offset) {
    return make_error(Errc::invalid, "request beyond the end of the volume");
  }
  return {};
}

Task<Result<Slice>> ReplicaStore::read(Extent extent) {
  Gate::Hold inside(gate_, GateMode::shared);
  co_await inside;
  CO_TRY_VOID(check_extent(extent));
  const std::uint64_t first = extent.offset / kBlockSize;
  const std::uint64_t count = (extent.end() - 1) / kBlockSize - first + 1;
  const Slice whole = pool_.allocate(count * kBlockSize);
  CO_TRY_VOID(co_await read_blocks(first, count, whole.data()));
  if (files_.broken()) co_return files_.broken_error();
  co_return whole.part(extent.offset - first * kBlockSize, extent.length);
}

Task<Result<void>> ReplicaStore::read_blocks(std::uint64_t first, std::uint64_t count, std::byte* into) {
  const std::uint64_t end = first + count;
  // Nearly all reads lie in one layer: those need no lists.
  if (LookupCode::is_data(lookup_[first]) && lookup_.run_end(first, end) == end) {
    return read_layer(layer_of(lookup_[first]), first, count, into);
  }
  return read_runs(first, count, into);
}

Task<Result<void>> ReplicaStore::read_runs(std::uint64_t first, std::uint64_t count, std::byte* into) {
  std::vector<Run> runs;
  const std::uint64_t end = first + count;
  for (std::uint64_t block = first; block < end;) {
    const std::uint64_t stop = lookup_.run_end(block, end);
    const std::uint8_t code = lookup_[block];
    if (LookupCode::is_data(code)) {
      runs.push_back({layer_of(code), block, stop - block});
    } else {
      std::memset(into + (block - first) * kBlockSize, 0, (stop - block) * kBlockSize);
    }
    block = stop;
  }
  if (runs.empty()) co_return Result<void>{};
  std::vector<DiskCommand> commands(runs.size());
  std::vector<std::unique_ptr<LayerUse>> uses;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].layer != &head_) uses.push_back(std::make_unique<LayerUse>(*this, *runs[i].layer));
    commands[i].op = DiskOp::pread;
    commands[i].file = runs[i].layer->data;
    commands[i].offset = runs[i].first * kBlockSize;
    commands[i].length = runs[i].count * kBlockSize;
    commands[i].data = into + (runs[i].first - first) * kBlockSize;
  }
  co_await DiskBatch(files_.disk(), runner_, commands);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const DiskCommand& command = commands[i];
    if (command.result < 0) co_return disk_error(command.result, "read " + data_name(runs[i].layer->file));
    if (static_cast<std::uint64_t>(command.result) != command.length) {
      co_return make_error(Errc::corrupt, fmt::format("{} ends before the data that its map claims",
                                                      data_name(runs[i].layer->file)));
    }
    if (runs[i].layer->sum == 0) continue;
    const std::span<const std::byte> data(command.data, command.length);
    CO_TRY_VOID(co_await sums_.verify(runs[i].layer->file, runs[i].layer->sum, runs[i].first, data));
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::read_layer(OpenLayer* layer, std::uint64_t first, std::uint64_t count,
                                            std::byte* into) {
  LayerUse use(*this, *layer);
  DiskCommand command;
  command.op = DiskOp::pread;
  command.file = layer->data;
  command.offset = first * kBlockSize;
  command.length = count * kBlockSize;
  command.data = into;
  co_await DiskBatch(files_.disk(), runner_, {&command, 1});
  if (command.result < 0) co_return disk_error(command.result, "read " + data_name(layer->file));
  if (static_cast<std::uint64_t>(command.result) != command.length) {
    co_return make_error(Errc::corrupt,
                         fmt::format("{} ends before the data that its map claims", data_name(layer->file)));
  }
  const std::span<const std::byte> data(into, count * kBlockSize);
  if (layer->sum != 0) {
    CO_TRY_VOID(co_await sums_.verify(layer->file, layer->sum, first, data));
  }
  co_return Result<void>{};
}

bool ReplicaStore::is_prepared(RegionRange regions, Epoch epoch) const {
  return !meta().clean && meta().wrote >= epoch && dirty_.is_marked(regions);
}

Task<Result<void>> ReplicaStore::prepare(RegionRange regions, Epoch epoch) {
  if (meta().clean || meta().wrote < epoch) {
    CO_TRY_VOID(co_await meta_.commit([epoch](ReplicaMeta& meta) -> Result<void> {
      meta.clean = false;
      meta.head_map_crc = 0;
      meta.wrote = std::max(meta.wrote, epoch);
      return {};
    }));
  }
  if (MOOR_PLANT("replica-dirty-mark-omitted") || dirty_.is_marked(regions)) co_return Result<void>{};
  co_return co_await dirty_.mark(regions);
}

Task<Result<void>> ReplicaStore::write(Extent extent, Slice payload, MutateOptions options) {
  {
    Gate::Hold inside(gate_, GateMode::shared);
    co_await inside;
    CO_TRY_VOID(check_extent(extent));
    if (payload.size() != extent.length) co_return make_error(Errc::invalid, "payload and length differ");
    const std::uint64_t first = extent.offset / kBlockSize;
    const std::uint64_t last = (extent.end() - 1) / kBlockSize;
    RangeLock::Hold hold(ranges_, first, last);
    co_await hold;
    const RegionRange regions{extent.offset / kRegionSize, (extent.end() - 1) / kRegionSize};
    if (!is_prepared(regions, options.epoch)) {
      CO_TRY_VOID(co_await prepare(regions, options.epoch));
    }
    const bool aligned = reinterpret_cast<std::uintptr_t>(payload.data()) % kBlockSize == 0;
    if (extent.offset % kBlockSize == 0 && extent.length % kBlockSize == 0 && aligned) {
      CO_TRY_VOID(co_await write_head(first, payload.span()));
    } else {
      CO_TRY_VOID(co_await write_merged(extent, payload.span()));
    }
    if (files_.broken()) co_return files_.broken_error();
  }
  if (options.fua) co_return co_await flush();
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::write_head(std::uint64_t first, std::span<const std::byte> whole_blocks) {
  DiskCommand command;
  command.op = DiskOp::pwrite;
  command.file = head_.data;
  command.offset = first * kBlockSize;
  command.length = whole_blocks.size();
  command.data = const_cast<std::byte*>(whole_blocks.data());
  co_await DiskBatch(files_.disk(), runner_, {&command, 1});
  // Set after the write, not before: a flush that began meanwhile has not covered it. Set even if it failed,
  // for it may have left something behind.
  data_unsynced_ = true;
  if (command.result < 0) co_return disk_error(command.result, "write " + data_name(head_.file));
  set_head(first, whole_blocks.size() / kBlockSize, LookupCode::head_data);
  co_return Result<void>{};
}

// The caller holds the blocks, so nobody changes the bytes around ours between the read and the write.
Task<Result<void>> ReplicaStore::write_merged(Extent extent, std::span<const std::byte> payload) {
  const std::uint64_t first = extent.offset / kBlockSize;
  const std::uint64_t last = (extent.end() - 1) / kBlockSize;
  const std::uint64_t skip = extent.offset - first * kBlockSize;
  const Slice whole = pool_.allocate((last - first + 1) * kBlockSize);
  if (skip != 0 || extent.length < kBlockSize) {
    CO_TRY_VOID(co_await read_blocks(first, 1, whole.data()));
  }
  if (extent.end() % kBlockSize != 0 && last != first) {
    CO_TRY_VOID(co_await read_blocks(last, 1, whole.data() + (last - first) * kBlockSize));
  }
  if (payload.empty()) {
    std::memset(whole.data() + skip, 0, extent.length);
  } else {
    std::memcpy(whole.data() + skip, payload.data(), extent.length);
  }
  co_return co_await write_head(first, whole.span());
}

void ReplicaStore::set_head(std::uint64_t first, std::uint64_t count, std::uint8_t code) {
  for (std::uint64_t block = first; block < first + count; ++block) {
    if (lookup_[block] == code) continue;
    lookup_.set(block, code);
    map_dirty_[block / kMapBlocksPerSector] = true;
    any_map_dirty_ = true;
  }
  note_mutation(first, count);
}

void ReplicaStore::note_mutation(std::uint64_t first, std::uint64_t count) {
  ++mutations_;
  const std::uint64_t last_region = (first + count - 1) * kBlockSize / kRegionSize;
  for (std::uint64_t region = first * kBlockSize / kRegionSize; region <= last_region; ++region) {
    region_mutation_[region] = mutations_;
  }
}

Task<Result<void>> ReplicaStore::zero(Extent extent, MutateOptions options) {
  {
    Gate::Hold inside(gate_, GateMode::shared);
    co_await inside;
    CO_TRY_VOID(check_extent(extent));
    const std::uint64_t first = extent.offset / kBlockSize;
    const std::uint64_t last = (extent.end() - 1) / kBlockSize;
    RangeLock::Hold hold(ranges_, first, last);
    co_await hold;
    const RegionRange regions{extent.offset / kRegionSize, (extent.end() - 1) / kRegionSize};
    if (!is_prepared(regions, options.epoch)) {
      CO_TRY_VOID(co_await prepare(regions, options.epoch));
    }
    // Whole blocks by the map; the edges by writing zeros into them, unless they read as zeros already.
    const std::uint64_t whole_first = (extent.offset + kBlockSize - 1) / kBlockSize;
    const std::uint64_t whole_end = extent.end() / kBlockSize;
    const Extent head_edge{extent.offset, std::min(whole_first * kBlockSize, extent.end()) - extent.offset};
    const std::uint64_t tail_at = std::max(whole_end * kBlockSize, head_edge.end());
    const Extent tail_edge{tail_at, extent.end() - tail_at};
    const std::array<Extent, 2> edges{head_edge, tail_edge};
    for (const Extent& edge : edges) {
      if (edge.length == 0) continue;
      if (options.no_hole || LookupCode::is_data(lookup_[edge.offset / kBlockSize])) {
        CO_TRY_VOID(co_await write_merged(edge, {}));
      }
    }
    if (whole_end > whole_first) {
      if (options.no_hole) {
        CO_TRY_VOID(co_await write_zero_blocks(whole_first, whole_end - whole_first));
      } else {
        CO_TRY_VOID(co_await zero_blocks(whole_first, whole_end - whole_first));
      }
    }
    if (files_.broken()) co_return files_.broken_error();
  }
  if (options.fua) co_return co_await flush();
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::write_zero_blocks(std::uint64_t first, std::uint64_t count) {
  const Slice zeros = pool_.allocate(std::min(count, kChunkBlocks) * kBlockSize);
  std::memset(zeros.data(), 0, zeros.size());
  while (count > 0) {
    const std::uint64_t now = std::min(count, kChunkBlocks);
    CO_TRY_VOID(co_await write_head(first, zeros.span().first(now * kBlockSize)));
    first += now;
    count -= now;
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::zero_blocks(std::uint64_t first, std::uint64_t count) {
  bool had_data = false;
  for (std::uint64_t block = first; block < first + count; ++block) {
    const std::uint8_t code = lookup_[block];
    if (!LookupCode::is_data(code)) continue;
    had_data |= code == LookupCode::head_data;
    lookup_.set(block, LookupCode::head_zero);
    map_dirty_[block / kMapBlocksPerSector] = true;
    any_map_dirty_ = true;
  }
  note_mutation(first, count);
  if (!had_data) co_return Result<void>{};
  DiskCommand punch;
  punch.op = DiskOp::punch;
  punch.file = head_.data;
  punch.offset = first * kBlockSize;
  punch.length = count * kBlockSize;
  co_await DiskBatch(files_.disk(), runner_, {&punch, 1});
  data_unsynced_ = true;
  // Punching only gives space back; the map already says zero, so its failure changes nothing that is read.
  co_return Result<void>{};
}

std::vector<BlockStatus> ReplicaStore::status(Extent extent, std::size_t limit) const {
  std::vector<BlockStatus> result;
  if (!check_extent(extent).ok()) return result;
  std::uint64_t at = extent.offset;
  while (at < extent.end()) {
    const std::uint64_t block = at / kBlockSize;
    const std::uint64_t end_block = (extent.end() - 1) / kBlockSize + 1;
    const std::uint64_t stop = std::min(lookup_.run_end(block, end_block) * kBlockSize, extent.end());
    const bool data = LookupCode::is_data(lookup_[block]);
    if (!result.empty() && result.back().zero == !data) {
      result.back().length += stop - at;
    } else {
      if (result.size() == limit) break;
      result.push_back({stop - at, !data, !data});
    }
    at = stop;
  }
  return result;
}

Task<Result<void>> ReplicaStore::flush() {
  Gate::Hold inside(gate_, GateMode::shared);
  co_await inside;
  if (files_.broken()) co_return files_.broken_error();
  const std::uint64_t wanted = mutations_;
  if (flushed_ >= wanted || MOOR_PLANT("replica-flush-lies")) co_return Result<void>{};
  AsyncMutex::Hold hold(flushing_);
  co_await hold;
  // Whoever flushed while we waited may have covered us.
  if (files_.broken()) co_return files_.broken_error();
  if (flushed_ >= wanted) co_return Result<void>{};
  co_return co_await flush_now();
}

Task<Result<void>> ReplicaStore::flush_now() {
  const std::uint64_t covered = mutations_;
  // The map's pages are taken before the data is synced: blocks that are written meanwhile must not be
  // claimed.
  std::vector<DiskCommand> commands;
  std::vector<std::uint64_t> sectors;
  if (any_map_dirty_) {
    for (std::uint64_t sector = 0; sector < map_dirty_.size(); ++sector) {
      if (map_dirty_[sector]) sectors.push_back(sector);
    }
    map_dirty_.assign(map_dirty_.size(), false);
    any_map_dirty_ = false;
  }
  std::vector<std::byte> bytes(sectors.size() * kSectorSize);
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const std::span<std::byte, kSectorSize> out(bytes.data() + i * kSectorSize, kSectorSize);
    lookup_.head_sector(sectors[i]).encode({head_.file, sectors[i]}, out);
    if (i > 0 && sectors[i] == sectors[i - 1] + 1) {
      commands.back().length += kSectorSize;
      continue;
    }
    DiskCommand& command = commands.emplace_back();
    command.op = DiskOp::pwrite;
    command.file = head_map_;
    command.offset = sectors[i] * kSectorSize;
    command.length = kSectorSize;
    command.data = out.data();
  }
  const bool sync_data = std::exchange(data_unsynced_, false);
  Result<void> done;
  if (sync_data && !MOOR_PLANT("replica-map-before-data")) done = co_await files_.sync(head_.data);
  if (done.ok() && !commands.empty()) {
    co_await DiskBatch(files_.disk(), runner_, commands);
    for (const DiskCommand& command : commands) {
      if (command.result < 0 && done.ok()) done = disk_error(command.result, "write " + map_name(head_.file));
    }
    if (done.ok()) done = co_await files_.sync(head_map_);
  }
  if (done.ok()) {
    flushed_ = std::max(flushed_, covered);
    co_return done;
  }
  // Not durable after all: the next flush writes them again, as they are then.
  for (const std::uint64_t sector : sectors) map_dirty_[sector] = true;
  any_map_dirty_ |= !sectors.empty();
  data_unsynced_ |= sync_data;
  co_return done;
}

ReplicaStore::MapTotals ReplicaStore::head_totals() const {
  MapTotals totals;
  std::array<std::byte, kSectorSize> raw;
  for (std::uint64_t sector = 0; sector < map_sectors(blocks()); ++sector) {
    const MapSector map = lookup_.head_sector(sector);
    if (map.is_empty()) continue;
    map.encode({head_.file, sector}, raw);
    totals.crc = extend_map_crc(totals.crc, raw);
  }
  totals.data_blocks = lookup_.count(LookupCode::head_data);
  return totals;
}

Task<Result<void>> ReplicaStore::clear_dirty(std::vector<std::uint64_t> regions) {
  // The engine vouches for the other members; whether this one still has unsynced writes there, it knows best
  // itself.
  co_return co_await dirty_.clear(std::move(regions), [this](std::uint64_t region) {
    if (MOOR_PLANT("engine-clears-without-flush")) return false;
    if (region >= region_mutation_.size() || region_mutation_[region] > flushed_) return true;
    const std::uint64_t first = region * kRegionSize / kBlockSize;
    const std::uint64_t last = first + kRegionSize / kBlockSize - 1;
    return ranges_.any([&](const auto& range) { return range.first <= last && first <= range.last; });
  });
}

Task<void> ReplicaStore::background_end() {
  while (background_running_) co_await background_ended_.wait();
}

Task<Result<void>> ReplicaStore::stop() {
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  stopping_ = true;
  background_signal_.notify_all();
  if (files_.broken()) co_return files_.broken_error();
  CO_TRY_VOID(co_await flush_now());
  const std::uint32_t crc = head_totals().crc;
  co_return co_await meta_.commit([crc](ReplicaMeta& meta) -> Result<void> {
    meta.clean = true;
    meta.head_map_crc = crc;
    return {};
  });
}

}  // namespace moor::block
