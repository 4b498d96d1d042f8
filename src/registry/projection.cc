#include "registry/projection.h"

#include <fmt/format.h>

#include "base/log.h"
#include "registry/keys.h"

namespace moor::registry {
namespace {

void add_label_terms(const Json& metadata, std::vector<store::Term>& terms) {
  const Json* labels = metadata.find("labels");
  for (std::size_t i = 0; labels != nullptr && labels->is_object() && i < labels->size(); ++i) {
    if (labels->value_at(i).is_string())
      terms.push_back(label_term(labels->key_at(i), labels->value_at(i).as_string()));
  }
}

void add_owner_terms(const Json& metadata, std::vector<store::Term>& terms) {
  const Json* owners = metadata.find("ownerReferences");
  for (std::size_t i = 0; owners != nullptr && owners->is_array() && i < owners->size(); ++i) {
    if (const auto uid = owners->at(i).get_string("uid")) terms.push_back(owner_term(*uid));
  }
}

}  // namespace

store::Term label_term(std::string_view key, std::string_view value) {
  return {kLabelTerm, fmt::format("{}={}", key, value)};
}

store::Term owner_term(std::string_view uid) {
  return {kOwnerTerm, std::string(uid)};
}

store::Term field_term(std::string_view field, std::string_view value) {
  return {kFieldTerm, fmt::format("{}={}", field, value)};
}

bool is_indexed(const model::KindInfo& kind, std::string_view field) {
  if (kind.group.empty() && kind.kind == "Event")
    return field == "involvedObject.uid" || field == "involvedObject.name";
  return field != "metadata.name" && field != "metadata.namespace";  // the key has them
}

Result<Json> decode_stored(std::string_view bytes, store::Revision revision) {
  TRY(Json object, parse_json(bytes));
  Json* metadata = object.find("metadata");
  if (metadata == nullptr || !metadata->is_object())
    return make_error(Errc::corrupt, "a stored object has no metadata");
  metadata->set("resourceVersion", std::to_string(revision));
  return object;
}

std::string encode_stored(Json& object) {
  if (Json* metadata = object.find("metadata")) metadata->erase("resourceVersion");
  return to_text(object);
}

void project(store::CachedObject& cached) {
  const model::KindInfo* kind = split_key(cached.entry.key).kind;
  if (kind == nullptr) return;
  auto decoded = decode_stored(*cached.entry.value, cached.entry.revision);
  if (!decoded) {
    log_error("a stored object cannot be read", {{"key", cached.entry.key}, {"reason", decoded.error()}});
    return;
  }
  auto object = std::make_shared<const Json>(std::move(*decoded));
  const Json& metadata = *object->find("metadata");
  add_label_terms(metadata, cached.terms);
  add_owner_terms(metadata, cached.terms);
  for (const std::string_view field : kind->selectable_fields) {
    if (!is_indexed(*kind, field)) continue;
    const std::string value = kind->field_value(*object, field);
    if (!value.empty()) cached.terms.push_back(field_term(field, value));
  }
  cached.decoded = std::move(object);
}

JsonPtr object_of(const store::CachedObject& object) {
  return std::static_pointer_cast<const Json>(object.decoded);
}

}  // namespace moor::registry
