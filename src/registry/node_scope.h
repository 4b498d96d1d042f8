// What a node's identity may write: objects and status that belong to its node, and nothing else (a node
// that is taken over must not be able to move volumes of others). A pure table, one line per kind.
#pragma once

#include "registry/admission.h"

namespace moor::registry {

// On Engines and Replicas: they go when their node has cleaned up after them. Whoever makes one adds it; the
// word is the one that Longhorn uses.
inline constexpr std::string_view kNodeFinalizer = "longhorn.io";

// Fine for identities that are no node's. `after` null for deletions. Refusal: Forbidden, with the reason.
Answer<void> check_node_scope(const AdmissionRequest& request, const Json* after);

}  // namespace moor::registry
