// Kubernetes' protobuf for the kinds that clients with Go types of their own send so: `kubectl create
// namespace` and `create secret` from 1.33 on. One table per message says which field is what; the numbers
// are those of Kubernetes' generated.proto files, which never change. What a table does not name is dropped,
// as an older API server drops what it does not know.
//
// Adding a kind: its messages as tables in object_proto.cc, and a line in kObjects.
#pragma once

#include <string_view>

#include "base/json.h"
#include "registry/registry.h"

namespace moor::doors::kube {

// The object as JSON. 415 for kinds without a table, 400 for bytes that are no such message.
registry::Answer<Json> decode_object(std::string_view bytes);

}  // namespace moor::doors::kube
