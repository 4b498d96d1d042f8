#include "registry/apply/field_set.h"

#include <fmt/format.h>

#include <algorithm>

namespace moor::registry {
namespace {
constexpr int kMaxDepth = 64;  // as deep as our parser goes
}

std::string field_element(std::string_view name) {
  std::string element;
  element.reserve(name.size() + 2);
  return element.append("f:").append(name);
}

std::string value_element(const Json& value) {
  return "v:" + moor::to_text(value);
}

std::string key_element(const Json& item, const std::vector<std::string_view>& keys) {
  std::vector<std::string_view> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  Json object = Json::object();
  for (const std::string_view key : sorted) {
    if (const Json* value = item.find(key)) object.set(key, *value);
  }
  return "k:" + moor::to_text(object);
}

std::string to_text(const FieldPath& path) {
  std::string text;
  for (const std::string& element : path) {
    const std::string_view rest = std::string_view(element).substr(2);
    if (element[0] == 'f') {
      text += fmt::format(".{}", rest);
    } else if (element[0] == 'k') {
      const auto keys = parse_json(rest);
      std::string inner;
      for (std::size_t i = 0; keys && i < keys->size(); ++i)
        inner += fmt::format("{}{}={}", i == 0 ? "" : ",", keys->key_at(i), moor::to_text(keys->value_at(i)));
      text += fmt::format("[{}]", inner);
    } else {
      text += fmt::format("[={}]", rest);
    }
  }
  return text;
}

Result<FieldSet> FieldSet::from_json(const Json& fields) {
  return parse(fields, 0);
}

Result<FieldSet> FieldSet::parse(const Json& fields, int depth) {
  FieldSet set;
  if (!fields.is_object() || depth > kMaxDepth)
    return make_error(Errc::invalid, "fieldsV1 must be an object of fields");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string_view key = fields.key_at(i);
    if (key == ".") {
      set.member_ = true;
      continue;
    }
    const bool known =
        key.size() > 2 && key[1] == ':' && std::string_view("fkvi").find(key[0]) != std::string_view::npos;
    if (!known || ((key[0] == 'k' || key[0] == 'v') && !parse_json(key.substr(2))))
      return make_error(Errc::invalid,
                        fmt::format("fieldsV1 has an unknown element \"{}\"", key.substr(0, 128)));
    TRY(FieldSet child, parse(fields.value_at(i), depth + 1));
    if (fields.value_at(i).empty()) child.member_ = true;
    set.children_.emplace(key, std::move(child));
  }
  return set;
}

Json FieldSet::to_json() const {
  Json json = Json::object();
  if (member_ && !children_.empty()) json.set(".", Json::object());
  for (const auto& [element, child] : children_) json.set(element, child.to_json());
  return json;
}

void FieldSet::insert(const FieldPath& path) {
  FieldSet* here = this;
  for (const std::string& element : path) here = &here->children_[element];
  here->member_ = true;
}

const FieldSet* FieldSet::find(const FieldPath& path) const {
  const FieldSet* here = this;
  for (const std::string& element : path) {
    const auto child = here->children_.find(element);
    if (child == here->children_.end()) return nullptr;
    here = &child->second;
  }
  return here;
}

bool FieldSet::contains(const FieldPath& path) const {
  const FieldSet* found = find(path);
  return found != nullptr && found->member_;
}

bool FieldSet::touches(const FieldPath& path) const {
  const FieldSet* found = find(path);
  return found != nullptr && !found->empty();
}

void FieldSet::add(const FieldSet& other) {
  member_ = member_ || other.member_;
  for (const auto& [element, child] : other.children_) children_[element].add(child);
}

void FieldSet::drop_empty_children() {
  std::erase_if(children_, [](const auto& child) { return child.second.empty(); });
}

void FieldSet::remove(const FieldSet& other) {
  if (other.member_) member_ = false;
  for (const auto& [element, child] : other.children_) {
    if (const auto mine = children_.find(element); mine != children_.end()) mine->second.remove(child);
  }
  drop_empty_children();
}

void FieldSet::remove_below(const FieldSet& other) {
  if (other.member_) {
    member_ = false;
    children_.clear();
    return;
  }
  for (const auto& [element, child] : other.children_) {
    if (const auto mine = children_.find(element); mine != children_.end()) mine->second.remove_below(child);
  }
  drop_empty_children();
}

void FieldSet::remove_below(const FieldPath& path) {
  FieldSet other;
  other.insert(path);
  remove_below(other);
}

void FieldSet::keep_only(const std::string& element) {
  member_ = false;
  std::erase_if(children_, [&](const auto& child) { return child.first != element; });
}

FieldSet FieldSet::intersection(const FieldSet& other) const {
  FieldSet result;
  result.member_ = member_ && other.member_;
  for (const auto& [element, child] : children_) {
    const auto theirs = other.children_.find(element);
    if (theirs == other.children_.end()) continue;
    FieldSet both = child.intersection(theirs->second);
    if (!both.empty()) result.children_.emplace(element, std::move(both));
  }
  return result;
}

void FieldSet::visit(FieldPath& path, const std::function<void(const FieldPath&)>& visit_member) const {
  if (member_) visit_member(path);
  for (const auto& [element, child] : children_) {
    path.push_back(element);
    child.visit(path, visit_member);
    path.pop_back();
  }
}

void FieldSet::for_each(const std::function<void(const FieldPath&)>& visit_member) const {
  FieldPath path;
  visit(path, visit_member);
}

}  // namespace moor::registry
