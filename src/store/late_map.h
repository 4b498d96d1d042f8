// LateMap: a std::map that puts new keys in order late. To find the place of a key among a hundred thousand
// is a walk through memory that no processor cache holds; neighbours that make it one after the other share
// most of the way. So new keys gather in a small map, which stays in the cache, and join the large one
// together: when there are enough of them, or when somebody asks for the order.
//
// Iterators hold until their entry is erased, like those of a std::map. Finding a key is the caller's: who
// needs that often keeps a hash of the iterators.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/assert.h"

namespace moor::store {

template <class Value>
class LateMap {
 public:
  using Map = std::map<std::string, Value, std::less<>>;
  using value_type = typename Map::value_type;
  using iterator = typename Map::iterator;
  using const_iterator = typename Map::const_iterator;
  // So many join at once, while others wait: some half a millisecond (estimated) when all their places are
  // cold.
  static constexpr std::size_t kMostYoung = 256;

  // The key must be new.
  iterator add(std::string key, Value value) {
    const auto [place, is_new] = young_.try_emplace(std::move(key), std::move(value));
    MOOR_ASSERT(is_new, "'{}' is there already", place->first);
    if (young_.size() >= kMostYoung) settle();
    return place;
  }
  void erase(iterator place) {
    Map& home = is_young(place) ? young_ : settled_;
    home.erase(place);
  }
  void clear() {
    young_.clear();
    settled_.clear();
  }

  const Map& in_order() const {
    settle();
    return settled_;
  }
  // No entry's iterator.
  iterator end() { return settled_.end(); }
  const_iterator end() const { return settled_.end(); }
  std::size_t size() const { return settled_.size() + young_.size(); }
  bool empty() const { return size() == 0; }

 private:
  bool is_young(const_iterator place) const { return !young_.empty() && young_.find(place->first) == place; }
  void settle() const {
    settled_.merge(young_);
    MOOR_ASSERT(young_.empty(), "a key was added twice");
  }

  // What is in them is the same for everybody; where it is, is not.
  mutable Map settled_;
  mutable Map young_;
};

}  // namespace moor::store
