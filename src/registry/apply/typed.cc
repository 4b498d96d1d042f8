#include "registry/apply/typed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace moor::registry {
namespace {
using model::ListType;
using model::Schema;
using model::SchemaType;
using model::StructSchema;

enum class Shape { leaf, fields, keyed_list, value_set };

// How a value is owned. A null schema means that nothing is known about this place.
Shape shape_of(const Json& value, const Schema* schema) {
  if (value.is_object()) return schema != nullptr && schema->atomic ? Shape::leaf : Shape::fields;
  if (!value.is_array() || schema == nullptr || schema->type != SchemaType::list) return Shape::leaf;
  switch (schema->list_type) {
    case ListType::atomic: return Shape::leaf;
    case ListType::set: return Shape::value_set;
    case ListType::map: return Shape::keyed_list;
  }
  return Shape::leaf;
}

const Schema* member_schema(const Schema* schema, std::string_view key) {
  if (schema == nullptr) return nullptr;
  if (schema->type == SchemaType::object && schema->object != nullptr) {
    const auto* field = schema->object->find(key);
    return field == nullptr ? nullptr : &field->schema;
  }
  return schema->type == SchemaType::map ? schema->items.get() : nullptr;
}

Schema root_schema(const StructSchema& object) {
  Schema schema;
  schema.type = SchemaType::object;
  schema.object = &object;
  return schema;
}

std::string item_element(const Json& item, Shape shape, const Schema& schema) {
  return shape == Shape::keyed_list ? key_element(item, schema.list_keys) : value_element(item);
}

std::size_t find_item(const Json& list, const std::string& element, Shape shape, const Schema& schema) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (item_element(list.at(i), shape, schema) == element) return i;
  }
  return list.size();
}

void collect(const Json& value, const Schema* schema, FieldPath& path, FieldSet& set) {
  const Shape shape = shape_of(value, schema);
  if (shape == Shape::leaf || value.empty()) {
    set.insert(path);
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (shape == Shape::fields) {
      path.push_back(field_element(value.key_at(i)));
      collect(value.value_at(i), member_schema(schema, value.key_at(i)), path, set);
    } else {
      path.push_back(item_element(value.at(i), shape, *schema));
      set.insert(path);  // the item itself is owned, beside what it holds
      if (shape == Shape::keyed_list) collect(value.at(i), schema->items.get(), path, set);
    }
    path.pop_back();
  }
}

void diff(const Json* before, const Json* after, const Schema* schema, FieldPath& path, Differences& found);

void diff_fields(const Json& before, const Json& after, const Schema* schema, FieldPath& path,
                 Differences& found) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string_view key = before.key_at(i);
    const Json* now = after.find(key);
    if (now != nullptr && *now == before.value_at(i)) continue;  // most of an object, most of the time
    path.push_back(field_element(key));
    diff(&before.value_at(i), now, member_schema(schema, key), path, found);
    path.pop_back();
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string_view key = after.key_at(i);
    if (before.contains(key)) continue;
    path.push_back(field_element(key));
    diff(nullptr, &after.value_at(i), member_schema(schema, key), path, found);
    path.pop_back();
  }
}

void diff_items(const Json& before, const Json& after, Shape shape, const Schema& schema, FieldPath& path,
                Differences& found) {
  const auto walk = [&](const Json* old_item, const Json* new_item) {
    path.push_back(item_element(old_item != nullptr ? *old_item : *new_item, shape, schema));
    if (old_item == nullptr) found.added.insert(path);
    if (new_item == nullptr) found.removed.insert(path);
    if (shape == Shape::keyed_list) diff(old_item, new_item, schema.items.get(), path, found);
    path.pop_back();
  };
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t at = find_item(after, item_element(before.at(i), shape, schema), shape, schema);
    walk(&before.at(i), at < after.size() ? &after.at(at) : nullptr);
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::size_t at = find_item(before, item_element(after.at(i), shape, schema), shape, schema);
    if (at == before.size()) walk(nullptr, &after.at(i));
  }
}

void diff(const Json* before, const Json* after, const Schema* schema, FieldPath& path, Differences& found) {
  if (before == nullptr) return collect(*after, schema, path, found.added);
  if (after == nullptr) return collect(*before, schema, path, found.removed);
  const Shape shape = shape_of(*before, schema);
  if (shape == Shape::leaf || shape != shape_of(*after, schema)) {
    if (*before == *after) return;
    found.modified.insert(path);
    // A container that gives way to a plain value takes its places with it, and the other way round.
    if (shape != Shape::leaf) collect(*before, schema, path, found.removed);
    if (shape_of(*after, schema) != Shape::leaf) collect(*after, schema, path, found.added);
    return;
  }
  if (before->empty() != after->empty()) {
    (before->empty() ? found.removed : found.added).insert(path);  // "{}" is a place of its own
  }
  if (shape == Shape::fields) return diff_fields(*before, *after, schema, path, found);
  diff_items(*before, *after, shape, *schema, path, found);
}

