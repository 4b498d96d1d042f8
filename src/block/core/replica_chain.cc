// Opening a replica and changing its chain of layers: create, snapshot, mark removed, revert, expand. Each
// change prepares new files, commits volume.meta (that is the moment it has happened) and only then drops old
// files; files that no record names are swept at open. Merging is in replica_background.cc.
#include <fmt/format.h>

#include <algorithm>

#include "block/core/replica_store.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kMapChunk = 1u << 20;
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxLabelText = 4096;
constexpr std::size_t kMaxLabelCount = 256;

Result<void> check_command(const SnapshotCommand& command) {
  bool fits = !command.name.empty() && command.name.size() <= kMaxName &&
              command.layer_id.size() <= kMaxName && command.head_id.size() <= kMaxName &&
              command.created.size() <= kMaxName && command.labels.size() <= kMaxLabelCount;
  for (const auto& [key, value] : command.labels) fits &= key.size() + value.size() <= kMaxLabelText;
  if (!fits) return make_error(Errc::invalid, "a name, id or label of the snapshot is empty or too long");
  return {};
}

// A command carries the generation that goes with it; 0: none. It never goes back: an engine that sends an
// older one has an old view.
Result<void> take_generation(ReplicaMeta& meta, Generation generation) {
  if (generation == 0) return {};
  if (generation < meta.generation) {
    return make_error(Errc::invalid,
                      fmt::format("generation {} is older than the stored {}", generation, meta.generation));
  }
  meta.generation = generation;
  return {};
}

bool merges_into_head(const ReplicaMeta& meta) {
  return meta.purge && meta.purge->child == meta.head_file;
}

}  // namespace

Task<Result<void>> ReplicaStore::create(DiskFiles& files, ReplicaCreate options) {
  if (options.size == 0 || options.size % kBlockSize != 0 || options.size > kMaxVolumeBytes) {
    co_return make_error(Errc::invalid, fmt::format("size {} is not a multiple of {} up to {}", options.size,
                                                    kBlockSize, kMaxVolumeBytes));
  }
  CO_TRY(const std::vector<std::string> names, co_await files.list());
  if (std::ranges::find(names, kMetaName) != names.end()) {
    co_return make_error(Errc::already_exists, "the directory already holds a replica");
  }
  ReplicaMeta meta;
  meta.size = options.size;
  meta.volume = options.volume;
  meta.token = options.token;
  meta.head_file = meta.next_file++;
  meta.head_id = "base";
  const std::string data = data_name(meta.head_file);
  const std::string map = map_name(meta.head_file);
  CO_TRY(const FileId data_file, co_await files.create(data));
  Result<void> sized = co_await files.truncate(data_file, options.size);
  co_await files.close(data_file);
  CO_TRY_VOID(sized);
  CO_TRY(const FileId map_file, co_await files.create(map));
  co_await files.close(map_file);
  CO_TRY_VOID(co_await DirtyLog::create(files, options.size));
  CO_TRY_VOID(co_await files.sync_dir());
  // Last: a directory without volume.meta is no replica, whatever else lies in it.
  const std::vector<std::byte> bytes = encode_meta(meta);
  const std::string name(kMetaName);
  co_return co_await files.replace(name, bytes);
}

