// What the server has, as clients ask for it: the plain forms (APIVersions, APIGroupList, APIResourceList)
// and the aggregated one (APIGroupDiscoveryList), all from the list of kinds. Answers never change while the
// server runs; build them once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/kinds.h"

namespace moor::model {

// A resource that is served but not stored, such as selfsubjectaccessreviews. The door that serves it names
// it.
struct VirtualResource {
  std::string_view group;
  std::string_view version;
  std::string_view resource;
  std::string_view singular;
  std::string_view kind;
  bool namespaced = false;
  std::vector<std::string_view> verbs = {"create"};
};

class Discovery {
 public:
  // server_address: host:port that clients reach us at.
  Discovery(std::string server_address, std::vector<VirtualResource> virtual_resources = {});

  Json api_versions() const;                                  // /api
  Json api_group_list() const;                                // /apis
  Json api_group(std::string_view group) const;               // /apis/G; null when there is none
  Json api_resource_list(const GroupVersion& version) const;  // /api/v1, /apis/G/V; null when there is none
  // The aggregated form of /api (core) or /apis, for "v2" or "v2beta1".
  Json aggregated(bool core, std::string_view version) const;

 private:
  std::vector<GroupVersion> group_versions() const;

  std::string server_address_;
  std::vector<VirtualResource> virtual_;
};

}  // namespace moor::model
