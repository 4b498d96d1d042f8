// longhorn.io/v1beta2: names, short names, fields and columns are Longhorn's, so that manifests and habits
// carry over.
#pragma once

#include <string_view>

namespace moor::model::longhorn {

inline constexpr std::string_view kGroup = "longhorn.io";
inline constexpr std::string_view kVersion = "v1beta2";
inline constexpr std::string_view kApiVersion = "longhorn.io/v1beta2";
inline constexpr std::string_view kPackage = "io.longhorn.v1beta2";

inline constexpr std::string_view kFinalizer = "longhorn.io";
inline constexpr std::string_view kVolumeLabel = "longhornvolume";
inline constexpr std::string_view kDefaultNamespace = "longhorn-system";

}  // namespace moor::model::longhorn
