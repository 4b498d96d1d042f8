// The one kind of Secret that a node's identity may read: the token of a volume of which it runs an engine or
// a replica, so that a node that is taken over gives away no more than what it serves anyway.
#pragma once

#include "registry/registry.h"

namespace moor::doors::kube {

// Forbidden, with the reason, unless the node has an Engine or a Replica of the secret's volume.
Task<registry::Answer<void>> check_node_secret(registry::Registry& registry, std::string node, Json secret);

}  // namespace moor::doors::kube
