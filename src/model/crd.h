// CustomResourceDefinitions for a real Kubernetes cluster, out of the same descriptions.
#pragma once

#include <string>
#include <vector>

#include "model/kinds.h"

namespace moor::model {

// The manifest of one kind with `custom` set. Columns that only our server can compute are left out.
Json crd_manifest(const KindInfo& kind);
// All of them as one YAML stream, ready for `kubectl apply -f -`.
std::string crd_manifests_yaml();

}  // namespace moor::model
