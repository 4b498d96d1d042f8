// Comparing secrets, wherever a token comes in.
#pragma once

#include <cstddef>
#include <string_view>

namespace moor {

// How long a wrong secret takes to be refused must not say how much of it was right.
inline bool is_same_secret(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    difference |= static_cast<unsigned char>(left[i]) ^ static_cast<unsigned char>(right[i]);
  return difference == 0;
}

}  // namespace moor
