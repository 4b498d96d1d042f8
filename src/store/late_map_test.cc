#include "store/late_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace moor::store {
namespace {

using Map = LateMap<int>;

std::map<std::string, int> content(const Map& map) {
  std::map<std::string, int> all;
  for (const auto& [key, value] : map.in_order()) all.emplace(key, value);
  return all;
}

TEST(LateMap, HasWhatAMapHasInItsOrderWheneverSomebodyAsks) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Map map;
    std::map<std::string, int> model;
    std::map<std::string, Map::iterator> places;
    for (int step = 0; step < 3000; ++step) {
      const std::string key = "key-" + std::to_string(random() % 1500);
      if (const auto there = places.find(key); there == places.end()) {
        places.emplace(key, map.add(key, step));
        model.emplace(key, step);
      } else if (random() % 2 == 0) {
        map.erase(there->second);
        places.erase(there);
        model.erase(key);
      }
      ASSERT_EQ(map.size(), model.size());
      if (random() % 400 == 0) {
        ASSERT_EQ(content(map), model);
      }
    }
    ASSERT_EQ(content(map), model);
    for (const auto& [key, place] : places) {
      ASSERT_NE(place, map.end());
      ASSERT_EQ(place->first, key);
      ASSERT_EQ(place->second, model.at(key));
    }
    for (const auto& [key, place] : places) map.erase(place);
    ASSERT_TRUE(map.empty());
  }
}

TEST(LateMap, PlacesHoldWhileOthersComeAndTheOrderIsMade) {
  Map map;
  std::vector<Map::iterator> places;
  std::vector<const Map::value_type*> entries;
  for (int i = 0; i < 3 * static_cast<int>(Map::kMostYoung) + 7; ++i) {
    places.push_back(map.add("key-" + std::to_string(i * 7919 % 10'000), i));
    entries.push_back(&*places.back());
  }
  map.in_order();
  for (std::size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(&*places[i], entries[i]);
    ASSERT_EQ(&*map.in_order().find(places[i]->first), entries[i]);
    ASSERT_EQ(entries[i]->second, static_cast<int>(i));
  }
}

TEST(LateMap, WhatIsYoungCanBeErasedAndComeBack) {
  Map map;
  map.erase(map.add("a", 1));
  EXPECT_TRUE(map.empty());
  const auto again = map.add("a", 2);
  const auto old = map.add("b", 3);
  map.in_order();
  const auto young = map.add("c", 4);
  map.erase(old);
  map.erase(young);
  EXPECT_EQ(content(map), (std::map<std::string, int>{{"a", 2}}));
  map.erase(again);
  EXPECT_TRUE(map.in_order().empty());
}

TEST(LateMapDeathTest, AKeyThatIsThereIsNotAddedAgain) {
  Map map;
  map.add("a", 1);
  EXPECT_DEATH(map.add("a", 2), "there already");
  map.in_order();
  EXPECT_DEATH(
      {
        map.add("a", 2);
        map.in_order();
      },
      "added twice");
}

}  // namespace
}  // namespace moor::store
