// CRC-32C (Castagnoli), as iSCSI and ext4 use it: the checksum of everything a replica stores. Uses the CPU's
// instruction where there is one. Chainable: crc32c(b, crc32c(a)) == crc32c(a ++ b).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moor::block {

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed = 0);

// Both forms, so that a test can hold them against each other.
std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t seed = 0);

}  // namespace moor::block