Task<Result<void>> ReplicaStore::open() {
  CO_TRY_VOID(co_await meta_.load());
  CO_TRY_VOID(co_await dirty_.load(meta().size));
  CO_TRY_VOID(co_await remove_orphans());
  CO_TRY_VOID(co_await open_head());
  CO_TRY_VOID(co_await load_path());
  region_mutation_.assign(regions_of(meta().size), 0);
  runner_.spawn(background());
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::remove_orphans() {
  CO_TRY(const std::vector<std::string> names, co_await files_.list());
  for (const std::string& name : names) {
    const auto file = layer_file_of(name);
    const bool known = file && (*file == meta().head_file || meta().by_file(*file) != nullptr);
    const bool temporary = name == std::string(kMetaName) + std::string(kTempSuffix);
    if ((file && !known) || temporary) {
      CO_TRY_VOID(co_await files_.unlink(name));
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::open_head() {
  head_ = OpenLayer{};
  head_.file = meta().head_file;
  CO_TRY(head_.data, co_await files_.open(data_name(head_.file), true));
  CO_TRY(head_map_, co_await files_.open(map_name(head_.file)));
  co_return Result<void>{};
}

Task<Result<ReplicaStore::OpenLayer*>> ReplicaStore::ensure_open(LayerFile file) {
  const auto found = layers_.find(file);
  if (found != layers_.end()) co_return found->second.get();
  auto layer = std::make_unique<OpenLayer>();
  layer->file = file;
  CO_TRY(layer->data, co_await files_.open(data_name(file), true));
  const LayerRecord* record = meta().by_file(file);
  if (record != nullptr && record->layer.summed) {
    CO_TRY(layer->sum, co_await files_.open(sum_name(file)));
  }
  // While we waited it may have been dropped, or opened by someone else.
  if (!layers_.contains(file) && meta().by_file(file) != nullptr) {
    OpenLayer* mine = layer.get();
    layers_[file] = std::move(layer);
    co_return mine;
  }
  co_await files_.close(layer->data);
  co_await files_.close(layer->sum);
  const auto other = layers_.find(file);
  if (other == layers_.end()) co_return make_error(Errc::not_found, data_name(file) + " is gone");
  co_return other->second.get();
}

Task<Result<void>> ReplicaStore::load_path() {
  CO_TRY_VOID(lookup_.reset(blocks()));
  map_dirty_.assign(map_sectors(blocks()), false);
  any_map_dirty_ = false;
  slots_.fill(nullptr);
  for (auto& [file, layer] : layers_) layer->slot = 0;
  std::vector<LayerFile> path = meta().path();
  std::ranges::reverse(path);
  for (const LayerFile file : path) {
    CO_TRY(OpenLayer * layer, co_await ensure_open(file));
    layer->slot = free_slot();
    slots_[layer->slot] = layer;
    MapTotals totals;
    CO_TRY_VOID(co_await load_map(file, layer->slot, LookupCode::zero_below, &totals));
    // While a merge into it is under way its map changes in place, block by block.
    if (meta().purge && meta().purge->child == file) continue;
    if (totals.crc != meta().by_file(file)->map_crc) {
      co_return make_error(Errc::corrupt, fmt::format("{} is not the map that was recorded", map_name(file)));
    }
  }
  MapTotals totals;
  CO_TRY_VOID(co_await load_map(head_.file, LookupCode::head_data, LookupCode::head_zero, &totals));
  if (meta().clean && meta().head_map_crc != totals.crc) {
    co_return make_error(Errc::corrupt,
                         fmt::format("{} is not the map of the clean stop", map_name(head_.file)));
  }
  co_return Result<void>{};
}

Task<Result<void>> ReplicaStore::load_map(LayerFile file, std::uint8_t data_code, std::uint8_t zero_code,
                                          MapTotals* totals) {
  CO_TRY(const FileId map, co_await files_.open(map_name(file)));
  const std::uint64_t sectors = map_sectors(blocks());
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kMapChunk, sectors * kSectorSize));
  Result<void> outcome;
  for (std::uint64_t at = 0; at < sectors && outcome.ok(); at += chunk.size() / kSectorSize) {
    const Result<std::uint64_t> got = co_await files_.read(map, at * kSectorSize, chunk);
    if (!got.ok()) {
      outcome = Error(got.error()).with_context(map_name(file));
      break;
    }
    const std::uint64_t count = std::min<std::uint64_t>((*got + kSectorSize - 1) / kSectorSize, sectors - at);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::span<const std::byte, kSectorSize> raw(chunk.data() + i * kSectorSize, kSectorSize);
      const Result<MapSector> sector = MapSector::decode({file, at + i}, raw);
      if (!sector.ok()) {
        outcome = sector.error();
        break;
      }
      if (sector->is_empty()) continue;
      totals->crc = extend_map_crc(totals->crc, raw);
      if (data_code != LookupCode::absent) {
        lookup_.apply((at + i) * kMapBlocksPerSector, *sector, data_code, zero_code);
      }
      sector->for_each(
          [&](std::uint64_t, BlockState state) { totals->data_blocks += state == BlockState::data; });
    }
    if (*got < chunk.size()) break;
  }
  co_await files_.close(map);
  co_return outcome;
}

std::uint8_t ReplicaStore::free_slot() const {
  for (std::size_t slot = 1; slot <= LookupCode::max_slot; ++slot) {
    if (slots_[slot] == nullptr) return static_cast<std::uint8_t>(slot);
  }
  MOOR_UNREACHABLE("more layers than the {} that metadata allows", kMaxSnapshots);
}

Task<Result<void>> ReplicaStore::create_files(LayerFile file, std::uint64_t size) {
  const std::string data = data_name(file);
  const std::string map = map_name(file);
  CO_TRY(const FileId data_file, co_await files_.create(data));
  Result<void> done = co_await files_.truncate(data_file, size);
  co_await files_.close(data_file);
  if (done.ok()) {
    Result<FileId> map_file = co_await files_.create(map);
    if (map_file.ok()) {
      co_await files_.close(*map_file);
    } else {
      done = std::move(map_file).error();
    }
  }
  if (done.ok()) done = co_await files_.sync_dir();
  co_return done;
}

Task<Result<void>> ReplicaStore::create_snapshot(SnapshotCommand command) {
  CO_TRY_VOID(check_command(command));
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  if (files_.broken()) co_return files_.broken_error();
  if (const LayerRecord* old = meta().by_snapshot(command.name)) {
    // The same command again, after an answer that got lost.
    const bool same = old->file == meta().head_parent && old->layer.id == command.layer_id &&
                      meta().head_id == command.head_id;
    if (same) co_return Result<void>{};
    co_return make_error(Errc::invalid, "a snapshot named " + command.name + " exists");
  }
  if (meta().layers.size() >= kMaxSnapshots) {
    co_return make_error(Errc::invalid,
                         fmt::format("the volume has {} snapshots, the most there can be", kMaxSnapshots));
  }
  if (merges_into_head(meta()))
    co_return make_error(Errc::invalid, "a purge into the head is under way: wait for it");
  CO_TRY_VOID(co_await flush_now());
  const LayerFile file = meta().next_file;
  CO_TRY_VOID(co_await create_files(file, meta().size));
  const MapTotals totals = head_totals();
  CO_TRY_VOID(co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
    TRY_VOID(take_generation(next, command.generation));
    LayerRecord record;
    record.file = next.head_file;
    record.parent = next.head_parent;
    record.map_crc = totals.crc;
    record.layer.id = command.layer_id;
    record.layer.snapshot = command.name;
    record.layer.created = command.created;
    record.layer.labels = command.labels;
    record.layer.user_created = command.user_created;
    record.layer.used_bytes = totals.data_blocks * kBlockSize;
    next.layers.push_back(std::move(record));
    next.head_parent = next.head_file;
    next.head_file = next.next_file++;
    next.head_id = command.head_id;
    next.clean = false;
    next.head_map_crc = 0;
    return {};
  }));
  // From here on it has happened: a failure to follow in memory must not serve the old view. No wait before
  // the layer is in its place: the background sees it in the record and would open it a second time.
  const FileId sealed_map = head_map_;
  auto sealed = std::make_unique<OpenLayer>(head_);
  sealed->slot = free_slot();
  lookup_.seal_head(sealed->slot);
  slots_[sealed->slot] = sealed.get();
  MOOR_ASSERT(!layers_.contains(sealed->file), "layer file {} is open twice", sealed->file);
  layers_[sealed->file] = std::move(sealed);
  co_await files_.close(sealed_map);
  Result<void> opened = co_await open_head();
  if (!opened.ok()) files_.set_broken(opened.error().message);
  background_signal_.notify_all();
  co_return opened;
}

