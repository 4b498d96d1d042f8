#include "store/embedded/checksum.h"

#include <xxhash.h>

#include <array>

#include "base/assert.h"

namespace moor::store::embedded {
namespace {
template <std::size_t N>
std::uint64_t hash(const std::array<std::uint64_t, N>& numbers, std::uint64_t seed) {
  return XXH3_64bits_withSeed(numbers.data(), sizeof numbers, seed);
}
constexpr std::uint64_t kEntrySeed = 0x656e747279;  // "entry"
constexpr std::uint64_t kLeaseSeed = 0x6c65617365;  // "lease"
constexpr std::uint64_t kMetaSeed = 0x6d657461;     // "meta"
}  // namespace

std::uint64_t checksum(const EntryView& entry) {
  const std::array<std::uint64_t, 6> head = {entry.revision,   entry.transaction,       entry.lease,
                                             entry.key.size(), entry.removal ? 1u : 0u, entry.value.size()};
  const std::uint64_t with_key =
      XXH3_64bits_withSeed(entry.key.data(), entry.key.size(), hash(head, kEntrySeed));
  return XXH3_64bits_withSeed(entry.value.data(), entry.value.size(), with_key);
}

std::uint64_t checksum(LeaseId lease, std::uint64_t time_to_live_ns) {
  return hash(std::array<std::uint64_t, 2>{lease, time_to_live_ns}, kLeaseSeed);
}

std::uint64_t checksum(const Meta& meta) {
  return hash(
      std::array<std::uint64_t, 5>{meta.revision, meta.compacted, meta.entries, meta.leases, meta.digest},
      kMetaSeed);
}

StreamChecksum::StreamChecksum() : state_(XXH3_createState()) {
  MOOR_ASSERT(state_ != nullptr);
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
StreamChecksum::~StreamChecksum() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}
void StreamChecksum::add(std::string_view bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
std::uint64_t StreamChecksum::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

}  // namespace moor::store::embedded
