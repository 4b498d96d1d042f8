#include "registry/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/json_share.h"
#include "base/plant.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

// Managed fields nest a little deeper than what they describe, and all of it must be readable again by the
// parser, which goes 64 deep.
constexpr int kMaxDepth = 56;
constexpr std::size_t kLongestGeneratedBase = 58;  // with five more it is still a label

// Kinds whose first status is the server's to say.
struct FirstPhase {
  std::string_view kind;
  std::string_view phase;
};
constexpr FirstPhase kFirstPhases[] = {{"Namespace", "Active"},
                                       {"Pod", "Pending"},
                                       {"PersistentVolume", "Pending"},
                                       {"PersistentVolumeClaim", "Pending"}};

// Kubelets register a core Node with its status in one request, and Kubernetes takes it.
bool keeps_first_status(const model::KindInfo& kind) {
  return kind.group.empty() && kind.kind == "Node";
}

void set_first_status(const model::KindInfo& kind, Json& object) {
  if (!kind.has_status || keeps_first_status(kind)) return;
  object.erase("status");
  if (!kind.group.empty()) return;
  for (const FirstPhase& first : kFirstPhases) {
    if (first.kind == kind.kind) object.set("status", Json::object({{"phase", first.phase}}));
  }
}

void carry(const Json& from, Json& to, std::string_view field) {
  if (const Json* value = from.find(field)) {
    to.set(field, *value);
  } else {
    to.erase(field);
  }
}

bool is_deeper_than(const Json& value, int depth) {  // NOLINT(misc-no-recursion): bounded by depth
  if (!value.is_object() && !value.is_array()) return false;
  if (depth == 0) return true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (is_deeper_than(value.is_array() ? value.at(i) : value.value_at(i), depth - 1)) return true;
  }
  return false;
}

bool is_empty_list(const Json* list) {
  return list == nullptr || !list->is_array() || list->empty();
}

std::string quoted_list(const std::vector<std::string>& messages) {
  std::string text;
  for (const std::string& message : messages) text += fmt::format("{}{}", text.empty() ? "" : ", ", message);
  return text;
}

}  // namespace

bool is_namespace(const model::KindInfo& kind) {
  return kind.group.empty() && kind.kind == "Namespace";
}

std::string metadata_text(const Json& object, std::string_view field) {
  const Json* metadata = object.find("metadata");
  return metadata == nullptr ? std::string() : std::string(metadata->get_string(field).value_or(""));
}

Answer<void> check_form(const ResourceName& where, Json& object) {
  const model::KindInfo& kind = *where.kind;
  if (!object.is_object()) return refuse_bad_request("the request must carry a JSON object");
  if (is_deeper_than(object, kMaxDepth))
    return refuse_bad_request(fmt::format("the object is nested deeper than {} levels", kMaxDepth));
  const auto check_type = [&](std::string_view field, const std::string& wanted) -> Answer<void> {
    const Json* have = object.find(field);
    if (have == nullptr || have->is_null() || (have->is_string() && have->as_string().empty())) {
      object.set(field, wanted);
    } else if (!have->is_string() || have->as_string() != wanted) {
      return refuse_bad_request(fmt::format("the {} in the data ({}) does not match the expected {} ({})",
                                            field, to_text(*have), field, wanted));
    }
    return {};
  };
  TRY_VOID(check_type("apiVersion", kind.api_version()));
  TRY_VOID(check_type("kind", std::string(kind.kind)));
  Json& metadata = object["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  if (!metadata.is_object()) return refuse_bad_request("metadata must be an object");
  for (const std::string_view field : {"name", "namespace", "generateName", "uid", "resourceVersion"}) {
    const Json* value = metadata.find(field);
    if (value != nullptr && value->is_null()) metadata.erase(field);
    if (value != nullptr && !value->is_null() && !value->is_string())
      return refuse_bad_request(fmt::format("metadata.{} must be a string", field));
  }
  const auto name = metadata.get_string("name").value_or("");
  if (!where.name.empty() && !name.empty() && name != where.name)
    return refuse_bad_request(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})", name, where.name));
  if (!where.name.empty() && name.empty()) metadata.set("name", where.name);
  const auto space = metadata.get_string("namespace").value_or("");
  if (kind.namespaced && where.space.empty())
    return refuse_bad_request("an empty namespace may not be set during creation");
  if (!space.empty() && space != where.space)
    return refuse_bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  if (kind.namespaced) {
    metadata.set("namespace", where.space);
  } else {
    metadata.erase("namespace");
  }
  return {};
}

Answer<std::vector<std::string>> check_fields(const model::KindInfo& kind, Json& object,
                                              const WriteOptions& options) {
  std::vector<std::string> messages;
  if (options.field_validation != FieldValidation::ignore) {
    for (const std::string& path : kind.unknown_fields(object))
      messages.push_back(model::unknown_field_message(path));
    for (const std::string& path : options.duplicate_fields)
      messages.push_back(model::duplicate_field_message(path));
  }
  if (options.field_validation == FieldValidation::strict && !messages.empty())
    return refuse_bad_request(
        fmt::format("{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}", kind.kind,
                    kind.version, kind.kind, quoted_list(messages)));
  kind.prune(object);
  return messages;
}