Task<Result<void>> ReplicaStore::mark_removed(SnapshotCommand command) {
  if (files_.broken()) co_return files_.broken_error();
  co_return co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
    const LayerRecord* found = next.by_snapshot(command.name);
    if (found == nullptr) return make_error(Errc::invalid, "there is no snapshot named " + command.name);
    next.by_file(found->file)->layer.removed = true;
    return take_generation(next, command.generation);
  });
}

Task<Result<void>> ReplicaStore::revert(SnapshotCommand command) {
  CO_TRY_VOID(check_command(command));
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  if (files_.broken()) co_return files_.broken_error();
  const LayerRecord* target = meta().by_snapshot(command.name);
  if (target == nullptr) co_return make_error(Errc::invalid, "there is no snapshot named " + command.name);
  if (target->file == meta().head_parent && meta().head_id == command.head_id) co_return Result<void>{};
  if (target->layer.removed)
    co_return make_error(Errc::invalid, "snapshot " + command.name + " is being removed");
  if (merges_into_head(meta()))
    co_return make_error(Errc::invalid, "a purge into the head is under way: wait for it");
  // Taken now: the background may replace the record while we wait.
  const LayerFile parent = target->file;
  const LayerFile file = meta().next_file;
  CO_TRY_VOID(co_await create_files(file, meta().size));
  const LayerFile old_head = meta().head_file;
  CO_TRY_VOID(co_await meta_.commit([&](ReplicaMeta& next) -> Result<void> {
    TRY_VOID(take_generation(next, command.generation));
    next.head_parent = parent;
    next.head_file = next.next_file++;
    next.head_id = command.head_id;
    next.clean = false;
    next.head_map_crc = 0;
    return {};
  }));
  co_await files_.close(head_map_);
  layers_[old_head] = std::make_unique<OpenLayer>(head_);
  doom(old_head);
  co_await bury_doomed();
  // What the old head had not flushed is gone with it.
  data_unsynced_ = false;
  flushed_ = mutations_;
  Result<void> loaded = co_await open_head();
  if (loaded.ok()) loaded = co_await load_path();
  if (!loaded.ok()) files_.set_broken(loaded.error().message);
  co_return loaded;
}

