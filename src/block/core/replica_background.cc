// What a replica does when nobody waits for it: the checksums of layers that became immutable, and the merge
// of a removed layer into its child. Both begin again after a crash and find out by themselves what is left
// to do.
#include <fmt/format.h>

#include <algorithm>

#include "block/core/crc32c.h"
#include "block/core/replica_store.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kRunBlocks = 256;  // 1 MiB read or moved at once
constexpr std::uint64_t kMapBatch = 128;   // map sectors read at once

struct BlockRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Runs of at most kRunBlocks consecutive blocks of one sector that `wanted(index)` names.
template <class Wanted>
std::vector<BlockRun> runs_of(std::uint64_t sector, Wanted wanted) {
  std::vector<BlockRun> runs;
  for (std::uint64_t index = 0; index < kMapBlocksPerSector; ++index) {
    if (!wanted(index)) continue;
    const std::uint64_t block = sector * kMapBlocksPerSector + index;
    if (!runs.empty() && runs.back().first + runs.back().count == block && runs.back().count < kRunBlocks) {
      ++runs.back().count;
    } else {
      runs.push_back({block, 1});
    }
  }
  return runs;
}

}  // namespace

Task<void> ReplicaStore::background() {
  background_running_ = true;
  while (!stopping_) {
    co_await bury_doomed();
    LayerFile unsummed = 0;
    for (const LayerRecord& record : meta().layers) {
      const bool goes = meta().purge && meta().purge->layer == record.file;
      if (!record.layer.summed && !goes && !unsummable_.contains(record.file)) unsummed = record.file;
    }
    if (unsummed != 0) {
      const Result<void> done = co_await sum_layer(unsummed);
      if (!done.ok()) unsummable_.insert(unsummed);
      continue;
    }
    if (meta().purge && purge_progress_.error.empty()) {
      const Result<void> done = co_await run_purge();
      if (!done.ok()) purge_progress_.error = done.error().message;
      continue;
    }
    if (stopping_) break;  // said while the dead were buried: nobody rings twice
    background_idle_ = true;
    co_await background_signal_.wait();
    background_idle_ = false;
  }
  background_running_ = false;
  background_ended_.notify_all();
}

Task<Result<void>> ReplicaStore::sum_layer(LayerFile file) {
  CO_TRY(OpenLayer * layer, co_await ensure_open(file));
  LayerUse use(*this, *layer);
  CO_TRY(const FileId map, co_await files_.open(map_name(file)));
  Result<FileId> sum = co_await files_.create(sum_name(file));
  Result<void> done;
  if (!sum.ok()) {
    done = sum.error();
  } else {
    done = co_await sum_sectors(layer, map, *sum);
    if (done.ok()) done = co_await files_.sync(*sum);
    if (done.ok()) done = co_await files_.sync_dir();
  }
  co_await files_.close(map);
  if (done.ok()) {
    done = co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
      if (LayerRecord* record = next.by_file(file)) record->layer.summed = true;
      return {};
    });
  }
  if (done.ok()) {
    layer->sum = *sum;
  } else if (sum.ok()) {
    co_await files_.close(*sum);
  }
  co_return done;
}

