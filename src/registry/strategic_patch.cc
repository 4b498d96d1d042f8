// Strategic merge patch: a merge patch that knows which lists merge, and by which key.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "registry/patch.h"

namespace moor::registry {
namespace {
using model::Schema;
using model::SchemaType;

constexpr std::string_view kPatch = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kDeletePrefix = "$deleteFromPrimitiveList/";
constexpr std::string_view kOrderPrefix = "$setElementOrder/";

Error refused(std::string_view text) {
  return make_error(Errc::invalid, fmt::format("the strategic merge patch cannot be applied: {}", text));
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The schema of a member: a struct's field, a map's values, or nothing known.
const Schema* member_schema(const Schema* schema, std::string_view key) {
  if (schema == nullptr) return nullptr;
  if (schema->type == SchemaType::object && schema->object != nullptr) {
    const auto* field = schema->object->find(key);
    return field == nullptr ? nullptr : &field->schema;
  }
  if (schema->type == SchemaType::map) return schema->items.get();
  return nullptr;
}

Result<Json> merge_value(Json document, const Json& patch, const Schema* schema);

std::size_t find_by_key(const Json& list, std::string_view key, const Json& wanted) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json* have = list.at(i).find(key);
    if (have != nullptr && *have == wanted) return i;
  }
  return list.size();
}

Result<Json> merge_keyed_list(Json document, const Json& patch, const Schema& schema) {
  // An item that is only {"$patch": "replace"} means: what else stands here is the whole list.
  bool replace = false;
  for (std::size_t i = 0; i < patch.size(); ++i)
    replace = replace || (patch.at(i).size() == 1 && patch.at(i).get_string(kPatch) == "replace");
  if (!document.is_array() || replace) document = Json::array();
  for (std::size_t i = 0; i < patch.size(); ++i) {
    const Json& item = patch.at(i);
    if (replace && item.size() == 1 && item.contains(kPatch)) continue;
    if (!item.is_object())
      return refused(fmt::format("items of a list merged by {} must be objects", schema.patch_key));
    const Json* wanted = item.find(schema.patch_key);
    if (wanted == nullptr) return refused(fmt::format("an item has no merge key \"{}\"", schema.patch_key));
    const std::size_t at = find_by_key(document, schema.patch_key, *wanted);
    if (item.get_string(kPatch) == "delete") {
      if (at < document.size()) document.erase(at);
      continue;
    }
    TRY(Json merged,
        merge_value(at < document.size() ? document.at(at) : Json::object(), item, schema.items.get()));
    if (at < document.size()) {
      document.at(at) = std::move(merged);
    } else {
      document.push_back(std::move(merged));
    }
  }
  return document;
}

Json merge_scalar_set(Json document, const Json& patch) {
  if (!document.is_array()) document = Json::array();
  for (std::size_t i = 0; i < patch.size(); ++i) {
    bool known = false;
    for (std::size_t k = 0; k < document.size(); ++k) known = known || document.at(k) == patch.at(i);
    if (!known) document.push_back(patch.at(i));
  }
  return document;
}

void delete_scalars(Json* list, const Json& unwanted) {
  if (list == nullptr || !list->is_array()) return;
  for (std::size_t i = list->size(); i-- > 0;) {
    for (std::size_t k = 0; k < unwanted.size(); ++k) {
      if (list->at(i) == unwanted.at(k)) {
        list->erase(i);
        break;
      }
    }
  }
}

// Items named in the order come in that order; others keep their place behind the item they followed.
void order_items(Json* list, const Json& order, const Schema* schema) {
  if (list == nullptr || !list->is_array() || !order.is_array() || schema == nullptr) return;
  const auto rank = [&](const Json& item) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool same = schema->patch_key.empty()
                            ? item == order.at(i)
                            : item.find(schema->patch_key) != nullptr &&
                                  order.at(i).find(schema->patch_key) != nullptr &&
                                  *item.find(schema->patch_key) == *order.at(i).find(schema->patch_key);
      if (same) return static_cast<std::int64_t>(i);
    }
    return std::int64_t{-1};
  };
  std::vector<std::pair<std::int64_t, Json>> ranked;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::int64_t own = rank(list->at(i));
    last = own >= 0 ? own : last;
    ranked.emplace_back(last, std::move(list->at(i)));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  *list = Json::array();
  for (auto& [position, item] : ranked) list->push_back(std::move(item));
}

void retain_keys(Json& document, const Json& kept) {
  for (std::size_t i = document.size(); i-- > 0;) {
    const std::string key(document.key_at(i));
    bool keep = false;
    for (std::size_t k = 0; k < kept.size(); ++k)
      keep = keep || (kept.at(k).is_string() && kept.at(k).as_string() == key);
    if (!keep) document.erase(key);
  }
}

Result<Json> merge_object(Json document, const Json& patch, const Schema* schema) {
  if (const auto directive = patch.get_string(kPatch)) {
    if (*directive == "delete") return Json::object();
    if (*directive == "replace") document = Json::object();
    if (*directive != "replace" && *directive != "merge")
      return refused(fmt::format("unknown directive $patch: {}", *directive));
  }
  if (!document.is_object()) document = Json::object();
  if (const Json* kept = patch.find(kRetainKeys)) retain_keys(document, *kept);
  for (std::size_t i = 0; i < patch.size(); ++i) {
    const std::string_view key = patch.key_at(i);
    const Json& value = patch.value_at(i);
    if (key == kPatch || key == kRetainKeys || starts_with(key, kOrderPrefix)) continue;
    if (starts_with(key, kDeletePrefix)) {
      delete_scalars(document.find(key.substr(kDeletePrefix.size())), value);
    } else if (value.is_null() || value.get_string(kPatch) == "delete") {
      document.erase(key);
    } else {
      Json* old = document.find(key);
      TRY(Json merged, merge_value(old == nullptr ? Json() : *old, value, member_schema(schema, key)));
      document.set(key, std::move(merged));
    }
  }
  for (std::size_t i = 0; i < patch.size(); ++i) {
    if (!starts_with(patch.key_at(i), kOrderPrefix)) continue;
    const std::string_view field = patch.key_at(i).substr(kOrderPrefix.size());
    order_items(document.find(field), patch.value_at(i), member_schema(schema, field));
  }
  return document;
}

Result<Json> merge_value(Json document, const Json& patch, const Schema* schema) {
  if (patch.is_object()) return merge_object(std::move(document), patch, schema);
  if (patch.is_array() && schema != nullptr && schema->type == SchemaType::list && schema->patch_merge) {
    if (!schema->patch_key.empty()) return merge_keyed_list(std::move(document), patch, *schema);
    return merge_scalar_set(std::move(document), patch);
  }
  return patch;
}

}  // namespace

Result<Json> strategic_merge_patch(Json document, const Json& patch, const model::StructSchema& schema) {
  if (!patch.is_object()) return refused("it must be an object");
  Schema root;
  root.type = SchemaType::object;
  root.object = &schema;
  return merge_object(std::move(document), patch, &root);
}

}  // namespace moor::registry