Task<Result<void>> ReplicaStore::expand(std::uint64_t size) {
  Gate::Hold alone(gate_, GateMode::exclusive);
  co_await alone;
  if (files_.broken()) co_return files_.broken_error();
  if (size == meta().size) co_return Result<void>{};
  if (size < meta().size || size % kBlockSize != 0 || size > kMaxVolumeBytes) {
    co_return make_error(
        Errc::invalid,
        fmt::format("cannot resize from {} to {}: volumes only grow, by whole blocks", meta().size, size));
  }
  CO_TRY_VOID(co_await dirty_.grow(size));
  CO_TRY_VOID(co_await files_.truncate(head_.data, size));
  CO_TRY_VOID(lookup_.grow(size / kBlockSize));
  map_dirty_.resize(map_sectors(size / kBlockSize), false);
  region_mutation_.resize(regions_of(size), 0);
  co_return co_await meta_.commit([size](ReplicaMeta& next) -> Result<void> {
    next.size = size;
    return {};
  });
}

void ReplicaStore::doom(LayerFile file) {
  OpenLayer& layer = *layers_.at(file);
  if (layer.slot != 0) slots_[layer.slot] = nullptr;
  layer.slot = 0;
  layer.doomed = true;
  if (layer.uses == 0) graves_.push_back(file);
}

Task<void> ReplicaStore::bury_doomed() {
  while (!graves_.empty()) {
    const LayerFile file = graves_.back();
    graves_.pop_back();
    auto node = layers_.extract(file);
    MOOR_ASSERT(!node.empty() && node.mapped()->uses == 0, "layer file {} is buried while in use", file);
    sums_.forget(file);
    co_await files_.close(node.mapped()->data);
    co_await files_.close(node.mapped()->sum);
    // What cannot be unlinked now is swept at the next open.
    (void)co_await files_.unlink(data_name(file));
    (void)co_await files_.unlink(map_name(file));
    (void)co_await files_.unlink(sum_name(file));
  }
}

}  // namespace moor::block
