// The blocks of one replica: a directory with volume.meta, the dirty-region log and per layer a sparse data
// file, a map and, once it is immutable, checksums (store/README.md has the format). Knows nothing of
// connections or epochs beyond recording them; core/replica.h decides who may call. One Runner's tasks only,
// no threads.
//
// What it promises:
// - A task that returns success for write or zero has made the change visible; flush (or fua) makes all
// changes
//   completed before it durable. Data reaches the disk before the map that claims it, so after a power cut a
//   block shows what was flushed or something newer, and a parent's data never turns into zeros.
// - Mutating calls that overlap take effect in the order of the calls, so members fed alike stay alike.
// - Chain operations are atomic: after a crash they have happened with all they record, or not at all.
// - exhausted (no space) leaves everything as it was before the call, apart from the bytes the call was to
// write.
// - corrupt: stored bytes do not match their checksum; they are never returned as data.
// - After a failed sync everything answers unavailable until the process is started anew.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/buffer.h"
#include "block/core/disk_files.h"
#include "block/core/layer_sum.h"
#include "block/core/peer.h"
#include "block/core/replica_dirty.h"
#include "block/core/replica_lookup.h"
#include "block/core/replica_meta.h"
#include "block/core/task_sync.h"

namespace moor::block {

struct ReplicaCreate {
  std::uint64_t size = 0;  // whole blocks
  std::string volume;      // empty: serves any
  std::string token;       // empty: obeys any engine
};

struct MutateOptions {
  bool fua = false;
  bool no_hole = false;  // zero: keep the space allocated
  Epoch epoch = 0;       // recorded as having written before the write; 0: a copy, nothing to record
};

struct PurgeProgress {
  std::string snapshot;
  std::uint64_t done = 0;  // map sectors
  std::uint64_t total = 0;
  std::string error;  // why it stopped; it is tried again at the next command or open
};

class ReplicaStore {
 public:
  ReplicaStore(Disk& disk, Runner& runner, BufferPool& pool);

  static Task<Result<void>> create(DiskFiles& files, ReplicaCreate options);
  Task<Result<void>> open();

  Task<Result<Slice>> read(Extent extent);
  Task<Result<void>> write(Extent extent, Slice payload, MutateOptions options);
  // Both TRIM and WRITE_ZEROES: the range reads as zeros afterwards, its edges too.
  Task<Result<void>> zero(Extent extent, MutateOptions options);
  Task<Result<void>> flush();
  std::vector<BlockStatus> status(Extent extent, std::size_t limit) const;

  Task<Result<void>> record(std::function<Result<void>(ReplicaMeta&)> change) {
    return meta_.commit(std::move(change));
  }
  Task<Result<void>> clear_dirty(std::vector<std::uint64_t> regions);

  Task<Result<void>> create_snapshot(SnapshotCommand command);
  Task<Result<void>> mark_removed(SnapshotCommand command);
  // Returns when the intent is durable; the merge goes on in the background and over restarts until it is
  // done.
  Task<Result<void>> start_purge(SnapshotCommand command);
  Task<Result<void>> revert(SnapshotCommand command);
  Task<Result<void>> expand(std::uint64_t size);

  // Drains, flushes and records a clean stop.
  Task<Result<void>> stop();
  // After stop(): until nothing is under way any more.
  Task<void> background_end();

  const ReplicaMeta& meta() const { return meta_.get(); }
  std::vector<std::uint64_t> dirty_regions() const { return dirty_.regions(); }
  DiskFiles& files() { return files_; }
  const DiskFiles& files() const { return files_; }
  bool background_idle() const { return background_idle_; }
  const PurgeProgress& purge_progress() const { return purge_progress_; }

 private:
  struct OpenLayer {
    LayerFile file = 0;
    FileId data = 0;
    FileId sum = 0;         // only when its checksums are complete
    std::uint8_t slot = 0;  // 0: not below the head
    std::uint32_t uses = 0;
    bool doomed = false;  // goes when its last use ends
  };
  // A layer's files stay open and on disk while someone reads them.
  class LayerUse {
   public:
    LayerUse(ReplicaStore& store, OpenLayer& layer) : store_(store), layer_(layer) { ++layer_.uses; }
    LayerUse(const LayerUse&) = delete;
    LayerUse& operator=(const LayerUse&) = delete;
    ~LayerUse() {
      if (--layer_.uses > 0 || !layer_.doomed) return;
      store_.graves_.push_back(layer_.file);
      store_.background_signal_.notify_all();
    }

