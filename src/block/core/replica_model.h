// For tests: what a replica must hold, said as naively as possible. Every sector of 512 bytes carries the
// number of the write that filled it (0: zeros), so that what is read back says by itself where it came from.
// Per sector the model keeps the present value and those that a power cut may bring back or forward.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "block/core/types.h"

namespace moor::block {

inline constexpr std::uint64_t kModelSector = 512;
using Tag = std::uint64_t;

inline void fill_sector(std::byte* at, Tag tag, std::uint64_t sector) {
  if (tag == 0) {
    std::memset(at, 0, kModelSector);
    return;
  }
  for (std::uint64_t i = 0; i < kModelSector / 8; ++i) {
    const std::uint64_t word = i == 0 ? tag : i == 1 ? sector : tag * 0x9e3779b97f4a7c15ull + sector * 31 + i;
    std::memcpy(at + i * 8, &word, 8);
  }
}

inline std::vector<std::byte> fill(Tag tag, Extent extent) {
  std::vector<std::byte> bytes(extent.length);
  for (std::uint64_t at = 0; at < extent.length; at += kModelSector) {
    fill_sector(bytes.data() + at, tag, (extent.offset + at) / kModelSector);
  }
  return bytes;
}

inline constexpr Tag kTorn = ~Tag{0};

// The tag of a sector; kTorn when its bytes are of no single write, or of another place.
inline Tag tag_of(const std::byte* at, std::uint64_t sector) {
  Tag tag = 0;
  std::memcpy(&tag, at, 8);
  if (tag == 0) return std::memcmp(at, at + 1, kModelSector - 1) == 0 ? 0 : kTorn;
  std::byte expected[kModelSector];
  fill_sector(expected, tag, sector);
  return std::memcmp(at, expected, kModelSector) == 0 ? tag : kTorn;
}

class ReplicaModel {
 public:
  explicit ReplicaModel(std::uint64_t size) : now(size / kModelSector, 0), maybe(now.size()) {}

  // Sent, not yet answered: may take effect from here on.
  void begin(Extent extent, Tag tag) {
    for_sectors(extent, [&](std::uint64_t s) { maybe[s].insert(tag); });
  }
  void done(Extent extent, Tag tag) {
    for_sectors(extent, [&](std::uint64_t s) {
      maybe[s].insert(now[s]);
      now[s] = tag;
    });
  }
  // Nothing is in flight: all is durable as it stands.
  void flushed() {
    for (auto& values : maybe) values.clear();
  }
  bool allows(std::uint64_t sector, Tag tag) const {
    return now[sector] == tag || maybe[sector].contains(tag);
  }

  struct Snapshot {
    std::vector<Tag> image;
    bool removed = false;
  };
  std::vector<Tag> now;
  std::vector<std::set<Tag>> maybe;
  std::map<std::string, Snapshot> snapshots;

 private:
  template <class Visit>
  static void for_sectors(Extent extent, Visit visit) {
    for (std::uint64_t s = extent.offset / kModelSector; s < extent.end() / kModelSector; ++s) visit(s);
  }
};

}  // namespace moor::block
