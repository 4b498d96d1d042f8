// YAML text as Json, for files that people write: kubeconfigs and manifests. Plain scalars become what YAML's
// core schema says (numbers, booleans, null), quoted ones stay strings. Anchors are resolved, with a bound on
// what they may grow to; a key that stands twice, a tag of someone else's or a second document is refused.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace moor::cli {

Result<Json> parse_yaml(std::string_view text);

}  // namespace moor::cli
