#include "cli/outcome.h"

namespace moor::cli {
namespace {

ExitCode code_of(Errc code) {
  switch (code) {
    case Errc::invalid:
    case Errc::unsupported: return ExitCode::usage;
    case Errc::not_found: return ExitCode::not_found;
    case Errc::already_exists:
    case Errc::conflict: return ExitCode::conflict;
    case Errc::unauthorized:
    case Errc::forbidden: return ExitCode::refused;
    case Errc::unavailable: return ExitCode::unreachable;
    case Errc::timed_out: return ExitCode::timed_out;
    default: return ExitCode::error;
  }
}

}  // namespace

Failure failure_of(const Error& error) {
  return {code_of(error.code), error.message};
}

Failure failure_of(const registry::Refusal& refusal) {
  Failure failure = failure_of(refusal.error);
  // A list of causes says more than the sentence around it, and says it without the wrapping that machines
  // need.
  if (!refusal.causes.empty()) {
    failure.message.clear();
    for (const model::Cause& cause : refusal.causes) {
      if (!failure.message.empty()) failure.message += "; ";
      if (!cause.field.empty()) failure.message += cause.field + ": ";
      failure.message += cause.message;
    }
  }
  return failure;
}

}  // namespace moor::cli