   private:
    ReplicaStore& store_;
    OpenLayer& layer_;
  };
  struct Run {
    OpenLayer* layer;
    std::uint64_t first;
    std::uint64_t count;
  };
  struct MapTotals {
    std::uint32_t crc = 0;
    std::uint64_t data_blocks = 0;
  };

  std::uint64_t blocks() const { return meta().size / kBlockSize; }
  OpenLayer* layer_of(std::uint8_t code);
  Result<void> check_extent(Extent extent) const;
  bool is_prepared(RegionRange regions, Epoch epoch) const;
  Task<Result<void>> prepare(RegionRange regions, Epoch epoch);
  Task<Result<void>> read_blocks(std::uint64_t first, std::uint64_t count, std::byte* into);
  Task<Result<void>> read_runs(std::uint64_t first, std::uint64_t count, std::byte* into);
  Task<Result<void>> read_layer(OpenLayer* layer, std::uint64_t first, std::uint64_t count, std::byte* into);
  Task<Result<void>> write_head(std::uint64_t first, std::span<const std::byte> whole_blocks);
  Task<Result<void>> write_merged(Extent extent, std::span<const std::byte> payload);
  Task<Result<void>> write_zero_blocks(std::uint64_t first, std::uint64_t count);
  Task<Result<void>> zero_blocks(std::uint64_t first, std::uint64_t count);
  void set_head(std::uint64_t first, std::uint64_t count, std::uint8_t code);
  void note_mutation(std::uint64_t first, std::uint64_t count);

  Task<Result<void>> flush_now();
  MapTotals head_totals() const;

  // Opening and the chain.
  Task<Result<void>> load_path();
  Task<Result<void>> load_map(LayerFile file, std::uint8_t data_code, std::uint8_t zero_code,
                              MapTotals* totals);
  Task<Result<OpenLayer*>> ensure_open(LayerFile file);
  Task<Result<void>> create_files(LayerFile file, std::uint64_t size);
  Task<Result<void>> open_head();
  Task<Result<void>> remove_orphans();
  std::uint8_t free_slot() const;
  void doom(LayerFile file);
  // Closes and unlinks doomed layers that nobody uses any more.
  Task<void> bury_doomed();

  // Background work, one job at a time: first checksums, then the purge.
  Task<void> background();
  Task<Result<void>> sum_layer(LayerFile file);
  Task<Result<void>> sum_sectors(OpenLayer* layer, FileId map_file, FileId sum_file);
  Task<Result<void>> run_purge();
  Task<Result<void>> purge_sectors(OpenLayer* from, OpenLayer* to, FileId from_map, FileId to_map);
  Task<Result<void>> merge_into_head(OpenLayer* from, std::uint64_t sector, const MapSector& map);
  Task<Result<void>> merge_run_into_head(OpenLayer* from, std::uint64_t first, std::uint64_t count);
  Task<Result<void>> merge_into_layer(OpenLayer* from, OpenLayer* to, FileId to_map, std::uint64_t sector,
                                      const MapSector& map);
  Task<Result<void>> move_run(OpenLayer* from, OpenLayer* to, std::uint64_t first, std::uint64_t count);
  Task<Result<void>> finish_purge(OpenLayer* from, OpenLayer* to, FileId to_map);

  Runner& runner_;
  BufferPool& pool_;
  DiskFiles files_;
  MetaStore meta_;
  DirtyLog dirty_;
  SumCache sums_;
  Lookup lookup_;
  Gate gate_;         // everyone shared; chain operations exclusive
  RangeLock ranges_;  // mutating calls, in blocks
  AsyncMutex flushing_;
  Signal background_signal_;
  Signal background_ended_;

  OpenLayer head_;
  FileId head_map_ = 0;
  std::map<LayerFile, std::unique_ptr<OpenLayer>> layers_;
  std::array<OpenLayer*, LookupCode::max_slot + 1> slots_{};
  std::vector<LayerFile> graves_;

  std::vector<bool> map_dirty_;  // head map sectors that differ from the disk's
  bool any_map_dirty_ = false;
  std::vector<std::uint64_t> region_mutation_;  // number of the last mutation in each region
  std::uint64_t mutations_ = 0;                 // completed
  std::uint64_t flushed_ = 0;                   // of these, durable
  bool data_unsynced_ = false;

  std::set<LayerFile> unsummable_;  // a read failed while summing: not tried again before the next open
  bool background_idle_ = false;
  bool background_running_ = false;
  bool stopping_ = false;
  PurgeProgress purge_progress_;
};

}  // namespace moor::block
