// The opaque text that carries a paged list from one request to the next: the state that is listed, where
// the last page ended and how many are left. It is bound to the place that was listed; a token for another
// place, or one that was tampered with, is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace moor::registry {

struct ContinueToken {
  store::Revision revision = 0;
  std::string last_key;
  std::optional<std::int64_t> remaining;
};

std::string encode_token(const ContinueToken& token, std::string_view place);
// Errc::invalid.
Result<ContinueToken> decode_token(std::string_view text, std::string_view place);

}  // namespace moor::registry
