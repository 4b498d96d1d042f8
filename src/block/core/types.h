// The words that engine, replica and their wire share. Plain values without I/O: the io_uring programs and
// the simulator use the same ones.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moor::block {

// Every start of an engine process takes a new epoch; it only grows (S2, S3).
using Epoch = std::uint64_t;
// Raised by the engine process for each connection to one replica.
using SessionId = std::uint64_t;
// Counts changes of the member set and of the snapshot chain in the Grant.
using Generation = std::uint64_t;

inline constexpr std::uint64_t kBlockSize = 4096;             // unit of the layer maps
inline constexpr std::uint64_t kRegionSize = 4ull << 20;      // unit of the dirty-region log
inline constexpr std::uint32_t kMaxRequestBytes = 32u << 20;  // largest READ or WRITE payload we take

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t end() const { return offset + length; }
  bool operator==(const Extent&) const = default;
};

// The highest epoch a replica has promised to obey. It is on disk before anyone hears of it: a replica that
// forgets its floor in a crash would let a fenced engine write again (S4).
struct Floor {
  Epoch epoch = 0;
  std::string engine;
  SessionId session = 0;
  bool operator==(const Floor&) const = default;
};

enum class MemberMode : std::uint8_t { rw, wo, err };

// One immutable layer of a replica's chain, oldest first; the head is not in the list.
struct Layer {
  std::string id;        // identity of the content: equal ids on two members mean equal bytes
  std::string snapshot;  // the snapshot's name
  std::string parent;    // id of the layer below; empty: none. After a revert newer layers stay, on a branch
  std::string created;   // RFC 3339, given by whoever asked for the snapshot
  std::map<std::string, std::string> labels;
  bool removed = false;  // marked removed; purge merges it away
  bool user_created = false;
  bool summed = false;  // block checksums are complete
  std::uint64_t used_bytes = 0;
  bool operator==(const Layer&) const = default;
};

}  // namespace moor::block
