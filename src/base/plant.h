// Planted mistakes: MOOR_PLANT("name") stands in product code where a person could make that mistake. In
// every normal build it is the constant false: no cost, no symbol. In a build with MOOR_PLANTS (preset
// `plants`) it is true once that name has been selected for the process, so that the simulator's checkers can
// be tried: whoever plants a mistake must be told of it. All of them are listed in base/plants.def;
// tools/mutants tries each.
//
// One thread selects, before the code under test runs.
#pragma once

#ifdef MOOR_PLANTS

#include <cstdint>
#include <string_view>

namespace moor::plant {

// A name as a number, so that asking costs one comparison (FNV-1a; the tests see to it that no two are
// equal).
constexpr std::uint64_t number_of(std::string_view name) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return hash;
}

inline std::uint64_t selected = 0;  // 0: none
inline std::uint64_t reached = 0;   // how often the selected mistake was made

inline bool is_on(std::uint64_t number) {
  if (number != selected) return false;
  ++reached;
  return true;
}

}  // namespace moor::plant

#define MOOR_PLANT(name)                                                   \
  ([]() {                                                                  \
    constexpr std::uint64_t plant_number = ::moor::plant::number_of(name); \
    return ::moor::plant::is_on(plant_number);                             \
  }())

#else
#define MOOR_PLANT(name) false
#endif
