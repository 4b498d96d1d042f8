// Enumerations that travel as strings: the enumerators and their texts stand side by side, in the same order.
//
//   enum class VolumeState { none, creating, attached };
//   MOOR_ENUM_NAMES(VolumeState, "", "creating", "attached")
//
// The first enumerator is the zero value.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#define MOOR_ENUM_NAMES(Type, ...)                                    \
  inline constexpr std::string_view k##Type##Names[] = {__VA_ARGS__}; \
  constexpr std::span<const std::string_view> enum_names(Type) {      \
    return k##Type##Names;                                            \
  }                                                                   \
  constexpr std::string_view to_string(Type value) {                  \
    return k##Type##Names[static_cast<std::size_t>(value)];           \
  }

namespace moor::model {

// The enumerator with that text; absent when there is none.
template <class E>
constexpr std::optional<E> enum_from(std::string_view text) {
  const auto names = enum_names(E{});
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace moor::model
