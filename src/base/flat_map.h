// FlatMap: a hash map whose entries lie in one array. Looking up reads two or three lines of memory where
// std::unordered_map follows a chain of nodes, which shows as soon as the map is larger than the processor's
// cache. Entries move when the map grows: references and iterators hold until the next insertion. The order
// of iteration is nobody's business.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace moor {

// Texts of every type in one map of texts, without making a string to look for.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A text that is kept elsewhere, with its hash: a map that grows does not read every text again.
class TextKey {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): it is the text
  TextKey(std::string_view text) : text_(text), hash_(TextHash()(text)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): likewise
  TextKey(const std::string& text) : TextKey(std::string_view(text)) {}
  bool operator==(const TextKey& other) const { return hash_ == other.hash_ && text_ == other.text_; }
  struct Hash {
    std::size_t operator()(const TextKey& key) const { return key.hash_; }
  };

 private:
  std::string_view text_;
  std::size_t hash_;
};

template <class Key, class Value, class Hash = std::hash<Key>, class Equal = std::equal_to<>>
using FlatMap = boost::unordered_flat_map<Key, Value, Hash, Equal>;

template <class Value>
using FlatTextMap = boost::unordered_flat_map<std::string, Value, TextHash, std::equal_to<>>;

}  // namespace moor
