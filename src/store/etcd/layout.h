// How the store lies in etcd (README.md has the picture). Below one root:
//
//   <root>f          the format marker: "mooring-store 1"
//   <root>t          the last transaction: how many writes it had; rewritten by every transaction
//   <root>d/<key>    an object: 8 bytes of header (magic, format, index of the write), then its bytes
//
// A revision of ours is etcd's revision × 256 + the index of the write in its transaction. Plain data, no
// I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace moor::store::etcd {

using EtcdRevision = std::int64_t;

inline constexpr std::uint32_t kFormat = 1;
inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kMaxRootBytes = 128;  // part of every key, so part of etcd's request limit
// Stands for "all of this etcd revision" where the number of its writes is not known: removals that etcd made
// itself when a lease ended, or a revision that belongs to another user of the same etcd.
inline constexpr std::uint32_t kLastIndex = 255;

inline Revision make_revision(EtcdRevision revision, std::uint32_t index) {
  return static_cast<Revision>(revision) * 256 + index;
}
inline EtcdRevision etcd_revision(Revision revision) {
  return static_cast<EtcdRevision>(revision / 256);
}
inline std::uint32_t index_of(Revision revision) {
  return static_cast<std::uint32_t>(revision % 256);
}

// The end of the range of all keys that start with `prefix`, as etcd wants it ("\0": no end).
std::string range_end_of(std::string_view prefix);

class Layout {
 public:
  // Errc::invalid: empty, too long or with control characters. A '/' is added at the end if there is none, so
  // that "/moor" and "/mooring" never share keys.
  static Result<Layout> make(std::string root);

  const std::string& root() const { return root_; }
  std::string marker() const { return root_ + "f"; }
  std::string last_transaction() const { return root_ + "t"; }
  std::string data(std::string_view key) const { return root_ + "d/" + std::string(key); }
  bool is_data(std::string_view etcd_key) const;
  // The key of an object. Errc::corrupt: not a key that this store writes.
  Result<std::string> key_of(std::string_view etcd_key) const;

 private:
  explicit Layout(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

// The stored form of a value. Its first bytes order by index, so that etcd itself can compare the index.
std::string encode_value(std::uint32_t index, std::string_view bytes);
// value > after(index - 1)… holds exactly for the values of that index: see index_bounds().
struct IndexBounds {
  std::string greater_than;
  std::string less_than;
};
IndexBounds index_bounds(std::uint32_t index);

struct StoredValue {
  std::uint32_t index = 0;
  std::string bytes;
};
// Errc::corrupt, naming the key, when this store did not write it.
Result<StoredValue> decode_value(std::string_view etcd_key, std::string_view stored);

std::string encode_transaction(std::size_t writes);
Result<std::uint32_t> decode_transaction(std::string_view etcd_key, std::string_view stored);

std::string encode_marker();
// Errc::unsupported for a newer format, Errc::corrupt for anything that is no marker.
Result<void> check_marker(std::string_view etcd_key, std::string_view stored);

Error foreign_error(std::string_view etcd_key);

}  // namespace moor::store::etcd
