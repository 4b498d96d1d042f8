#include "registry/node_scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "registry/refusal.h"

namespace moor::registry {
namespace {

using Operation = AdmissionRequest::Operation;

// How the node of an object is found.
enum class By { name, field };

struct Rule {
  std::string_view group;
  std::string_view kind;
  By by = By::field;
  std::string_view first = {};  // the path, as two keys
  std::string_view second = {};
  bool status_only = false;  // the rest of the object belongs to controllers and people
  bool create = false;
  bool remove = false;
  // What holds an object until the node has cleaned up after it: the node may take this one away.
  std::string_view finalizer = {};
};

// Status that says what is true on the node is the node's; what is wanted is not.
constexpr Rule kRules[] = {
    {"", "Node", By::name, {}, {}, false, true, false},
    {"", "Pod", By::field, "spec", "nodeName", true, false, true},
    {"", "Event", By::field, "source", "host", false, true, false},
    {"coordination.k8s.io", "Lease", By::name, {}, {}, false, true, false},
    {"storage.k8s.io", "CSINode", By::name, {}, {}, false, true, true},
    {"longhorn.io", "Node", By::name, {}, {}, true, true, false},
    {"longhorn.io", "Engine", By::field, "spec", "nodeID", true, false, false, kNodeFinalizer},
    {"longhorn.io", "Replica", By::field, "spec", "nodeID", true, false, false, kNodeFinalizer},
    {"longhorn.io", "ShareManager", By::field, "status", "ownerID", true, false, false},
    {"mooring.io", "Instance", By::field, "spec", "nodeID", true, false, false},
};

// The object without its metadata that a writer may not decide anyway, and without this finalizer.
Json apart_from_finalizer(Json object, std::string_view finalizer) {
  Json* metadata = object.find("metadata");
  if (metadata == nullptr || !metadata->is_object()) return object;
  for (const char* key : {"managedFields", "resourceVersion", "generation"}) metadata->erase(key);
  Json* finalizers = metadata->find("finalizers");
  for (std::size_t i = finalizers == nullptr || !finalizers->is_array() ? 0 : finalizers->size(); i > 0; --i)
    if (finalizers->at(i - 1).is_string() && finalizers->at(i - 1).as_string() == finalizer)
      finalizers->erase(i - 1);
  if (finalizers != nullptr && finalizers->empty()) metadata->erase("finalizers");
  return object;
}

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const Json* finalizers = object.find_path({"metadata", "finalizers"});
  for (std::size_t i = 0; finalizers != nullptr && finalizers->is_array() && i < finalizers->size(); ++i)
    if (finalizers->at(i).is_string() && finalizers->at(i).as_string() == finalizer) return true;
  return false;
}

// The node has cleaned up: its finalizer goes from an object that is being deleted, and nothing else changes.
bool only_lets_go(const Rule& rule, const Json* before, const Json* after) {
  if (rule.finalizer.empty() || before == nullptr || after == nullptr) return false;
  const Json* deleted = before->find_path({"metadata", "deletionTimestamp"});
  return deleted != nullptr && !has_finalizer(*after, rule.finalizer) &&
         apart_from_finalizer(*before, rule.finalizer) == apart_from_finalizer(*after, rule.finalizer);
}

// A Grant belongs to no node. The one that holds it may change it: members while it is active, and active
// when it is the standby. In which epoch and incarnation, and which fields, is the business of the attach
// floor's admission.
std::string grant_objection(const AdmissionRequest& request, const Json* after) {
  if (request.operation != Operation::update || request.before == nullptr || after == nullptr)
    return "a node neither makes nor deletes Grants";
  const auto holder = [](const Json& grant, std::string_view which) {
    const Json* node = grant.find_path({"spec", which, "node"});
    return node != nullptr && node->is_string() ? node->as_string() : std::string_view();
  };
  const std::string& node = request.identity->node;
  if (holder(*after, "active") != node) return "it is not the active node";
  if (holder(*request.before, "active") == node || holder(*request.before, "standby") == node) return {};
  return "it is neither the active node nor the standby";
}

const Rule* rule_of(const model::KindInfo& kind) {
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
    return rule.group == kind.group && rule.kind == kind.kind;
  });
  return found == std::end(kRules) ? nullptr : found;
}

std::string_view node_of(const Rule& rule, const Json& object) {
  if (rule.by == By::name) {
    const Json* metadata = object.find("metadata");
    return metadata == nullptr ? std::string_view() : metadata->get_string("name").value_or("");
  }
  const Json* part = object.find(rule.first);
  return part == nullptr ? std::string_view() : part->get_string(rule.second).value_or("");
}

// Why not; empty: it may.
std::string objection(const AdmissionRequest& request, const Json* after, const Rule& rule) {
  const std::string& node = request.identity->node;
  if (request.operation == Operation::create && !rule.create) return "a node may not create it";
  if (request.operation == Operation::remove && !rule.remove) return "a node may not delete it";
  if (rule.status_only && request.operation == Operation::update && request.subresource != "status" &&
      !only_lets_go(rule, request.before, after))
    return "a node may write only its status";
  // Before and after: a node can neither take an object over nor give one away.
  for (const Json* side : {request.before, after}) {
    if (side == nullptr) continue;
    const std::string_view owner = node_of(rule, *side);
    if (owner != node)
      return owner.empty() ? "it belongs to no node" : fmt::format("it belongs to node \"{}\"", owner);
  }
  return {};
}

}  // namespace

Answer<void> check_node_scope(const AdmissionRequest& request, const Json* after) {
  if (request.identity == nullptr || request.identity->node.empty()) return {};
  const Rule* rule = rule_of(*request.kind);
  const bool is_grant = request.kind->group == "mooring.io" && request.kind->kind == "Grant";
  const std::string why = is_grant          ? grant_objection(request, after)
                          : rule == nullptr ? std::string("nodes do not write objects of this kind")
                                            : objection(request, after, *rule);
  if (why.empty()) return {};
  return refuse_forbidden(
      *request.kind, request.name,
      fmt::format("node \"{}\" may write only what belongs to it: {}", request.identity->node, why));
}

}  // namespace moor::registry
