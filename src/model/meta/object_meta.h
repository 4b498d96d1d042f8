// What every object carries, whatever its kind. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/codec.h"
#include "model/time.h"

namespace moor::model {

struct OwnerReference {
  std::string api_version = {};
  std::string kind = {};
  std::string name = {};
  std::string uid = {};
  std::optional<bool> controller = {};
  std::optional<bool> block_owner_deletion = {};
  bool operator==(const OwnerReference&) const = default;
};
MOOR_DESCRIBED(OwnerReference);

struct ManagedFieldsEntry {
  std::string manager = {};
  std::string operation = {};  // Apply or Update
  std::string api_version = {};
  std::optional<Time> time = {};
  std::string fields_type = {};
  Json fields_v1 = {};
  std::string subresource = {};
};
MOOR_DESCRIBED(ManagedFieldsEntry);

struct ObjectMeta {
  std::string name = {};
  std::string generate_name = {};
  std::string space = {};  // "namespace" in JSON, a keyword in C++
  std::string uid = {};
  std::string resource_version = {};
  std::int64_t generation = 0;
  std::optional<Time> creation_timestamp = {};
  std::optional<Time> deletion_timestamp = {};
  std::optional<std::int64_t> deletion_grace_period_seconds = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  std::vector<OwnerReference> owner_references = {};
  std::vector<std::string> finalizers = {};
  AsWritten<std::vector<ManagedFieldsEntry>> managed_fields = {};
  std::string self_link = {};

  bool is_being_deleted() const { return deletion_timestamp.has_value(); }
  bool has_finalizer(std::string_view finalizer) const;
  // The owner with `controller: true`; nullptr when there is none.
  const OwnerReference* controller_owner() const;
};
MOOR_DESCRIBED(ObjectMeta);

struct ListMeta {
  std::string resource_version = {};
  std::string continue_token = {};
  std::optional<std::int64_t> remaining_item_count = {};
  std::string self_link = {};
};
MOOR_DESCRIBED(ListMeta);

// A named reference to an object of any kind, as tickets, events and operations carry it.
struct ObjectReference {
  std::string api_version = {};
  std::string kind = {};
  std::string space = {};
  std::string name = {};
  std::string uid = {};
  std::string resource_version = {};
  std::string field_path = {};
  bool operator==(const ObjectReference&) const = default;
};
MOOR_DESCRIBED(ObjectReference);

}  // namespace moor::model
