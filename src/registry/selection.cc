#include "registry/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "registry/keys.h"
#include "registry/projection.h"
#include "registry/refusal.h"

namespace moor::registry {

Answer<Selection> Selection::make(const ResourceName& what, LabelSelector labels, FieldSelector fields) {
  if (what.name.find('/') != std::string::npos || what.space.find('/') != std::string::npos)
    return refuse_bad_request("a name or namespace must not contain '/'");
  Selection selection;
  selection.kind_ = what.kind;
  std::string space = what.space;
  std::string name = what.name;
  for (const auto& requirement : fields.requirements()) {
    if (!what.kind->is_selectable(requirement.field))
      return refuse_bad_request(fmt::format("field label not supported: {}", requirement.field));
    if (!requirement.equal || requirement.value.empty()) continue;
    if (requirement.field == "metadata.name") {
      if (name.empty()) name = requirement.value;
    } else if (requirement.field == "metadata.namespace") {
      if (space.empty()) space = requirement.value;
    } else if (is_indexed(*what.kind, requirement.field)) {
      selection.terms_.push_back(field_term(requirement.field, requirement.value));
    }
  }
  for (const auto& requirement : labels.requirements()) {
    const bool one = requirement.op == LabelSelector::Operator::equal ||
                     (requirement.op == LabelSelector::Operator::in && requirement.values.size() == 1);
    if (one) selection.terms_.push_back(label_term(requirement.key, requirement.values.front()));
  }
  // A name alone is a key only where the namespace is known; a slash in either would lead elsewhere.
  const bool has_place = !what.kind->namespaced || !space.empty();
  const bool plain = name.find('/') == std::string::npos && space.find('/') == std::string::npos;
  if (!plain) {
    name.clear();
    space = what.space;
  }
  selection.place_ =
      has_place && !name.empty() ? key_of(*what.kind, space, name) : prefix_of(*what.kind, space);
  selection.labels_ = std::move(labels);
  selection.fields_ = std::move(fields);
  return selection;
}

bool Selection::matches(const Json& object) const {
  if (!labels_.empty() && !labels_.matches(object.find_path({"metadata", "labels"}))) return false;
  const auto& wanted = fields_.requirements();
  return std::all_of(wanted.begin(), wanted.end(), [&](const FieldSelector::Requirement& requirement) {
    return (kind_->field_value(object, requirement.field) == requirement.value) == requirement.equal;
  });
}

bool Selection::matches(const store::CachedObject& cached) const {
  if (!cached.readable) return false;
  const auto label = [&cached](std::string_view key) { return label_of(cached, key); };
  if (!labels_.empty() && !labels_.matches(label)) return false;
  const auto& wanted = fields_.requirements();
  const auto is = [&](const FieldSelector::Requirement& requirement) {
    const std::string& field = requirement.field;
    const KeyParts parts = split_key(cached.entry.key);
    if (field == "metadata.name") return parts.name == requirement.value;
    if (field == "metadata.namespace") return parts.space == requirement.value;
    // An empty value has no term.
    if (is_indexed(*kind_, field) && !requirement.value.empty())
      return cached.has(field_term(field, requirement.value));
    return kind_->field_value(*object_of(cached), field) == requirement.value;
  };
  return std::all_of(wanted.begin(), wanted.end(), [&](const FieldSelector::Requirement& requirement) {
    return is(requirement) == requirement.equal;
  });
}

}  // namespace moor::registry
