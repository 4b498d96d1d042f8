// FieldSet: a set of places in an object, as managedFields record who owns what. A place is a path of
// elements in Kubernetes' own spelling: "f:spec" (a field), k:{"name":"a"} (an item of a list by its keys),
// v:"x" (an item of a set). Plain value, ordered, so that equal sets print equally.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace moor::registry {

using FieldPath = std::vector<std::string>;

std::string field_element(std::string_view name);
std::string value_element(const Json& value);
// The keys in alphabetic order, as Kubernetes writes them.
std::string key_element(const Json& item, const std::vector<std::string_view>& keys);
// .spec.disks[name="a"].path, for messages
std::string to_text(const FieldPath& path);

class FieldSet {
 public:
  // From and to the fieldsV1 form. Errc::invalid for what is none.
  static Result<FieldSet> from_json(const Json& fields);
  Json to_json() const;

  bool empty() const { return !member_ && children_.empty(); }
  void insert(const FieldPath& path);
  bool contains(const FieldPath& path) const;
  // The path itself or anything below it.
  bool touches(const FieldPath& path) const;
  void add(const FieldSet& other);
  void remove(const FieldSet& other);
  // Removes these places and all below them.
  void remove_below(const FieldSet& other);
  void remove_below(const FieldPath& path);
  // What lies below this element of the first level; nothing else.
  void keep_only(const std::string& element);
  FieldSet intersection(const FieldSet& other) const;
  void for_each(const std::function<void(const FieldPath&)>& visit) const;
  bool operator==(const FieldSet&) const = default;

 private:
  void visit(FieldPath& path, const std::function<void(const FieldPath&)>& visit_member) const;
  void drop_empty_children();
  const FieldSet* find(const FieldPath& path) const;
  static Result<FieldSet> parse(const Json& fields, int depth);

  bool member_ = false;
  std::map<std::string, FieldSet> children_;
};

}  // namespace moor::registry
