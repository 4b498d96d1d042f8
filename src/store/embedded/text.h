// Bytes in JSON: text stays text, other bytes travel as base64.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace moor::store::embedded {

bool is_utf8(std::string_view bytes);
std::string to_base64(std::string_view bytes);
// Strict: padded, no spaces, no stray bits. invalid otherwise.
Result<std::string> from_base64(std::string_view text);

}  // namespace moor::store::embedded
