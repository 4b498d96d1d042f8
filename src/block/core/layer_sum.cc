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

void SumCache::insert(Key key, const SumPage& contents) {
  const auto found = index_.find(key);
  if (found != index_.end()) {
    found->second->contents = contents;
    recent_.splice(recent_.begin(), recent_, found->second);
    return;
  }
  if (recent_.size() >= kPages) {
    index_.erase({recent_.back().layer, recent_.back().page});
    recent_.pop_back();
  }
  recent_.push_front(Entry{key.first, key.second, contents});
  index_[key] = recent_.begin();
}

void SumCache::forget(std::uint64_t layer) {
  for (auto at = recent_.begin(); at != recent_.end();) {
    if (at->layer == layer) {
      index_.erase({at->layer, at->page});
      at = recent_.erase(at);
    } else {
      ++at;
    }
  }
}

SumPage* SumCache::find(Key key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return &found->second->contents;
}

Task<Result<void>> SumCache::verify(std::uint64_t layer, FileId sum_file, std::uint64_t first_block,
                                    std::span<const std::byte> data) {
  const std::uint64_t end = first_block + data.size() / kBlockSize;
  for (std::uint64_t block = first_block; block < end;) {
    const Key key{layer, block / kSumsPerPage};
    if (find(key) == nullptr) {
      Gate::Hold hold(gate_, GateMode::shared);
      co_await hold;
      std::vector<std::byte> raw(kSumPageSize);
      CO_TRY_VOID(co_await files_.read(sum_file, key.second * kSumPageSize, raw));
      CO_TRY(const SumPage page,
             SumPage::decode(layer, key.second, std::span<const std::byte, kSumPageSize>(raw)));
      insert(key, page);
    }
    const SumPage& page = *find(key);
    const std::uint64_t stop = std::min(end, (key.second + 1) * kSumsPerPage);
    for (; block < stop; ++block) {
      const auto bytes = data.subspan((block - first_block) * kBlockSize, kBlockSize);
      if (crc32c(bytes) != page.sums[block % kSumsPerPage]) {
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
  if (written.ok()) insert({layer, page}, contents);
  co_return written;
}

}  // namespace moor::block
