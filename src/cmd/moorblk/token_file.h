// The secret that engine and replica share, as a file: white space at its end is not part of it.
#pragma once

#include <string>

#include "base/result.h"

namespace moor::cmd {

Result<std::string> read_token(const std::string& path);

}  // namespace moor::cmd
