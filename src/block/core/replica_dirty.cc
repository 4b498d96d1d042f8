#include "block/core/replica_dirty.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "block/core/crc32c.h"
#include "block/core/layer_map.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kBitsPerSector = (kSectorSize - 8) * 8;
constexpr std::uint32_t kDirtyMark = 0x5452444d;  // "MDRT"

constexpr std::uint64_t sectors_of(std::uint64_t regions) {
  return (regions + kBitsPerSector - 1) / kBitsPerSector;
}

std::uint32_t sector_crc(std::uint64_t sector, std::span<const std::byte> payload) {
  return crc32c(payload, crc32c(std::as_bytes(std::span(&sector, 1))));
}

void encode_sector(std::uint64_t sector, const std::vector<bool>& bits, std::byte* out) {
  std::array<std::byte, kSectorSize - 8> payload{};
  const std::uint64_t base = sector * kBitsPerSector;
  for (std::uint64_t i = 0; i < kBitsPerSector && base + i < bits.size(); ++i) {
    if (bits[base + i]) payload[i / 8] |= static_cast<std::byte>(1u << (i % 8));
  }
  const std::uint32_t crc = sector_crc(sector, payload);
  std::memcpy(out, &kDirtyMark, 4);
  std::memcpy(out + 4, &crc, 4);
  std::memcpy(out + 8, payload.data(), payload.size());
}

std::vector<std::byte> encode_all(const std::vector<bool>& bits, std::uint64_t first, std::uint64_t last) {
  std::vector<std::byte> bytes((last - first + 1) * kSectorSize);
  for (std::uint64_t s = first; s <= last; ++s)
    encode_sector(s, bits, bytes.data() + (s - first) * kSectorSize);
  return bytes;
}

}  // namespace

Task<Result<void>> DirtyLog::create(DiskFiles& files, std::uint64_t size) {
  const std::vector<bool> bits(regions_of(size));
  const std::vector<std::byte> bytes = encode_all(bits, 0, sectors_of(bits.size()) - 1);
  const std::string name(kDirtyName);
  CO_TRY(const FileId file, co_await files.create(name));
  Result<void> done = co_await files.write(file, 0, bytes);
  if (done.ok()) done = co_await files.sync(file);
  co_await files.close(file);
  co_return done;
}

Task<Result<void>> DirtyLog::load(std::uint64_t size) {
  const std::string name(kDirtyName);
  CO_TRY(file_, co_await files_.open(name));
  wanted_.assign(regions_of(size), false);
  std::vector<std::byte> bytes(sectors_of(wanted_.size()) * kSectorSize);
  CO_TRY(const std::uint64_t got, co_await files_.read(file_, 0, bytes));
  (void)got;
  for (std::uint64_t sector = 0; sector < sectors_of(wanted_.size()); ++sector) {
    const std::span<const std::byte> raw(bytes.data() + sector * kSectorSize, kSectorSize);
    std::uint32_t mark = 0;
    std::uint32_t crc = 0;
    std::memcpy(&mark, raw.data(), 4);
    std::memcpy(&crc, raw.data() + 4, 4);
    if (mark != kDirtyMark || crc != sector_crc(sector, raw.subspan(8))) {
      co_return make_error(Errc::corrupt,
                           fmt::format("{}: sector {} is damaged (checksum)", kDirtyName, sector));
    }
    for (std::uint64_t i = 0; i < kBitsPerSector && sector * kBitsPerSector + i < wanted_.size(); ++i) {
      if ((raw[8 + i / 8] & static_cast<std::byte>(1u << (i % 8))) != std::byte{0}) {
        wanted_[sector * kBitsPerSector + i] = true;
      }
    }
  }
  durable_ = wanted_;
  co_return Result<void>{};
}

Task<Result<void>> DirtyLog::grow(std::uint64_t size) {
  AsyncMutex::Hold hold(mutex_);
  co_await hold;
  const std::uint64_t regions = regions_of(size);
  if (regions <= wanted_.size()) co_return Result<void>{};
  wanted_.resize(regions, false);
  durable_.resize(regions, false);
  co_return co_await write_sectors(0, sectors_of(regions) - 1, true);
}

bool DirtyLog::is_marked(RegionRange range) const {
  for (std::uint64_t region = range.first; region <= range.last; ++region) {
    if (!durable_[region]) return false;
  }
  return true;
}

Task<Result<void>> DirtyLog::mark(RegionRange range) {
  // Set before the wait for the lock: whoever holds it next writes for all who wait.
  for (std::uint64_t region = range.first; region <= range.last; ++region) wanted_[region] = true;
  AsyncMutex::Hold hold(mutex_);
  co_await hold;
  if (is_marked(range)) co_return Result<void>{};
  // A clear that went before us in the queue may have taken our wish away.
  for (std::uint64_t region = range.first; region <= range.last; ++region) wanted_[region] = true;
  co_return co_await write_sectors(range.first / kBitsPerSector, range.last / kBitsPerSector, true);
}

Task<Result<void>> DirtyLog::clear(std::vector<std::uint64_t> regions,
                                   std::function<bool(std::uint64_t)> keep) {
  AsyncMutex::Hold hold(mutex_);
  co_await hold;
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  for (const std::uint64_t region : regions) {
    // Wanted and not yet durable: a write is on its way to it.
    if (region >= wanted_.size() || !durable_[region] || keep(region)) continue;
    wanted_[region] = false;
    durable_[region] = false;
    first = std::min(first, region / kBitsPerSector);
    last = std::max(last, region / kBitsPerSector);
  }
  if (first > last) co_return Result<void>{};
  co_return co_await write_sectors(first, last, false);
}

std::vector<std::uint64_t> DirtyLog::regions() const {
  std::vector<std::uint64_t> result;
  for (std::uint64_t region = 0; region < wanted_.size(); ++region) {
    if (wanted_[region]) result.push_back(region);
  }
  return result;
}

Task<Result<void>> DirtyLog::write_sectors(std::uint64_t first, std::uint64_t last, bool sync) {
  const std::vector<bool> writing = wanted_;
  const std::vector<std::byte> bytes = encode_all(writing, first, last);
  CO_TRY_VOID(co_await files_.write(file_, first * kSectorSize, bytes));
  if (!sync) co_return Result<void>{};
  CO_TRY_VOID(co_await files_.sync(file_));
  const std::uint64_t end = std::min<std::uint64_t>((last + 1) * kBitsPerSector, writing.size());
  for (std::uint64_t region = first * kBitsPerSector; region < end; ++region) {
    if (writing[region]) durable_[region] = true;
  }
  co_return Result<void>{};
}

}  // namespace moor::block
