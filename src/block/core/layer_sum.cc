#include "block/core/layer_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "block/core/crc32c.h"

namespace moor::block {
namespace {

std::uint32_t page_crc(std::uint64_t file, std::uint64_t page, std::span<const std::uint32_t> sums) {
  const std::uint64_t words[2] = {file, page};
  return crc32c(std::as_bytes(sums), crc32c(std::as_bytes(std::span(words))));
}

constexpr std::uint32_t kSumMark = 0x4d55534d;  // "MSUM"

}  // namespace

void SumPage::encode(std::uint64_t file, std::uint64_t page, std::span<std::byte, kSumPageSize> out) const {
  const std::uint32_t crc = page_crc(file, page, sums);
  std::memcpy(out.data(), &kSumMark, 4);
  std::memcpy(out.data() + 4, &crc, 4);
  std::memcpy(out.data() + 8, sums.data(), kSumsPerPage * 4);
}

Result<SumPage> SumPage::decode(std::uint64_t file, std::uint64_t page,
                                std::span<const std::byte, kSumPageSize> in) {
  SumPage result;
  std::uint32_t mark = 0;
  std::uint32_t crc = 0;
  std::memcpy(&mark, in.data(), 4);
  std::memcpy(&crc, in.data() + 4, 4);
  std::memcpy(result.sums.data(), in.data() + 8, kSumsPerPage * 4);
  if (mark != kSumMark || crc != page_crc(file, page, result.sums)) {
    return make_error(Errc::corrupt,
                      fmt::format("checksums of layer file {}: page {} is damaged", file, page));
  }
  return result;
}

SumCache::Entry* SumCache::find(std::uint64_t page) {
  const auto found = index_.find(page);
  if (found == index_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return &*found->second;
}

SumCache::Entry& SumCache::entry_for(std::uint64_t page) {
  if (Entry* there = find(page)) return *there;
  if (recent_.size() >= kPages) {
    index_.erase(recent_.back().page);
    recent_.pop_back();
  }
  recent_.push_front(Entry{page, {}, {}});
  index_[page] = recent_.begin();
  return recent_.front();
}

void SumCache::forget(std::uint64_t layer) {
  for (Entry& entry : recent_) std::ranges::replace(entry.owners, owner_of(layer), Owner{0});
}

bool SumCache::holds(const Entry* entry, Owner owner, std::uint64_t first, std::uint64_t end) {
  if (entry == nullptr || owner == 0) return false;
  return std::all_of(entry->owners.begin() + static_cast<std::ptrdiff_t>(first),
                     entry->owners.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](Owner there) { return there == owner; });
}

Task<Result<void>> SumCache::verify(std::uint64_t layer, FileId sum_file, std::uint64_t first_block,
                                    std::span<const std::byte> data) {
  const std::uint64_t end = first_block + data.size() / kBlockSize;
  const Owner owner = owner_of(layer);
  for (std::uint64_t block = first_block; block < end;) {
    const std::uint64_t page = block / kSumsPerPage;
    const std::uint64_t stop = std::min(end, (page + 1) * kSumsPerPage);
    const std::uint64_t from = block - page * kSumsPerPage;
    const std::uint64_t to = stop - page * kSumsPerPage;
    Entry* entry = find(page);
    if (!holds(entry, owner, from, to)) {
      Gate::Hold hold(gate_, GateMode::shared);
      co_await hold;
      std::array<std::byte, kSumPageSize> raw{};
      CO_TRY_VOID(co_await files_.read(sum_file, page * kSumPageSize, raw));
      CO_TRY(const SumPage stored, SumPage::decode(layer, page, raw));
      entry = &entry_for(page);
      for (std::uint64_t i = 0; i < kSumsPerPage; ++i) {
        // Blocks that nobody asked for are taken along only where they push out nothing.
        if ((i < from || i >= to) && entry->owners[i] != 0) continue;
        entry->owners[i] = owner;
        entry->sums[i] = stored.sums[i];
      }
    }
    for (; block < stop; ++block) {
      const auto bytes = data.subspan((block - first_block) * kBlockSize, kBlockSize);
      if (crc32c(bytes) != entry->sums[block - page * kSumsPerPage]) {
        co_return make_error(
            Errc::corrupt, fmt::format("layer file {}: block {} does not match its checksum", layer, block));
      }
    }
  }
  co_return Result<void>{};
}

Task<Result<SumPage>> SumCache::load(std::uint64_t layer, FileId sum_file, std::uint64_t page) {
  std::vector<std::byte> raw(kSumPageSize);
  CO_TRY(const std::uint64_t got, co_await files_.read(sum_file, page * kSumPageSize, raw));
  bool untouched = true;
  for (std::uint64_t i = 0; i < got && untouched; ++i) untouched = raw[i] == std::byte{0};
  if (untouched) co_return SumPage{};
  co_return SumPage::decode(layer, page, std::span<const std::byte, kSumPageSize>(raw));
}

Task<Result<void>> SumCache::store(std::uint64_t layer, FileId sum_file, std::uint64_t page,
                                   SumPage contents) {
  std::vector<std::byte> raw(kSumPageSize);
  contents.encode(layer, page, std::span<std::byte, kSumPageSize>(raw));
  Gate::Hold hold(gate_, GateMode::exclusive);
  co_await hold;
  Result<void> written = co_await files_.write(sum_file, page * kSumPageSize, raw);
  if (Entry* entry = find(page); entry != nullptr) {
    // After a failure nobody knows what the file holds: it is read again.
    for (std::uint64_t i = 0; i < kSumsPerPage; ++i) {
      if (entry->owners[i] == 0 || entry->owners[i] != owner_of(layer)) continue;
      entry->sums[i] = contents.sums[i];
      if (!written.ok()) entry->owners[i] = 0;
    }
  }
  co_return written;
}

}  // namespace moor::block
