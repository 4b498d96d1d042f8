// The three patch types that carry no ownership: JSON patch (RFC 6902), merge patch (RFC 7386) and
// Kubernetes' strategic merge patch. Each takes a document and answers the patched one or an error; the
// document is not changed on error. Server-side apply is in apply/.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "model/schema.h"

namespace moor::registry {

// Errc::invalid: the patch is malformed or does not fit the document (a test failed, a path is missing).
Result<Json> json_patch(Json document, const Json& patch);
Json merge_patch(Json document, const Json& patch);
// Lists merge by key where the schema says so; directives $patch, $retainKeys, $deleteFromPrimitiveList and
// $setElementOrder are understood.
Result<Json> strategic_merge_patch(Json document, const Json& patch, const model::StructSchema& schema);

}  // namespace moor::registry
