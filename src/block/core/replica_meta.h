// volume.meta: all that a replica must remember besides the blocks themselves, in one checksummed, versioned
// record that is replaced as a whole. Whatever belongs together (a new head and the generation that names it)
// is therefore never half there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/core/disk_files.h"
#include "block/core/task_sync.h"
#include "block/core/types.h"

namespace moor::block {

inline constexpr std::string_view kMetaName = "volume.meta";
inline constexpr std::uint32_t kMetaFormat = 1;
inline constexpr std::size_t kMaxSnapshots = 250;  // immutable ones; the lookup table has room for 252
inline constexpr std::uint64_t kMaxMetaBytes = 32u << 20;
inline constexpr std::uint64_t kMaxVolumeBytes = 1ull << 46;

// Files of a layer are named by a number that is never used again.
using LayerFile = std::uint64_t;
std::string data_name(LayerFile file);
std::string map_name(LayerFile file);
std::string sum_name(LayerFile file);
// The number in a layer file's name; nothing for other names.
std::optional<LayerFile> layer_file_of(std::string_view name);

struct LayerRecord {
  LayerFile file = 0;
  LayerFile parent = 0;  // 0: none
  std::uint32_t map_crc = 0;
  Layer layer;  // its `parent` is left empty here and filled in for answers
  bool operator==(const LayerRecord&) const = default;
};

// A merge under way; taken up again at open.
struct PurgeRecord {
  LayerFile layer = 0;
  LayerFile child = 0;  // may be the head
  std::string new_id;
  bool operator==(const PurgeRecord&) const = default;
};

struct ReplicaMeta {
  std::string volume;  // empty: any
  std::string token;   // empty: obeys any engine
  std::uint64_t size = 0;
  Floor floor;
  Generation generation = 0;
  Epoch wrote = 0;
  bool clean = true;
  bool rebuilding = false;
  LayerFile next_file = 1;
  LayerFile head_file = 0;
  LayerFile head_parent = 0;
  std::uint32_t head_map_crc = 0;  // holds when clean
  std::string head_id;
  std::vector<LayerRecord> layers;  // oldest first; parents stand before children
  std::optional<PurgeRecord> purge;
  bool operator==(const ReplicaMeta&) const = default;

  const LayerRecord* by_file(LayerFile file) const;
  LayerRecord* by_file(LayerFile file);
  const LayerRecord* by_snapshot(std::string_view name) const;
  // From the head's parent down to the base.
  std::vector<LayerFile> path() const;
  std::vector<LayerFile> children_of(LayerFile file) const;  // the head included
  std::vector<Layer> chain() const;
};

std::vector<std::byte> encode_meta(const ReplicaMeta& meta);
// corrupt: damaged. unsupported: written by a newer version.
Result<ReplicaMeta> decode_meta(std::span<const std::byte> bytes);

// The record in memory and on disk. One change at a time; a change that fails leaves both as they were,
// unless a sync failed: then the directory is broken.
class MetaStore {
 public:
  explicit MetaStore(DiskFiles& files) : files_(files), mutex_(files.runner()) {}

  Task<Result<void>> load();
  // `change` sees the newest record and may refuse.
  Task<Result<void>> commit(std::function<Result<void>(ReplicaMeta&)> change);
  const ReplicaMeta& get() const { return meta_; }

 private:
  DiskFiles& files_;
  AsyncMutex mutex_;
  ReplicaMeta meta_;
};

}  // namespace moor::block
