#include "store/etcd/layout.h"

#include <fmt/format.h>

#include <charconv>

#include "base/assert.h"

namespace moor::store::etcd {
namespace {
// Not text, so that an object written by hand is never taken for ours.
constexpr std::string_view kValueMagic = "\x8fmo\x01";  // the last byte is the format
constexpr std::string_view kTransactionMagic = "\x8fmt\x01";
constexpr std::string_view kMarkerText = "mooring-store ";

std::string printable(std::string_view key) {
  std::string text;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text;
}
}  // namespace

std::string range_end_of(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty()) {
    if (static_cast<unsigned char>(end.back()) < 0xff) {
      end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
      return end;
    }
    end.pop_back();
  }
  return std::string(1, '\0');
}

Result<Layout> Layout::make(std::string root) {
  if (root.empty() || root.size() > kMaxRootBytes)
    return make_error(Errc::invalid, fmt::format("the root of an etcd store has 1 to {} bytes, this one {}",
                                                 kMaxRootBytes, root.size()));
  TRY_VOID(validate_key(root));
  if (root.back() != '/') root += '/';
  return Layout(std::move(root));
}

bool Layout::is_data(std::string_view etcd_key) const {
  return etcd_key.size() > root_.size() + 2 && etcd_key.substr(0, root_.size()) == root_ &&
         etcd_key.substr(root_.size(), 2) == "d/";
}

Result<std::string> Layout::key_of(std::string_view etcd_key) const {
  if (!is_data(etcd_key)) return foreign_error(etcd_key);
  const std::string_view key = etcd_key.substr(root_.size() + 2);
  if (!validate_key(key)) return foreign_error(etcd_key);
  return std::string(key);
}

Error foreign_error(std::string_view etcd_key) {
  return make_error(Errc::corrupt,
                    fmt::format("etcd key '{}' was not written by this store", printable(etcd_key)));
}

// Eight bytes: magic and format (4), index (1), zero (3). The byte after the index makes every value of index
// i longer than the bound that ends with i.
std::string encode_value(std::uint32_t index, std::string_view bytes) {
  MOOR_ASSERT(index < kMaxWrites);
  std::string stored;
  stored.reserve(kHeaderBytes + bytes.size());
  stored += kValueMagic;
  stored += static_cast<char>(index);
  stored.append(3, '\0');
  stored += bytes;
  return stored;
}

IndexBounds index_bounds(std::uint32_t index) {
  IndexBounds bounds{std::string(kValueMagic), std::string(kValueMagic)};
  bounds.greater_than += static_cast<char>(index);
  // The successor of 255 is past every value of this format.
  if (index < kLastIndex)
    bounds.less_than += static_cast<char>(index + 1);
  else
    bounds.less_than.back() = static_cast<char>(bounds.less_than.back() + 1);
  return bounds;
}

Result<StoredValue> decode_value(std::string_view etcd_key, std::string_view stored) {
  if (stored.size() < kHeaderBytes || stored.substr(0, kValueMagic.size()) != kValueMagic)
    return foreign_error(etcd_key);
  const auto index = static_cast<unsigned char>(stored[kValueMagic.size()]);
  if (index >= kMaxWrites || stored.substr(kValueMagic.size() + 1, 3) != std::string_view("\0\0\0", 3))
    return make_error(Errc::corrupt, fmt::format("etcd key '{}' has a damaged header", printable(etcd_key)));
  return StoredValue{index, std::string(stored.substr(kHeaderBytes))};
}

std::string encode_transaction(std::size_t writes) {
  MOOR_ASSERT(writes >= 1 && writes <= kMaxWrites);
  return std::string(kTransactionMagic) + static_cast<char>(writes);
}

Result<std::uint32_t> decode_transaction(std::string_view etcd_key, std::string_view stored) {
  if (stored.size() != kTransactionMagic.size() + 1 ||
      stored.substr(0, kTransactionMagic.size()) != kTransactionMagic)
    return foreign_error(etcd_key);
  const auto writes = static_cast<unsigned char>(stored.back());
  if (writes < 1 || writes > kMaxWrites) return foreign_error(etcd_key);
  return writes;
}

std::string encode_marker() {
  return fmt::format("{}{}", kMarkerText, kFormat);
}

Result<void> check_marker(std::string_view etcd_key, std::string_view stored) {
  if (stored.substr(0, kMarkerText.size()) != kMarkerText) return foreign_error(etcd_key);
  const std::string_view number = stored.substr(kMarkerText.size());
  std::uint32_t format = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), format);
  if (error != std::errc() || end != number.data() + number.size() || format == 0)
    return foreign_error(etcd_key);
  if (format > kFormat)
    return make_error(
        Errc::unsupported,
        fmt::format("the store in etcd has format {}, this build knows up to {}: use a newer one", format,
                    kFormat));
  return {};
}

}  // namespace moor::store::etcd
