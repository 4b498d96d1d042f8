// How the registry's calls look on the wire: targets, and what answers mean. Pure.
#pragma once

#include <string>

#include "http/message.h"
#include "registry/registry.h"

namespace moor::registry {

// /apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes/v1/status
std::string path_of(const ResourceName& what);
std::string target_of(const ResourceName& what, const http::Query& query);

http::Query query_of(const WriteOptions& options, bool is_apply);
http::Query query_of(const ListOptions& options);
http::Query query_of(const WatchOptions& options);
Json body_of(const DeleteOptions& options);

// A Status object, as a body or inside an ERROR event; `http_status` decides when it says nothing itself.
Refusal refusal_from(const Json& status, int http_status);
Refusal refusal_from(const http::Response& response);
// The texts of Warning headers: 299 - "unknown field …".
std::vector<std::string> warnings_from(const http::Headers& headers);
Answer<Listed> listed_from(const model::KindInfo& kind, Json list);

}  // namespace moor::registry
