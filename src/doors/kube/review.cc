#include "doors/kube/review.h"

#include <algorithm>

#include "model/kinds.h"
#include "registry/node_scope.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

constexpr std::string_view kAccess = "selfsubjectaccessreviews";
constexpr std::string_view kRules = "selfsubjectrulesreviews";
constexpr std::string_view kSelf = "selfsubjectreviews";

std::string member(const Json& object, std::string_view key) {
  return std::string(object.get_string(key).value_or(""));
}

const model::KindInfo* kind_of(const Attributes& wanted) {
  for (const model::KindInfo* kind : model::all_kinds())
    if (kind->group == wanted.group && kind->plural == wanted.resource) return kind;
  return nullptr;
}

registry::AdmissionRequest::Operation operation_of(std::string_view verb) {
  using Operation = registry::AdmissionRequest::Operation;
  if (verb == "create") return Operation::create;
  return verb == "delete" ? Operation::remove : Operation::update;
}

// An object of any kind as it would look if it belonged to the node: the question "may I at all?".
Json own_object(const std::string& node) {
  return Json::object({{"metadata", Json::object({{"name", node}})},
                       {"spec", Json::object({{"nodeName", node}, {"nodeID", node}})},
                       {"source", Json::object({{"host", node}})},
                       {"status", Json::object({{"ownerID", node}})}});
}

Task<Decision> decide_node_write(registry::Registry& registry, Caller caller, Attributes wanted) {
  const model::KindInfo* kind = kind_of(wanted);
  if (kind == nullptr) co_return Decision{false, "there is no such resource"};
  Json object = own_object(caller.identity.node);
  if (!wanted.name.empty() && wanted.verb == "create") object["metadata"].set("name", wanted.name);
  if (!wanted.name.empty() && wanted.verb != "create") {
    registry::ResourceName what{kind, wanted.space, wanted.name, ""};
    auto live = co_await registry.get(std::move(what), "");
    if (live) object = std::move(*live);
  }
  registry::AdmissionRequest request;
  request.operation = operation_of(wanted.verb);
  request.kind = kind;
  request.space = wanted.space;
  request.name = wanted.name;
  request.subresource = wanted.subresource;
  request.identity = &caller.identity;
  request.before = wanted.verb == "create" ? nullptr : &object;
  auto allowed = registry::check_node_scope(request, wanted.verb == "delete" ? nullptr : &object);
  co_return allowed ? Decision{true, ""} : Decision{false, allowed.error().error.message};
}

Task<Decision> decide(registry::Registry& registry, Caller caller, Attributes wanted) {
  // "*" asks for everything, which only an administrator has.
  const bool everything = wanted.verb == "*" || wanted.resource == "*" || wanted.group == "*";
  if (everything && caller.role != Role::admin)
    co_return Decision{false, "only administrators may do everything"};
  Decision decision = authorize(caller, wanted);
  if (decision.allowed && caller.role == Role::node && !is_reading(wanted.verb)) {
    Task<Decision> closer = decide_node_write(registry, std::move(caller), std::move(wanted));
    decision = co_await std::move(closer);
  }
  co_return decision;
}

Decision decide_path(const Caller& caller, std::string_view path, std::string_view verb) {
  if (caller.role == Role::admin) return {true, ""};
  if (verb != "get") return {false, "paths are only read"};
  if (path == "/metrics") return {caller.role == Role::view, ""};
  constexpr std::string_view kOpen[] = {"/api",     "/apis",   "/healthz", "/livez",
                                        "/openapi", "/readyz", "/version"};
  const bool open = std::any_of(std::begin(kOpen), std::end(kOpen), [path](std::string_view prefix) {
    return path == prefix || (path.starts_with(prefix) && path[prefix.size()] == '/');
  });
  return {open, ""};
}

