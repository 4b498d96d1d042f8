// What a command answers: a value, or a Failure with the exit code that scripts branch on, a sentence that
// says what is wrong and, where there is one, a hint that says what to do. Errors and refusals from below
// become Failures on their way up (TRY and CO_TRY pass them).
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "base/result.h"
#include "registry/registry.h"

namespace moor::cli {

// Documented in --help; scripts rely on the numbers.
enum class ExitCode {
  ok = 0,
  error = 1,        // anything that has no number of its own
  usage = 2,        // the command line or a value in it: nothing was changed
  not_found = 3,    // the volume, ticket or node named does not exist
  timed_out = 4,    // --wait: it did not come true in time; what was asked for stays asked for
  conflict = 5,     // exists already, or is in use
  unreachable = 6,  // no server
  refused = 7,      // not allowed
};

struct Failure {
  ExitCode code = ExitCode::error;
  std::string message;
  std::string hint = {};
};

Failure failure_of(const Error& error);
Failure failure_of(const registry::Refusal& refusal);
inline Failure usage_failure(std::string message, std::string hint = {}) {
  return {ExitCode::usage, std::move(message), std::move(hint)};
}

template <class T>
class [[nodiscard]] Outcome : public tl::expected<T, Failure> {
  using Base = tl::expected<T, Failure>;

 public:
  using value_type = T;
  using Base::Base;
  Outcome(Failure failure) : Base(tl::unexpect, std::move(failure)) {}                    // NOLINT
  Outcome(const Error& error) : Base(tl::unexpect, failure_of(error)) {}                  // NOLINT
  Outcome(const registry::Refusal& refusal) : Base(tl::unexpect, failure_of(refusal)) {}  // NOLINT

  bool ok() const { return this->has_value(); }
};

}  // namespace moor::cli
