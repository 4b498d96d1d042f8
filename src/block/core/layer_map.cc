#include "block/core/layer_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "block/core/crc32c.h"

namespace moor::block {
namespace {

constexpr std::uint32_t kMapMark = 0x504d524d;  // "MRMP"

std::uint32_t sector_crc(MapPlace place, std::span<const std::uint8_t> payload) {
  const std::uint64_t words[2] = {place.file, place.sector};
  const std::uint32_t seed = crc32c(std::as_bytes(std::span(words)));
  return crc32c(std::as_bytes(payload), seed);
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

bool MapSector::is_empty() const {
  return all_zero(std::as_bytes(std::span(payload_)));
}

void MapSector::encode(MapPlace place, std::span<std::byte, kSectorSize> out) const {
  if (is_empty()) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  const std::uint32_t crc = sector_crc(place, payload_);
  std::memcpy(out.data(), &kMapMark, 4);
  std::memcpy(out.data() + 4, &crc, 4);
  std::memcpy(out.data() + 8, payload_.data(), payload_.size());
}

Result<MapSector> MapSector::decode(MapPlace place, std::span<const std::byte, kSectorSize> in) {
  MapSector sector;
  if (all_zero(in)) return sector;
  std::uint32_t mark = 0;
  std::uint32_t crc = 0;
  std::memcpy(&mark, in.data(), 4);
  std::memcpy(&crc, in.data() + 4, 4);
  std::memcpy(sector.payload_.data(), in.data() + 8, sector.payload_.size());
  if (mark != kMapMark || crc != sector_crc(place, sector.payload_)) {
    return make_error(Errc::corrupt, fmt::format("map of layer file {}: sector {} is damaged (checksum)",
                                                 place.file, place.sector));
  }
  bool valid = true;
  sector.for_each([&](std::uint64_t, BlockState state) {
    valid &= state == BlockState::data || state == BlockState::zero;
  });
  if (!valid) {
    return make_error(Errc::corrupt, fmt::format("map of layer file {}: sector {} holds an unknown state",
                                                 place.file, place.sector));
  }
  return sector;
}

std::uint32_t extend_map_crc(std::uint32_t crc, std::span<const std::byte> encoded) {
  return crc32c(encoded, crc);
}

}  // namespace moor::block