// What the recorded forms say below one place: the writer's own, and those of the others.
class Recorded {
 public:
  static constexpr std::size_t kMost = 8;
  Recorded(const Json* own, std::span<const Json* const> others) : own_(own), count_(others.size()) {
    std::copy(others.begin(), others.end(), others_.begin());
  }
  Recorded below(std::string_view element) const {
    Recorded next(own_ == nullptr ? nullptr : own_->find(element), {});
    for (std::size_t i = 0; i < count_; ++i)
      if (const Json* found = others_[i]->find(element)) next.others_[next.count_++] = found;
    return next;
  }
  bool is_own_alone() const {
    const auto owns = [](const Json& fields) { return fields.empty() || fields.contains("."); };
    return own_ != nullptr && owns(*own_) &&
           std::none_of(others_.begin(), others_.begin() + count_,
                        [&](const Json* one) { return owns(*one); });
  }

 private:
  const Json* own_;
  std::size_t count_;
  std::array<const Json*, kMost> others_{};
};

// "f:" and the name, on the stack for names of usual length.
class FieldElement {
 public:
  explicit FieldElement(std::string_view name) {
    if (name.size() + 2 > short_.size()) {
      long_ = field_element(name);
      return;
    }
    short_[0] = 'f';
    short_[1] = ':';
    std::memcpy(short_.data() + 2, name.data(), name.size());
    size_ = name.size() + 2;
  }
  std::string_view text() const { return size_ == 0 ? long_ : std::string_view(short_.data(), size_); }

 private:
  std::array<char, 48> short_;
  std::size_t size_ = 0;
  std::string long_;
};

bool is_own_change(const Json& before, const Json& after, const Schema* schema, const Recorded& recorded);

bool is_own_change_of_items(const Json& before, const Json& after, const Schema& schema,
                            const Recorded& recorded) {
  if (before.size() != after.size()) return false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before.at(i) == after.at(i)) continue;
    const std::string element = key_element(before.at(i), schema.list_keys);
    if (element != key_element(after.at(i), schema.list_keys) ||
        !is_own_change(before.at(i), after.at(i), schema.items.get(), recorded.below(element)))
      return false;
  }
  return true;
}

bool is_own_change(const Json& before, const Json& after, const Schema* schema, const Recorded& recorded) {
  const Shape shape = shape_of(before, schema);
  if (shape != shape_of(after, schema)) return false;
  if (shape == Shape::leaf) return recorded.is_own_alone();
  if (shape == Shape::value_set || before.empty() || after.empty()) return false;
  if (shape == Shape::keyed_list) return is_own_change_of_items(before, after, *schema, recorded);
  if (before.size() != after.size()) return false;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string_view key = after.key_at(i);
    const Json* was = before.find(key);
    if (was == nullptr) return false;
    if (*was == after.value_at(i)) continue;
    const FieldElement element(key);
    if (!is_own_change(*was, after.value_at(i), member_schema(schema, key), recorded.below(element.text())))
      return false;
  }
  return true;
}

Json lay(Json under, const Json& over, const Schema* schema) {
  const Shape shape = shape_of(over, schema);
  if (shape == Shape::leaf || shape != shape_of(under, schema)) return over;
  for (std::size_t i = 0; i < over.size(); ++i) {
    if (shape == Shape::fields) {
      const std::string_view key = over.key_at(i);
      Json* old = under.find(key);
      under.set(key, old == nullptr ? over.value_at(i)
                                    : lay(std::move(*old), over.value_at(i), member_schema(schema, key)));
      continue;
    }
    const std::size_t at = find_item(under, item_element(over.at(i), shape, *schema), shape, *schema);
    if (at == under.size()) {
      under.push_back(over.at(i));
    } else if (shape == Shape::keyed_list) {
      under.at(at) = lay(std::move(under.at(at)), over.at(i), schema->items.get());
    }
  }
  return under;
}

