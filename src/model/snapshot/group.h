// snapshot.storage.k8s.io/v1: snapshots as Kubernetes users ask for them, served by a CSI driver.
#pragma once

#include <string_view>

namespace moor::model::snapshot {

inline constexpr std::string_view kGroup = "snapshot.storage.k8s.io";
inline constexpr std::string_view kVersion = "v1";
inline constexpr std::string_view kApiVersion = "snapshot.storage.k8s.io/v1";
inline constexpr std::string_view kPackage = "io.k8s.storage.snapshot.v1";

}  // namespace moor::model::snapshot
