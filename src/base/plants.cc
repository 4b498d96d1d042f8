#include "base/plants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/plant.h"

namespace moor::plant {
namespace {

constexpr Plant kPlants[] = {
#define PLANT(name, site, mistake, caught) {name, site, mistake, caught},
#include "base/plants.def"
#undef PLANT
};

}  // namespace

std::span<const Plant> all() {
  return kPlants;
}

const Plant* find(std::string_view name) {
  const auto found = std::ranges::find(kPlants, name, &Plant::name);
  return found == std::end(kPlants) ? nullptr : found;
}

bool is_planted_build() {
#ifdef MOOR_PLANTS
  return true;
#else
  return false;
#endif
}

Result<void> select(std::string_view name) {
  if (!name.empty() && find(name) == nullptr)
    return make_error(Errc::not_found, fmt::format("no planted mistake is called {}", name));
#ifdef MOOR_PLANTS
  selected = name.empty() ? 0 : number_of(name);
  reached = 0;
  return {};
#else
  if (name.empty()) return {};
  return make_error(Errc::unsupported, "this build has no planted mistakes: build with the preset plants");
#endif
}

std::uint64_t times_made() {
#ifdef MOOR_PLANTS
  return reached;
#else
  return 0;
#endif
}

}  // namespace moor::plant
