// The prefix of the component names of what every object carries. For the .cc files of this folder only.
#pragma once

#include <string_view>

namespace moor::model {

inline constexpr std::string_view kPackage = "io.k8s.apimachinery.pkg.apis.meta.v1";

}  // namespace moor::model
