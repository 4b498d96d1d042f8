#include "control/runtime/source.h"

#include "model/longhorn/group.h"
#include "registry/keys.h"
#include "registry/prepare.h"

namespace moor::control {

using registry::key_of;
using registry::prefix_of;

JsonPtr RegistrySource::find(const model::KindInfo& kind, std::string_view space,
                             std::string_view name) const {
  return registry_.find(kind, space, name);
}

void RegistrySource::for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const {
  registry_.for_each(kind, space, [&](const JsonPtr& object) {
    visit(object);
    return true;
  });
}

void RegistrySource::of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                               const Visit& visit) const {
  const store::Term term = registry::label_term(model::longhorn::kVolumeLabel, volume);
  registry_.cache().for_each(prefix_of(kind, space), term, [&](const store::ObjectPtr& cached) {
    if (const JsonPtr object = registry::object_of(*cached)) visit(object);
    return true;
  });
}

void RegistrySource::by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                              const Visit& visit) const {
  registry_.cache().for_each(prefix_of(kind, ""), registry::field_term(field, value),
                             [&](const store::ObjectPtr& cached) {
                               if (const JsonPtr object = registry::object_of(*cached)) visit(object);
                               return true;
                             });
}

void Shelf::put(const model::KindInfo& kind, Json object) {
  object["metadata"].set("resourceVersion", std::to_string(++version_));
  const std::string key =
      key_of(kind, registry::metadata_text(object, "namespace"), registry::metadata_text(object, "name"));
  objects_[key] = std::make_shared<const Json>(std::move(object));
}

void Shelf::remove(const model::KindInfo& kind, std::string_view space, std::string_view name) {
  objects_.erase(key_of(kind, space, name));
}

JsonPtr Shelf::find(const model::KindInfo& kind, std::string_view space, std::string_view name) const {
  const auto found = objects_.find(key_of(kind, space, name));
  return found == objects_.end() ? nullptr : found->second;
}

void Shelf::for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const {
  const std::string prefix = prefix_of(kind, space);
  for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix); ++at)
    visit(at->second);
}

void Shelf::of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                      const Visit& visit) const {
  for_each(kind, space, [&](const JsonPtr& object) {
    const Json* labels = object->find_path({"metadata", "labels"});
    if (labels != nullptr && labels->get_string(model::longhorn::kVolumeLabel) == volume) visit(object);
  });
}

void Shelf::by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                     const Visit& visit) const {
  for_each(kind, "", [&](const JsonPtr& object) {
    if (kind.field_value(*object, field) == value) visit(object);
  });
}

}  // namespace moor::control
