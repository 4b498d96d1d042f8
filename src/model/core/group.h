// The core group of Kubernetes, version v1: the part of it that we act on is typed, the rest is kept as it
// came.
#pragma once

#include <string_view>

namespace moor::model::core {

inline constexpr std::string_view kVersion = "v1";
inline constexpr std::string_view kApiVersion = "v1";
inline constexpr std::string_view kPackage = "io.k8s.api.core.v1";

}  // namespace moor::model::core
