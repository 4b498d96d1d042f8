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
};

// Status that says what is true on the node is the node's; what is wanted is not.
constexpr Rule kRules[] = {
    {"", "Node", By::name, {}, {}, false, true, false},
    {"", "Pod", By::field, "spec", "nodeName", true, false, true},
    {"", "Event", By::field, "source", "host", false, true, false},
    {"coordination.k8s.io", "Lease", By::name, {}, {}, false, true, false},
    {"storage.k8s.io", "CSINode", By::name, {}, {}, false, true, true},
    {"longhorn.io", "Node", By::name, {}, {}, true, true, false},
    {"longhorn.io", "Engine", By::field, "spec", "nodeID", true, false, false},
    {"longhorn.io", "Replica", By::field, "spec", "nodeID", true, false, false},
    {"longhorn.io", "ShareManager", By::field, "status", "ownerID", true, false, false},
    {"mooring.io", "Instance", By::field, "spec", "nodeID", true, false, false},
};

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
  if (rule.status_only && request.operation == Operation::update && request.subresource != "status")
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
  const std::string why = rule == nullptr ? std::string("nodes do not write objects of this kind")
                                          : objection(request, after, *rule);
  if (why.empty()) return {};
  return refuse_forbidden(
      *request.kind, request.name,
      fmt::format("node \"{}\" may write only what belongs to it: {}", request.identity->node, why));
}

}  // namespace moor::registry
