// Identities. A strong Id keeps a volume's name from being passed where a node's is meant.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.h"

namespace moor {

template <class Tag>
class Id {
 public:
  Id() = default;
  explicit Id(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  auto operator<=>(const Id&) const = default;

 private:
  std::string text_;
};

// A version 4 UUID, lower case: 6f9619ff-8b86-4011-b42d-00c04fc964ff
std::string make_uuid(Random& random);
bool is_uuid(std::string_view text);
// `length` letters and digits without vowels, as generateName appends: no words by accident.
std::string make_suffix(Random& random, std::size_t length = 5);

}  // namespace moor

template <class Tag>
struct std::hash<moor::Id<Tag>> {
  std::size_t operator()(const moor::Id<Tag>& id) const { return std::hash<std::string>()(id.text()); }
};
