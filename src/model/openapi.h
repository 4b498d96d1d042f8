// The OpenAPI v3 documents that kubectl create, apply, edit, diff and explain read: one per group-version,
// and the index that names them. Built once; they never change while the server runs.
#pragma once

#include <map>
#include <string>

#include "model/kinds.h"

namespace moor::model {

// The document of one group-version: components.schemas and the paths with their operations.
Json openapi_document(const GroupVersion& version);
// "api/v1", "apis/longhorn.io/v1beta2": the key in the index and the end of the path under /openapi/v3/.
std::string openapi_path(const GroupVersion& version);
// /openapi/v3: each path with a URL that carries the hash of its document, so that clients may cache it for
// ever.
Json openapi_index(const std::map<std::string, std::string>& hash_by_path);
// A short hash of a document's text, for the index and the ETag.
std::string openapi_hash(std::string_view document_text);

}  // namespace moor::model
