// Checksums of what the embedded store keeps (XXH3, 64 bits). They find damage, not malice.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/journal.h"

namespace moor::store::embedded {

// Everything a row says, its position included: a row in the wrong place is damage too.
struct EntryView {
  Revision revision = 0;
  Revision transaction = 0;
  LeaseId lease = 0;
  std::string_view key;
  bool removal = false;
  std::string_view value;
};
std::uint64_t checksum(const EntryView& entry);
std::uint64_t checksum(LeaseId lease, std::uint64_t time_to_live_ns);

// The state of the whole store beside its rows. `digest` is the sum of all row checksums, so it can be kept
// up to date row by row in any order, and missing, extra or altered rows are found without storing anything
// twice.
struct Meta {
  Revision revision = 0;
  Revision compacted = 0;
  std::uint64_t entries = 0;
  std::uint64_t leases = 0;
  std::uint64_t digest = 0;
  bool operator==(const Meta&) const = default;
};
std::uint64_t checksum(const Meta& meta);

// Of a byte stream, for exports.
class StreamChecksum {
 public:
  StreamChecksum();
  ~StreamChecksum();
  StreamChecksum(const StreamChecksum&) = delete;
  StreamChecksum& operator=(const StreamChecksum&) = delete;
  void add(std::string_view bytes);
  std::uint64_t value() const;

 private:
  void* state_;
};

}  // namespace moor::store::embedded