Task<registry::Answer<Json>> answer_access(registry::Registry& registry, Json review, Caller caller) {
  const Json* spec = review.find("spec");
  const Json* resource = spec == nullptr ? nullptr : spec->find("resourceAttributes");
  const Json* path = spec == nullptr ? nullptr : spec->find("nonResourceAttributes");
  if ((resource == nullptr) == (path == nullptr))
    co_return registry::refuse_bad_request(
        "spec: exactly one of nonResourceAttributes or resourceAttributes must be specified");
  Decision decision;
  if (path != nullptr) {
    decision = decide_path(caller, member(*path, "path"), member(*path, "verb"));
  } else {
    Attributes wanted{member(*resource, "verb"),      member(*resource, "group"),
                      member(*resource, "resource"),  member(*resource, "subresource"),
                      member(*resource, "namespace"), member(*resource, "name")};
    Task<Decision> asked = decide(registry, std::move(caller), std::move(wanted));
    decision = co_await std::move(asked);
  }
  Json status = Json::object({{"allowed", decision.allowed}});
  if (!decision.reason.empty()) status.set("reason", decision.reason);
  review.set("status", std::move(status));
  co_return review;
}

Json rule(Json verbs, Json groups, Json resources) {
  return Json::object(
      {{"verbs", std::move(verbs)}, {"apiGroups", std::move(groups)}, {"resources", std::move(resources)}});
}

// Rules name what the role may read, group by group; what a node may write depends on the object.
Json answer_rules(Json review, const Caller& caller) {
  Json rules = Json::array();
  if (caller.role == Role::admin)
    rules.push_back(rule(Json::array({"*"}), Json::array({"*"}), Json::array({"*"})));
  if (caller.role == Role::view || caller.role == Role::node) {
    for (const model::KindInfo* kind : model::all_kinds()) {
      if (!authorize(caller, {"get", std::string(kind->group), std::string(kind->plural), "", "", ""})
               .allowed)
        continue;
      rules.push_back(rule(Json::array({"get", "list", "watch"}), Json::array({kind->group}),
                           Json::array({kind->plural})));
    }
  }
  rules.push_back(
      rule(Json::array({"create"}), Json::array({"authorization.k8s.io"}), Json::array({kAccess, kRules})));
  Json paths = Json::array({Json::object(
      {{"verbs", Json::array({"get"})},
       {"nonResourceURLs", Json::array({"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
                                        "/openapi", "/openapi/*", "/readyz", "/version"})}})});
  review.set("status", Json::object({{"resourceRules", std::move(rules)},
                                     {"nonResourceRules", std::move(paths)},
                                     {"incomplete", caller.role == Role::node}}));
  return review;
}

Json answer_self(Json review, const Caller& caller) {
  Json groups = Json::array();
  for (const std::string& group : caller.identity.groups) groups.push_back(group);
  Json user = Json::object({{"username", caller.identity.user}, {"groups", std::move(groups)}});
  review.set("status", Json::object({{"userInfo", std::move(user)}}));
  return review;
}

}  // namespace

bool is_review(std::string_view group, std::string_view version, std::string_view resource) {
  const auto all = review_resources();
  return std::any_of(all.begin(), all.end(), [&](const model::VirtualResource& one) {
    return one.group == group && one.version == version && one.resource == resource;
  });
}

std::vector<model::VirtualResource> review_resources() {
  return {
      {"authentication.k8s.io", "v1", kSelf, "selfsubjectreview", "SelfSubjectReview"},
      {"authorization.k8s.io", "v1", kAccess, "selfsubjectaccessreview", "SelfSubjectAccessReview"},
      {"authorization.k8s.io", "v1", kRules, "selfsubjectrulesreview", "SelfSubjectRulesReview"},
  };
}

registry::Answer<Json> read_review(const http::Request& request) {
  if (media_type(request) == kProtobuf) return decode_review(request.body);
  TRY(Body body, read_object(request));
  return std::move(body.value);
}

Task<registry::Answer<Json>> answer_review(registry::Registry& registry, std::string resource, Json review,
                                           Caller caller) {
  const auto all = review_resources();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const model::VirtualResource& one) { return one.resource == resource; });
  const std::string version = std::string(found->group) + "/" + std::string(found->version);
  if (member(review, "kind") != found->kind || member(review, "apiVersion") != version)
    co_return registry::refuse_bad_request("the object in the body is not a " + std::string(found->kind));
  if (!review.contains("metadata") || review.find("metadata")->is_null())
    review.set("metadata", Json::object());
  if (resource == kSelf) co_return answer_self(std::move(review), caller);
  if (resource == kRules) co_return answer_rules(std::move(review), caller);
  Task<registry::Answer<Json>> asked = answer_access(registry, std::move(review), std::move(caller));
  co_return co_await std::move(asked);
}

}  // namespace moor::doors::kube
