// storage.k8s.io/v1: how Kubernetes names storage classes, drivers and attachments.
#pragma once

#include <string_view>

namespace moor::model::storage {

inline constexpr std::string_view kGroup = "storage.k8s.io";
inline constexpr std::string_view kVersion = "v1";
inline constexpr std::string_view kApiVersion = "storage.k8s.io/v1";
inline constexpr std::string_view kPackage = "io.k8s.api.storage.v1";

}  // namespace moor::model::storage
