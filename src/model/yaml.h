// Json as YAML text in block style, for manifests that people read. Writing only: YAML is read by the command
// line.
#pragma once

#include <string>

#include "base/json.h"

namespace moor::model {

std::string to_yaml(const Json& value);

}  // namespace moor::model
