#include "cli/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "registry/prepare.h"

namespace moor::cli {
namespace {

constexpr std::size_t kPage = 500;

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

Failure not_found(const registry::ResourceName& what, const std::vector<Json>& others) {
  Failure failure{ExitCode::not_found, fmt::format("there is no {} '{}'", what.kind->singular, what.name)};
  if (!what.space.empty()) failure.message += fmt::format(" in namespace {}", what.space);
  std::vector<std::string> names;
  for (const Json& other : others) names.push_back(registry::metadata_text(other, "name"));
  const std::string meant = closest(what.name, names);
  if (!meant.empty()) {
    failure.hint = fmt::format("did you mean '{}'?", meant);
  } else if (names.empty()) {
    failure.hint = fmt::format("there are no {} at all", what.kind->plural);
  }
  return failure;
}

}  // namespace

std::string closest(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const std::size_t far = distance(name, candidate);
    if (far < best_distance) {
      best_distance = far;
      best = candidate;
    }
  }
  return best;
}

registry::ListOptions of_volume(std::string_view volume) {
  registry::ListOptions options;
  if (volume.empty()) return options;
  // A name that is no label value selects nothing; asking for the volume itself says so first.
  auto labels = registry::LabelSelector::parse(fmt::format("{}={}", model::longhorn::kVolumeLabel, volume));
  if (labels) options.labels = std::move(*labels);
  return options;
}

Task<Outcome<std::vector<Json>>> list_objects(Context& context, registry::ResourceName what,
                                              registry::ListOptions options) {
  std::vector<Json> items;
  options.limit = kPage;
  do {
    CO_TRY(registry::Listed page, co_await context.registry.list(what, options));
    for (const auto& item : page.items) items.push_back(*item);
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  co_return items;
}

Task<Outcome<Json>> get_object(Context& context, registry::ResourceName what) {
  auto found = co_await context.registry.get(what, "");
  if (found) co_return std::move(*found);
  if (!found.is(Errc::not_found)) co_return found.error();
  registry::ResourceName all = what;
  all.name.clear();
  registry::ListOptions everything;
  auto others = co_await list_objects(context, all, everything);
  std::vector<Json> known;
  if (others) known = std::move(*others);
  co_return not_found(what, known);
}

Task<Outcome<std::optional<Json>>> find_object(Context& context, registry::ResourceName what) {
  auto found = co_await context.registry.get(what, "");
  if (found) co_return std::optional<Json>(std::move(*found));
  if (found.is(Errc::not_found)) co_return std::optional<Json>();
  co_return found.error();
}

std::optional<model::longhorn::Engine> choose_engine(std::vector<model::longhorn::Engine> engines) {
  const auto rank = [](const model::longhorn::Engine& engine) {
    return std::pair(!engine.metadata.deletion_timestamp.has_value(), engine.spec.active);
  };
  std::optional<model::longhorn::Engine> best;
  for (model::longhorn::Engine& engine : engines)
    if (!best || rank(engine) > rank(*best)) best = std::move(engine);
  return best;
}

Task<Outcome<std::optional<model::longhorn::Engine>>> engine_in_use(Context& context, std::string volume) {
  CO_TRY(auto pairs, co_await list_typed<model::longhorn::Engine>(context, of_volume(volume)));
  std::vector<model::longhorn::Engine> engines;
  for (auto& pair : pairs) engines.push_back(std::move(pair.object));
  co_return choose_engine(std::move(engines));
}

std::string age(const Context& context, const std::optional<model::Time>& since) {
  return since ? model::human_duration(context.now() - *since) : std::string();
}

}  // namespace moor::cli
