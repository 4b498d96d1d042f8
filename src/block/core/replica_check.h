// Everything a replica's directory claims, held against what is there, without changing anything: metadata,
// dirty log, the map of every layer (those on branches too), the data that maps claim, and the checksums of
// summed layers. Reads all data of summed layers; its cost is theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/disk_files.h"

namespace moor::block {

struct CheckReport {
  std::vector<std::string> problems;  // none: all is as it should be
  std::vector<std::string> notes;     // worth knowing, and no damage
  std::uint64_t layers = 0;
  std::uint64_t data_blocks = 0;
  std::uint64_t verified_blocks = 0;
};

Task<CheckReport> check_replica(DiskFiles& files, BufferPool& pool);

}  // namespace moor::block
