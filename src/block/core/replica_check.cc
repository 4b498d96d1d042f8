#include "block/core/replica_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "block/core/crc32c.h"
#include "block/core/layer_map.h"
#include "block/core/layer_sum.h"
#include "block/core/replica_dirty.h"
#include "block/core/replica_meta.h"

namespace moor::block {
namespace {

constexpr std::size_t kMaxProblems = 100;  // more would only hide the first ones

class Check {
 public:
  Check(DiskFiles& files, BufferPool& pool)
      : files_(files), meta_(files), block_(pool.allocate(kBlockSize)) {}

  Task<void> all() {
    const Result<void> loaded = co_await meta_.load();
    if (!loaded.ok()) {
      problem(loaded.error().message);
      co_return;
    }
    DirtyLog dirty(files_);
    const Result<void> log = co_await dirty.load(meta_.get().size);
    if (!log.ok()) problem(log.error().message);
    co_await names();
    const ReplicaMeta& meta = meta_.get();
    for (const LayerRecord& record : meta.layers) {
      Expect expect;
      expect.file = record.file;
      expect.immutable = true;
      expect.summed = record.layer.summed;
      expect.map_crc = record.map_crc;
      // A merge into it changes its map until it is done.
      expect.map_recorded = !meta.purge || meta.purge->child != record.file;
      co_await layer(expect);
    }
    Expect head;
    head.file = meta.head_file;
    head.map_crc = meta.head_map_crc;
    head.map_recorded = meta.clean;
    co_await layer(head);
    if (meta.purge) note("a purge is under way; it goes on when the replica serves");
    if (!meta.clean) note("not stopped cleanly; what was not flushed may be missing");
  }

  CheckReport report;

 private:
  struct Expect {
    LayerFile file = 0;
    bool immutable = false;
    bool summed = false;
    bool map_recorded = false;
    std::uint32_t map_crc = 0;
  };

  void problem(std::string text) {
    if (report.problems.size() < kMaxProblems) report.problems.push_back(std::move(text));
  }
  void note(std::string text) { report.notes.push_back(std::move(text)); }

  Task<void> names() {
    const Result<std::vector<std::string>> names = co_await files_.list();
    if (!names.ok()) {
      problem(names.error().message);
      co_return;
    }
    for (const std::string& name : *names) {
      if (name == kMetaName || name == kDirtyName) continue;
      const auto file = layer_file_of(name);
      const bool known = file && (*file == meta_.get().head_file || meta_.get().by_file(*file) != nullptr);
      if (!known) note(name + " belongs to no layer");
    }
  }

  Task<void> layer(Expect expect) {
    ++report.layers;
    const Result<FileId> data = co_await files_.open(data_name(expect.file));
    const Result<FileId> map = co_await files_.open(map_name(expect.file));
    Result<FileId> sum = FileId{0};
    if (expect.summed) sum = co_await files_.open(sum_name(expect.file));
    if (!data.ok()) problem(data.error().message);
    if (!map.ok()) problem(map.error().message);
    if (!sum.ok()) problem(sum.error().message);
    if (data.ok() && map.ok()) co_await blocks(expect, *data, *map, sum.ok() ? *sum : 0);
    co_await close(data);
    co_await close(map);
    co_await close(sum);
    if (expect.immutable && !expect.summed) {
      note(fmt::format("layer file {} has no checksums yet: its data cannot be verified", expect.file));
    }
  }
  Task<void> close(const Result<FileId>& file) {
    if (file.ok()) co_await files_.close(*file);
  }

  Task<void> blocks(const Expect& expect, FileId data, FileId map, FileId sum) {
    const Result<std::uint64_t> size = co_await files_.size(data);
    const Result<std::uint64_t> mapped = co_await files_.size(map);
    // Behind the end of the map nothing is claimed, however large the volume says that it is.
    std::uint64_t sectors = map_sectors(meta_.get().size / kBlockSize);
    if (mapped.ok()) sectors = std::min(sectors, (*mapped + kSectorSize - 1) / kSectorSize);
    std::uint32_t crc = 0;
    std::vector<std::byte> raw(kSectorSize);
    for (std::uint64_t at = 0; at < sectors; ++at) {
      const Result<std::uint64_t> got = co_await files_.read(map, at * kSectorSize, raw);
      if (!got.ok()) {
        problem(Error(got.error()).with_context(map_name(expect.file)).message);
        co_return;
      }
      const std::span<const std::byte, kSectorSize> bytes(raw);
      const Result<MapSector> sector = MapSector::decode({expect.file, at}, bytes);
      if (!sector.ok()) {
        problem(sector.error().message);
        continue;
      }
      if (sector->is_empty()) continue;
      crc = extend_map_crc(crc, bytes);
      for (std::uint64_t index = 0; index < kMapBlocksPerSector; ++index) {
        if (sector->get(index) != BlockState::data) continue;
        ++report.data_blocks;
        const std::uint64_t block = at * kMapBlocksPerSector + index;
        if (size.ok() && (block + 1) * kBlockSize > *size) {
          problem(
              fmt::format("{} ends before block {}, which its map claims", data_name(expect.file), block));
        } else if (sum != 0) {
          co_await verify(expect.file, data, sum, block);
        }
      }
    }
    if (expect.map_recorded && crc != expect.map_crc) {
      problem(fmt::format("{} is not the map that was recorded", map_name(expect.file)));
    }
  }

  Task<void> verify(LayerFile file, FileId data, FileId sum, std::uint64_t block) {
    const std::uint64_t page = block / kSumsPerPage;
    if (page_file_ != file || page_number_ != page) {
      std::vector<std::byte> raw(kSumPageSize);
      const Result<std::uint64_t> got = co_await files_.read(sum, page * kSumPageSize, raw);
      page_ = got.ok() ? SumPage::decode(file, page, std::span<const std::byte, kSumPageSize>(raw))
                       : Result<SumPage>(got.error());
      page_file_ = file;
      page_number_ = page;
      if (!page_.ok()) problem(page_.error().message);
    }
    if (!page_.ok()) co_return;
    const Result<std::uint64_t> got = co_await files_.read(data, block * kBlockSize, block_.span());
    if (!got.ok()) {
      problem(fmt::format("{}: block {} cannot be read: {}", data_name(file), block, got.error().message));
    } else if (crc32c(block_.span()) != page_->sums[block % kSumsPerPage]) {
      problem(fmt::format("layer file {}: block {} does not match its checksum", file, block));
    } else {
      ++report.verified_blocks;
    }
  }

  DiskFiles& files_;
  MetaStore meta_;
  Slice block_;
  LayerFile page_file_ = 0;
  std::uint64_t page_number_ = 0;
  Result<SumPage> page_ = SumPage{};
};

}  // namespace

Task<CheckReport> check_replica(DiskFiles& files, BufferPool& pool) {
  Check check(files, pool);
  co_await check.all();
  co_return std::move(check.report);
}

}  // namespace moor::block