// True when the value itself should go.
bool strip(Json& value, const Schema* schema, FieldPath& path, const FieldSet& unwanted) {
  if (unwanted.contains(path)) return true;
  const Shape shape = shape_of(value, schema);
  if (shape == Shape::leaf || value.empty() || !unwanted.touches(path)) return false;
  for (std::size_t i = value.size(); i-- > 0;) {
    bool gone = false;
    if (shape == Shape::fields) {
      const std::string key(value.key_at(i));
      path.push_back(field_element(key));
      gone = strip(value.value_at(i), member_schema(schema, key), path, unwanted);
      path.pop_back();
      if (gone) value.erase(key);
    } else {
      path.push_back(item_element(value.at(i), shape, *schema));
      gone = shape == Shape::keyed_list ? strip(value.at(i), schema->items.get(), path, unwanted)
                                        : unwanted.contains(path);
      path.pop_back();
      if (gone) value.erase(i);
    }
  }
  return value.empty();
}

Result<void> check(const Json& value, const Schema* schema, const FieldPath& path) {
  const Shape shape = shape_of(value, schema);
  if (shape == Shape::leaf) return {};
  std::set<std::string> seen;
  for (std::size_t i = 0; i < value.size(); ++i) {
    FieldPath inner = path;
    if (shape == Shape::fields) {
      inner.push_back(field_element(value.key_at(i)));
      TRY_VOID(check(value.value_at(i), member_schema(schema, value.key_at(i)), inner));
      continue;
    }
    if (shape == Shape::keyed_list && !value.at(i).is_object())
      return make_error(Errc::invalid, fmt::format("{}: items of this list must be objects", to_text(path)));
    const std::string element = item_element(value.at(i), shape, *schema);
    inner.push_back(element);
    if (!seen.insert(element).second)
      return make_error(Errc::invalid, fmt::format("{}: stands twice in its list", to_text(inner)));
    if (shape == Shape::keyed_list) TRY_VOID(check(value.at(i), schema->items.get(), inner));
  }
  return {};
}

}  // namespace

Result<void> check_lists(const Json& object, const StructSchema& schema) {
  const Schema root = root_schema(schema);
  return check(object, &root, {});
}

std::optional<Json> places_of(const Json& value, const Schema* schema) {
  Json places = Json::object();
  const Shape shape = shape_of(value, schema);
  if (shape == Shape::leaf || value.empty()) return places;
  std::vector<std::pair<std::string, Json>> found;
  found.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (shape == Shape::fields) {
      auto below = places_of(value.value_at(i), member_schema(schema, value.key_at(i)));
      if (!below) return std::nullopt;
      found.emplace_back(field_element(value.key_at(i)), std::move(*below));
      continue;
    }
    Json item = Json::object();  // the item itself is owned, beside what it holds
    if (shape == Shape::keyed_list) {
      auto below = places_of(value.at(i), schema->items.get());
      if (!below) return std::nullopt;
      if (!below->empty()) item.set(".", Json::object());
      for (std::size_t k = 0; k < below->size(); ++k)
        item.set(below->key_at(k), std::move(below->value_at(k)));
    }
    found.emplace_back(item_element(value.at(i), shape, *schema), std::move(item));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && found[i].first == found[i - 1].first) return std::nullopt;
    places.set(found[i].first, std::move(found[i].second));
  }
  return places;
}

FieldSet field_set_of(const Json& object, const StructSchema& schema) {
  const Schema root = root_schema(schema);
  FieldSet set;
  FieldPath path;
  collect(object, &root, path, set);
  return set;
}

Differences compare(const Json& before, const Json& after, const StructSchema& schema) {
  const Schema root = root_schema(schema);
  Differences found;
  FieldPath path;
  diff(&before, &after, &root, path, found);
  return found;
}

bool changes_own_values(const Json& before, const Json& after, const StructSchema& schema,
                        std::string_view part, const Json& own, std::span<const Json* const> others) {
  const Json* was = before.find(part);
  const Json* is = after.find(part);
  if (others.size() > Recorded::kMost || was == nullptr || is == nullptr || *was == *is) return false;
  const Schema root = root_schema(schema);
  const FieldElement element(part);
  return is_own_change(*was, *is, member_schema(&root, part), Recorded(&own, others).below(element.text()));
}

Json lay_over(Json under, const Json& over, const StructSchema& schema) {
  const Schema root = root_schema(schema);
  return lay(std::move(under), over, &root);
}

Json without(Json object, const FieldSet& unwanted, const StructSchema& schema) {
  const Schema root = root_schema(schema);
  FieldPath path;
  strip(object, &root, path, unwanted);
  return object;
}

}  // namespace moor::registry
