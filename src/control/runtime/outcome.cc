#include "control/runtime/outcome.h"

#include "registry/prepare.h"

namespace moor::control {

std::optional<Outcome> Outcome::of(const Plan& plan, const Source& stored) {
  Outcome outcome(stored);
  for (const registry::Mutation& write : plan.writes) {
    const bool status = write.what.subresource == "status";
    if (write.type != registry::Mutation::Type::update || (!status && !write.spec_only)) return std::nullopt;
    JsonPtr before = outcome.find(*write.what.kind, write.what.space, write.what.name);
    if (before == nullptr) return std::nullopt;
    const std::string_view part = status ? "status" : "spec";
    const Json* value = write.object.find(part);
    Json after = *before;
    if (value != nullptr) after.set(part, *value);
    if (!status) registry::count_generation(*write.what.kind, *before, after);
    outcome.changes_.push_back({write.what.kind, write.what.space, write.what.name, std::move(before),
                                std::make_shared<const Json>(std::move(after))});
  }
  return outcome;
}

JsonPtr Outcome::find(const model::KindInfo& kind, std::string_view space, std::string_view name) const {
  // The last change of an object is its newest.
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    if (change->kind == &kind && change->name == name && change->space == space) return change->after;
  return stored_.find(kind, space, name);
}

const JsonPtr& Outcome::newest(const model::KindInfo& kind, const JsonPtr& object) const {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    if (change->kind == &kind && change->name == registry::metadata_text(*object, "name") &&
        change->space == registry::metadata_text(*object, "namespace"))
      return change->after;
  return object;
}

void Outcome::for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const {
  stored_.for_each(kind, space, [&](const JsonPtr& object) { visit(newest(kind, object)); });
}

void Outcome::of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                        const Visit& visit) const {
  stored_.of_volume(kind, space, volume, [&](const JsonPtr& object) { visit(newest(kind, object)); });
}

void Outcome::by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                       const Visit& visit) const {
  stored_.by_field(kind, field, value, [&](const JsonPtr& object) { visit(newest(kind, object)); });
}

}  // namespace moor::control
