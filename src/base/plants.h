// The list of planted mistakes (base/plant.h), for whoever selects one or tries them all.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace moor::plant {

struct Plant {
  std::string_view name;
  std::string_view site;     // file and function
  std::string_view mistake;  // what is done wrong, in a sentence
  std::string_view caught;   // the rule that should notice
};

std::span<const Plant> all();
const Plant* find(std::string_view name);

// True in a build that has them.
bool is_planted_build();
// From now on that mistake is made; "" makes none. Not found: no such name; unsupported: this build has none.
Result<void> select(std::string_view name);
// How often the selected mistake has been made since it was selected.
std::uint64_t times_made();

}  // namespace moor::plant
