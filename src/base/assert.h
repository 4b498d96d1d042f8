// A broken invariant stops the process, in release too: going on would spread the damage. Input from outside
// never trips an assertion; it gets an Error.
//
//   MOOR_ASSERT(epoch > floor.epoch, "epoch {} does not rise above {}", epoch, floor.epoch);
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace moor {

struct AssertSite {
  const char* condition;
  const char* file;
  int line;
};

// Prints to stderr in one write, so that the last word is not lost in a crash, then aborts.
[[noreturn]] void assertion_failed(const AssertSite& site, std::string_view message);

}  // namespace moor

#define MOOR_ASSERT(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) [[unlikely]] {                                                             \
      ::moor::assertion_failed({#condition, __FILE__, __LINE__}, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                            \
  } while (false)

#define MOOR_UNREACHABLE(...) \
  ::moor::assertion_failed({"unreachable", __FILE__, __LINE__}, ::fmt::format("" __VA_ARGS__))
