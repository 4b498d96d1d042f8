// Where a request wants to go: the paths of Kubernetes' API, read into values. Pure.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"
#include "model/kind.h"
#include "registry/registry.h"

namespace moor::doors::kube {

struct Route {
  enum class To {
    nowhere,
    version,           // /version
    root,              // /
    core_versions,     // /api
    groups,            // /apis
    group,             // /apis/G
    resources,         // /api/v1, /apis/G/V
    openapi_v2,        // /openapi/v2
    openapi_index,     // /openapi/v3
    openapi_document,  // /openapi/v3/apis/G/V
    review,            // selfsubjectaccessreviews and its like
    objects,           // everything that is stored
  };
  To to = To::nowhere;
  std::string group;
  std::string version;
  std::string document;  // openapi_document: "apis/G/V"
  std::string review;    // review: the resource's name
  registry::ResourceName name;
  bool all_namespaces = false;  // a namespaced kind, asked for without a namespace
};

Route find_route(const http::Target& target);

// The verb in Kubernetes' words, empty when the method does not fit the path: get, list, watch, create, …
std::string verb_of(http::Method method, const http::Target& target, const Route& route);
bool wants_watch(const http::Query& query);

}  // namespace moor::doors::kube
