#include "doors/longhorn/error.h"

#include "base/json.h"

namespace moor::doors::longhorn {

int status_of(const registry::Refusal& refusal) {
  if (refusal.reason == "MethodNotAllowed") return 405;
  if (refusal.reason == "Invalid") return 422;
  switch (refusal.error.code) {
    case Errc::not_found: return 404;
    case Errc::already_exists:
    case Errc::conflict: return 409;
    case Errc::invalid: return 400;
    case Errc::unauthorized: return 401;
    case Errc::forbidden: return 403;
    case Errc::expired: return 410;
    case Errc::exhausted: return 413;
    case Errc::unavailable:
    case Errc::cancelled: return 503;
    case Errc::timed_out: return 504;
    case Errc::unsupported: return 415;
    case Errc::corrupt:
    case Errc::internal: return 500;
  }
  return 500;
}

http::Response error_response(int status, const std::string& message, int retry_after_seconds) {
  const Json error = Json::object({{"type", "error"},
                                   {"status", status},
                                   {"code", http::reason_phrase(status)},
                                   {"message", message},
                                   {"detail", ""},
                                   {"actions", Json::object()},
                                   {"links", Json::object()}});
  http::Response response = http::Response::text(status, to_text(error), "application/json");
  if (retry_after_seconds > 0) response.headers.set("Retry-After", std::to_string(retry_after_seconds));
  if (status == 401) response.headers.set("WWW-Authenticate", "Bearer realm=\"mooring\"");
  return response;
}

http::Response error_response(const registry::Refusal& refusal) {
  return error_response(status_of(refusal), refusal.error.message, refusal.retry_after_seconds.value_or(0));
}

}  // namespace moor::doors::longhorn
