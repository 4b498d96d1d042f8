// A kind as the registry and the doors see it: everything they need to serve dynamic Json objects of it. The
// typed struct of the same kind (longhorn/volume.h) is what controllers use.
//
// KindInfo objects are built at first use, never change and live for ever; all functions are pure and may be
// called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cause.h"
#include "model/schema.h"
#include "model/time.h"

namespace moor::model {

// Computes a cell that no path can express ("1/2 satisfied"). Null prints as nothing.
using CellFunction = Json (*)(const Json& object, Time now);

struct Column {
  std::string_view name = {};
  std::string_view type = "string";  // string, integer, number, boolean, date
  std::string_view path = {};        // JSONPath without braces: .status.state
  std::string_view description = {};
  int priority = 0;             // 0 always, 1 only with -o wide
  CellFunction cell = nullptr;  // instead of the path; a column with only a cell is left out of CRD manifests
};

enum class NameRule { subdomain, label };

struct KindInfo {
  std::string_view group = {};  // empty: the core group
  std::string_view version = {};
  std::string_view kind = {};
  std::string_view plural = {};
  std::string_view singular = {};
  std::vector<std::string_view> short_names = {};
  std::vector<std::string_view> categories = {};
  bool namespaced = true;
  bool has_status = true;  // a status subresource, isolated from the rest both ways
  bool custom = false;     // a real cluster gets it as a CustomResourceDefinition
  NameRule name_rule = NameRule::subdomain;
  std::vector<Column> columns = {};                 // after Name
  bool name_column = true;                          // Event puts its name last
  CellFunction name_cell = nullptr;                 // StorageClass marks the default one beside its name
  std::vector<std::string_view> subresources = {};  // besides status
  // Paths that a field selector may name, besides metadata.name and metadata.namespace.
  std::vector<std::string_view> selectable_fields = {};
  // Strategic merge patch is served only for kinds whose Go types Kubernetes ships.
  bool strategic_patch = false;

  // The kind's own rules, beside what the schema says; they see objects that fit the schema.
  Causes (*check)(const Json& object) = nullptr;
  Causes (*check_update)(const Json& before, const Json& after) = nullptr;
  // Whether these rules say anything about a write that leaves all but the status as it was.
  bool rules_concern_status = true;
  void (*fill)(Json& object) = nullptr;  // defaults that depend on other fields

  const StructSchema* schema = nullptr;

  std::string api_version() const;  // longhorn.io/v1beta2, v1
  std::string list_kind() const;
  // volumes.longhorn.io: the group-resource of error messages and CRD names
  std::string qualified_resource() const;

  // Every cause the object is refused for; empty: it is fine. metadata.name must be set already (generateName
  // is resolved before); namespace rules belong to the registry.
  // `before`: what it was made from, which was found fine when it was stored. Parts that are still shared
  // with it are not checked again.
  Causes validate(const Json& object, const Json* before = nullptr) const;
  // In addition to validate(after): what may not change.
  Causes validate_update(const Json& before, const Json& after) const;
  // Fills in defaults and turns accepted spellings into the stored ones (numbers for sizes into strings).
  // `before`: what it was made from; parts that are still shared with it have all of that already.
  void set_defaults(Json& object, const Json* before = nullptr) const;
  // Drops fields that the schema does not know, except where it preserves them.
  void prune(Json& object) const;
  // Paths of fields that prune() would drop, in document order, at most 32.
  std::vector<std::string> unknown_fields(const Json& object) const;
  // The value that a field selector compares; empty when the field is absent. `field` must be selectable.
  std::string field_value(const Json& object, std::string_view field) const;
  bool is_selectable(std::string_view field) const;
};

// Messages of fieldValidation Strict and Warn: `unknown field "spec.foo"`.
std::string unknown_field_message(std::string_view path);
std::string duplicate_field_message(std::string_view path);

}  // namespace moor::model