Task<Result<void>> ReplicaStore::sum_sectors(OpenLayer* layer, FileId map_file, FileId sum_file) {
  SumPage page;
  std::uint64_t page_number = UINT64_MAX;
  const Slice data = pool_.allocate(kRunBlocks * kBlockSize);
  std::vector<std::byte> raw(kMapBatch * kSectorSize);
  for (std::uint64_t at = 0; at < map_sectors(blocks()) && !stopping_; at += kMapBatch) {
    CO_TRY_VOID(co_await files_.read(map_file, at * kSectorSize, raw));
    for (std::uint64_t i = 0; i < kMapBatch; ++i) {
      const std::span<const std::byte, kSectorSize> bytes(raw.data() + i * kSectorSize, kSectorSize);
      CO_TRY(const MapSector sector, MapSector::decode({layer->file, at + i}, bytes));
      if (sector.is_empty()) continue;
      const auto runs =
          runs_of(at + i, [&](std::uint64_t index) { return sector.get(index) == BlockState::data; });
      for (const BlockRun& run : runs) {
        CO_TRY_VOID(co_await read_layer(layer, run.first, run.count, data.data()));
        for (std::uint64_t block = run.first; block < run.first + run.count; ++block) {
          if (block / kSumsPerPage != page_number) {
            if (page_number != UINT64_MAX) {
              CO_TRY_VOID(co_await sums_.store(layer->file, sum_file, page_number, page));
            }
            page_number = block / kSumsPerPage;
            page = SumPage{};
          }
          page.sums[block % kSumsPerPage] =
              crc32c(data.span().subspan((block - run.first) * kBlockSize, kBlockSize));
        }
      }
    }
  }
  if (stopping_) co_return make_error(Errc::cancelled, "stopping");
  if (page_number != UINT64_MAX) {
    CO_TRY_VOID(co_await sums_.store(layer->file, sum_file, page_number, page));
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::start_purge(SnapshotCommand command) {
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  if (files_.broken()) co_return files_.broken_error();
  const LayerRecord* layer = meta().by_snapshot(command.name);
  if (layer == nullptr) {
    const bool done =
        meta().head_id == command.layer_id ||
        std::ranges::any_of(meta().layers, [&](const auto& l) { return l.layer.id == command.layer_id; });
    if (done) co_return Result<void>{};
    co_return make_error(Errc::invalid, "there is no snapshot named " + command.name);
  }
  const LayerFile file = layer->file;
  if (!layer->layer.removed) co_return make_error(Errc::invalid, command.name + " is not marked removed");
  if (command.layer_id.empty()) co_return make_error(Errc::invalid, "the merged layer needs a new id");
  const std::vector<LayerFile> children = meta().children_of(file);
  if (children.size() > 1) {
    co_return make_error(Errc::invalid, fmt::format("{} has {} children: it can go when one is left",
                                                    command.name, children.size()));
  }
  if (meta().purge && (meta().purge->layer != file || meta().purge->new_id != command.layer_id)) {
    co_return make_error(Errc::invalid, "another purge is under way: one at a time");
  }
  purge_progress_ = {};
  purge_progress_.snapshot = command.name;
  purge_progress_.total = map_sectors(blocks());
  const bool leaf = children.empty();
  CO_TRY_VOID(co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
    if (command.generation != 0 && command.generation < next.generation) {
      return make_error(Errc::invalid, "generation is older than the stored one");
    }
    next.generation = std::max(next.generation, command.generation);
    if (leaf) {
      std::erase_if(next.layers, [&](const LayerRecord& record) { return record.file == file; });
    } else {
      next.purge = PurgeRecord{file, children.front(), command.layer_id};
    }
    return {};
  }));
  if (leaf) {
    if (!layers_.contains(file)) {  // off the head's path and never opened: only its names are left to remove
      layers_[file] = std::make_unique<OpenLayer>();
      layers_[file]->file = file;
    }
    doom(file);
  }
  background_signal_.notify_all();
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::run_purge() {
  const PurgeRecord purge = *meta().purge;
  const bool into_head = purge.child == head_.file;
  purge_progress_.snapshot = meta().by_file(purge.layer)->layer.snapshot;
  CO_TRY(OpenLayer * from, co_await ensure_open(purge.layer));
  OpenLayer* to = &head_;
  FileId to_map = 0;
  if (into_head) {
    // The head's map is about to differ from that of the last clean stop.
    CO_TRY_VOID(co_await meta_.commit([](ReplicaMeta& next) -> Result<void> {
      next.clean = false;
      next.head_map_crc = 0;
      return {};
    }));
  } else {
    CO_TRY(to, co_await ensure_open(purge.child));
    CO_TRY(to_map, co_await files_.open(map_name(purge.child)));
  }
  LayerUse use(*this, *from);
  Result<FileId> from_map = co_await files_.open(map_name(purge.layer));
  Result<void> done;
  if (from_map.ok()) {
    done = co_await purge_sectors(from, to, *from_map, to_map);
    co_await files_.close(*from_map);
  } else {
    done = from_map.error();
  }
  if (done.ok() && !stopping_) done = co_await finish_purge(from, to, to_map);
  co_await files_.close(to_map);
  co_return done;
}

Task<Result<void>> ReplicaStore::purge_sectors(OpenLayer* from, OpenLayer* to, FileId from_map,
                                               FileId to_map) {
  std::vector<std::byte> raw(kMapBatch * kSectorSize);
  for (std::uint64_t at = 0; at < map_sectors(blocks()); at += kMapBatch) {
    CO_TRY_VOID(co_await files_.read(from_map, at * kSectorSize, raw));
    for (std::uint64_t i = 0; i < kMapBatch; ++i) {
      const std::span<const std::byte, kSectorSize> bytes(raw.data() + i * kSectorSize, kSectorSize);
      CO_TRY(const MapSector sector, MapSector::decode({from->file, at + i}, bytes));
      purge_progress_.done = at + i;
      purge_progress_.total = map_sectors(blocks());
      if (sector.is_empty()) continue;
      // One sector at a time, so that chain operations and a stop get their turn in between.
      Gate::Hold inside(gate_, GateMode::shared);
      co_await inside;
      if (stopping_) co_return Result<void>{};
      if (files_.broken()) co_return files_.broken_error();
      if (to == &head_) {
        CO_TRY_VOID(co_await merge_into_head(from, at + i, sector));
      } else {
        CO_TRY_VOID(co_await merge_into_layer(from, to, to_map, at + i, sector));
      }
    }
  }
  co_return Result<void>{};
}

// The head is written by its client meanwhile. What the client wrote wins; moved blocks become durable as
// written ones do, by the next flush, and the layer they came from stays until then.
Task<Result<void>> ReplicaStore::merge_into_head(OpenLayer* from, std::uint64_t sector,
                                                 const MapSector& map) {
  const std::uint64_t base = sector * kMapBlocksPerSector;
  const auto data = runs_of(sector, [&](std::uint64_t index) {
    return map.get(index) == BlockState::data && lookup_[base + index] == from->slot;
  });
  for (const BlockRun& run : data) CO_TRY_VOID(co_await merge_run_into_head(from, run.first, run.count));
  RangeLock::Hold hold(ranges_, base, std::min(base + kMapBlocksPerSector, blocks()) - 1);
  co_await hold;
  map.for_each([&](std::uint64_t index, BlockState state) {
    if (state == BlockState::zero && lookup_[base + index] == LookupCode::zero_below) {
      set_head(base + index, 1, LookupCode::head_zero);
    }
  });
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::merge_run_into_head(OpenLayer* from, std::uint64_t first,
                                                     std::uint64_t count) {
  RangeLock::Hold hold(ranges_, first, first + count - 1);
  co_await hold;
  const Slice data = pool_.allocate(count * kBlockSize);
  CO_TRY_VOID(co_await read_layer(from, first, count, data.data()));
  for (std::uint64_t block = first; block < first + count;) {
    const std::uint64_t stop = lookup_.run_end(block, first + count);
    if (lookup_[block] == from->slot) {
      const auto part = data.span().subspan((block - first) * kBlockSize, (stop - block) * kBlockSize);
      CO_TRY_VOID(co_await write_head(block, part));
    }
    block = stop;
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::merge_into_layer(OpenLayer* from, OpenLayer* to, FileId to_map,
                                                  std::uint64_t sector, const MapSector& map) {
  std::array<std::byte, kSectorSize> raw;
  CO_TRY_VOID(co_await files_.read(to_map, sector * kSectorSize, raw));
  CO_TRY(MapSector child, MapSector::decode({to->file, sector}, raw));
  const MapSector before = child;
  const auto data = runs_of(sector, [&](std::uint64_t index) {
    return map.get(index) == BlockState::data && before.get(index) == BlockState::absent;
  });
  for (const BlockRun& run : data) CO_TRY_VOID(co_await move_run(from, to, run.first, run.count));
  bool changed = false;
  map.for_each([&](std::uint64_t index, BlockState state) {
    if (before.get(index) != BlockState::absent) return;
    child.set(index, state);
    changed = true;
  });
  if (!changed) co_return Result<void>{};
  // The map's bit last: until it is on disk the parent's copy counts.
  if (!data.empty()) {
    CO_TRY_VOID(co_await files_.sync(to->data));
    if (to->sum != 0) {
      CO_TRY_VOID(co_await files_.sync(to->sum));
    }
  }
  child.encode({to->file, sector}, raw);
  co_return co_await files_.write(to_map, sector * kSectorSize, raw);
}

Task<Result<void>> ReplicaStore::move_run(OpenLayer* from, OpenLayer* to, std::uint64_t first,
                                          std::uint64_t count) {
  LayerUse use(*this, *to);
  const Slice data = pool_.allocate(count * kBlockSize);
  CO_TRY_VOID(co_await read_layer(from, first, count, data.data()));
  CO_TRY_VOID(co_await files_.write(to->data, first * kBlockSize, data.span()));
  for (std::uint64_t block = first; to->sum != 0 && block < first + count;) {
    const std::uint64_t number = block / kSumsPerPage;
    CO_TRY(SumPage page, co_await sums_.load(to->file, to->sum, number));
    for (; block < first + count && block / kSumsPerPage == number; ++block) {
      page.sums[block % kSumsPerPage] = crc32c(data.span().subspan((block - first) * kBlockSize, kBlockSize));
    }
    CO_TRY_VOID(co_await sums_.store(to->file, to->sum, number, page));
  }
  // Only memory: readers may use the new place as soon as it holds the bytes.
  for (std::uint64_t block = first; block < first + count; ++block) {
    if (from->slot != 0 && lookup_[block] == from->slot) lookup_.set(block, to->slot);
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::finish_purge(OpenLayer* from, OpenLayer* to, FileId to_map) {
  MapTotals totals;
  if (to == &head_) {
    CO_TRY_VOID(co_await flush());
  } else {
    CO_TRY_VOID(co_await files_.sync(to_map));
    CO_TRY_VOID(co_await load_map(to->file, LookupCode::absent, LookupCode::absent, &totals));
  }
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  if (stopping_) co_return Result<void>{};
  MOOR_ASSERT(from->slot == 0 || lookup_.count(from->slot) == 0, "blocks of layer file {} were left behind",
              from->file);
  CO_TRY_VOID(co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
    const LayerFile parent = next.by_file(from->file)->parent;
    const std::string id = next.purge->new_id;
    if (to == &head_) {
      next.head_parent = parent;
      next.head_id = id;
    } else {
      LayerRecord& child = *next.by_file(to->file);
      child.parent = parent;
      child.layer.id = id;
      child.layer.used_bytes = totals.data_blocks * kBlockSize;
      child.map_crc = totals.crc;
    }
    std::erase_if(next.layers, [&](const LayerRecord& record) { return record.file == from->file; });
    next.purge.reset();
    return {};
  }));
  purge_progress_.done = purge_progress_.total;
  doom(from->file);
  co_return Result<void>{};
}

}  // namespace moor::block
