// mooring.io/v1alpha1: what we need beyond Longhorn's and Kubernetes' kinds.
#pragma once

#include <string_view>

namespace moor::model::mooring {

inline constexpr std::string_view kGroup = "mooring.io";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kApiVersion = "mooring.io/v1alpha1";
inline constexpr std::string_view kPackage = "io.mooring.v1alpha1";

}  // namespace moor::model::mooring