Answer<void> choose_name(const model::KindInfo& kind, Json& object, Random& random) {
  Json& metadata = object["metadata"];
  if (!metadata.get_string("name").value_or("").empty()) return {};
  const std::string base(metadata.get_string("generateName").value_or(""));
  if (base.empty())
    return refuse_invalid(kind, "", {model::required("metadata.name", "name or generateName is required")});
  metadata.set("name", base.substr(0, kLongestGeneratedBase) + make_suffix(random));
  return {};
}

Answer<void> start_life(const model::KindInfo& kind, Json& object, const std::string& now, Random& random,
                        bool keep_managed_fields) {
  Json& metadata = object["metadata"];
  if (!metadata.get_string("resourceVersion").value_or("").empty())
    return refuse_bad_request("resourceVersion should not be set on objects to be created");
  for (const std::string_view field :
       {"resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"})
    metadata.erase(field);
  if (!keep_managed_fields) metadata.erase("managedFields");
  metadata.set("uid", make_uuid(random));
  metadata.set("creationTimestamp", now);
  if (kind.has_status || kind.custom) metadata.set("generation", 1);
  set_first_status(kind, object);
  if (is_namespace(kind)) {
    Json& spec = object["spec"];
    if (!spec.is_object()) spec = Json::object();
    spec.set("finalizers", Json::array({"kubernetes"}));
  }
  return {};
}

Answer<void> continue_life(const ResourceName& what, const Json& before, Json& after) {
  const model::KindInfo& kind = *what.kind;
  const Json& old = *before.find("metadata");
  const std::string version = metadata_text(after, "resourceVersion");
  if (!version.empty() && !MOOR_PLANT("registry-version-ignored") &&
      version != metadata_text(before, "resourceVersion"))
    return refuse_modified(kind, what.name);
  const std::string uid = metadata_text(after, "uid");
  if (!uid.empty() && uid != metadata_text(before, "uid"))
    return refuse_conflict(kind, what.name,
                           fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                                       uid, metadata_text(before, "uid")));
  if (!what.subresource.empty()) {
    // Managed fields may be reset through a subresource too.
    Json next = before;
    if (const Json* managed = after.find_path({"metadata", "managedFields"}))
      next["metadata"].set("managedFields", *managed);
    if (what.subresource == "status") carry(after, next, "status");
    if (what.subresource == "finalize") {
      const Json* finalizers = after.find_path({"spec", "finalizers"});
      next["spec"]["finalizers"] = finalizers == nullptr ? Json::array() : *finalizers;
    }
    after = std::move(next);
    return {};
  }
  if (!is_shared(*std::as_const(after).find("metadata"), old)) {
    Json& metadata = after["metadata"];
    for (const std::string_view field :
         {"uid", "resourceVersion", "creationTimestamp", "generation", "selfLink", "deletionTimestamp",
          "deletionGracePeriodSeconds", "generateName"})
      carry(old, metadata, field);
    if (!metadata.contains("managedFields")) carry(old, metadata, "managedFields");
  }
  if (kind.has_status) carry(before, after, "status");
  if (is_namespace(kind)) {
    Json& spec = after["spec"];
    if (!spec.is_object()) spec = Json::object();
    const Json* finalizers = before.find_path({"spec", "finalizers"});
    spec.set("finalizers", finalizers == nullptr ? Json::array() : *finalizers);
  }
  return {};
}

void count_generation(const model::KindInfo& kind, const Json& before, Json& after) {
  if (!kind.has_status && !kind.custom) return;
  const auto is_spec = [](std::string_view key) { return key != "metadata" && key != "status"; };
  bool changed = false;
  for (std::size_t i = 0; i < after.size() && !changed; ++i) {
    if (!is_spec(after.key_at(i))) continue;
    const Json* old = before.find(after.key_at(i));
    changed = old == nullptr || !(*old == after.value_at(i));
  }
  for (std::size_t i = 0; i < before.size() && !changed; ++i)
    changed = is_spec(before.key_at(i)) && !after.contains(before.key_at(i));
  if (!changed) return;
  const Json* metadata = before.find("metadata");
  after["metadata"].set("generation", metadata->get_int64("generation").value_or(0) + 1);
}

bool may_go(const model::KindInfo& kind, const Json& object) {
  const Json* metadata = object.find("metadata");
  if (metadata == nullptr || !metadata->get_string("deletionTimestamp")) return false;
  if (metadata->get_int64("deletionGracePeriodSeconds").value_or(0) > 0) return false;
  if (is_namespace(kind) && !is_empty_list(object.find_path({"spec", "finalizers"}))) return false;
  return is_empty_list(metadata->find("finalizers")) || MOOR_PLANT("registry-finalizers-ignored");
}

}  // namespace moor::registry
