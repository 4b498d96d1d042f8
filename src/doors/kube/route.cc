#include "doors/kube/route.h"

#include <algorithm>
#include <span>

#include "doors/kube/review.h"
#include "model/kinds.h"

namespace moor::doors::kube {
namespace {

using Segments = std::span<const std::string>;

// What follows the group and version: [namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]].
void find_object(Segments rest, Route& route) {
  const bool core = route.group.empty();
  // /api/v1/namespaces/NS/status is a subresource of the namespace, /api/v1/namespaces/NS/pods is not.
  const bool is_namespace_itself =
      core && rest[0] == "namespaces" &&
      (rest.size() < 3 || (rest.size() == 3 && (rest[2] == "status" || rest[2] == "finalize")));
  const bool scoped = rest[0] == "namespaces" && rest.size() >= 3 && !is_namespace_itself;
  if (scoped) {
    route.name.space = rest[1];
    rest = rest.subspan(2);
  }
  if (rest.size() > 3) return;
  const model::KindInfo* kind = model::find_kind(route.group, route.version, rest[0]);
  if (kind == nullptr || (scoped && !kind->namespaced)) return;
  route.name.kind = kind;
  if (rest.size() > 1) route.name.name = rest[1];
  if (rest.size() > 2) route.name.subresource = rest[2];
  route.all_namespaces = kind->namespaced && !scoped;
  // An object of a namespaced kind has a namespace.
  if (route.all_namespaces && rest.size() > 1) return;
  if (rest.size() > 2 && !(rest[2] == "status" && kind->has_status)) return;
  route.to = Route::To::objects;
}

void find_in_version(Segments rest, Route& route) {
  if (rest.empty()) {
    route.to = Route::To::resources;
    return;
  }
  if (rest.size() == 1 && is_review(route.group, route.version, rest[0])) {
    route.to = Route::To::review;
    route.review = rest[0];
    return;
  }
  find_object(rest, route);
}

Route find_openapi(Segments segments) {
  Route route;
  if (segments.size() == 2 && segments[1] == "v2") route.to = Route::To::openapi_v2;
  if (segments.size() < 2 || segments[1] != "v3") return route;
  if (segments.size() == 2) {
    route.to = Route::To::openapi_index;
    return route;
  }
  route.to = Route::To::openapi_document;
  for (const std::string& part : segments.subspan(2))
    route.document += (route.document.empty() ? "" : "/") + part;
  return route;
}

}  // namespace

Route find_route(const http::Target& target) {
  const Segments segments(target.segments);
  Route route;
  if (segments.empty()) {
    route.to = Route::To::root;
    return route;
  }
  if (segments[0] == "openapi") return find_openapi(segments);
  if (segments[0] == "version" && segments.size() == 1) route.to = Route::To::version;
  if (segments[0] == "api") {
    if (segments.size() == 1) {
      route.to = Route::To::core_versions;
      return route;
    }
    route.version = segments[1];
    find_in_version(segments.subspan(2), route);
  }
  if (segments[0] == "apis") {
    if (segments.size() > 1) route.group = segments[1];
    if (segments.size() > 2) route.version = segments[2];
    if (segments.size() == 1)
      route.to = Route::To::groups;
    else if (segments.size() == 2)
      route.to = Route::To::group;
    else
      find_in_version(segments.subspan(3), route);
  }
  return route;
}

bool wants_watch(const http::Query& query) {
  const auto value = query.get("watch");
  return value && (*value == "true" || *value == "1" || value->empty());
}

std::string verb_of(http::Method method, const http::Target& target, const Route& route) {
  using http::Method;
  const bool named = !route.name.name.empty();
  const bool plain = route.name.subresource.empty();
  switch (method) {
    case Method::get:
    case Method::head:
      if (wants_watch(target.query) && plain) return "watch";
      return named ? "get" : "list";
    case Method::post: return named || route.all_namespaces ? "" : "create";
    case Method::put: return named ? "update" : "";
    case Method::patch: return named ? "patch" : "";
    case Method::delete_:
      if (route.all_namespaces || !plain) return "";
      return named ? "delete" : "deletecollection";
    case Method::options: return "";
  }
  return "";
}

}  // namespace moor::doors::kube
