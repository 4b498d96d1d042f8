#include "model/schema.h"

#include <fmt/format.h>

namespace moor::model {

const FieldSchema* StructSchema::find(std::string_view field) const {
  const auto found = index.find(field);
  return found == index.end() ? nullptr : &fields[found->second];
}

std::string StructSchema::component() const {
  return fmt::format("{}.{}", package, name);
}

const FieldSchema* find_field(const StructSchema& schema, std::initializer_list<std::string_view> path) {
  const StructSchema* at = &schema;
  const FieldSchema* field = nullptr;
  for (const std::string_view part : path) {
    if (at == nullptr) return nullptr;
    field = at->find(part);
    if (field == nullptr) return nullptr;
    at = field->schema.object;
  }
  return field;
}

}  // namespace moor::model
